# SPDX-License-Identifier: Apache-2.0
"""Beside Cockpit's own "Overview", in the shell: the same font, sizes and colours, light and dark. Cockpit shares no style with
packages, so a redesign of its pages shows up here."""

from web import DESKTOP, WebTest

# Values of a card, of the ground behind it, and of buttons; colours as three numbers.
LOOK = """
    const colour = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
    const ground = element => {
        for (let each = element; each; each = each.parentElement) {
            const { backgroundColor } = getComputedStyle(each);
            if (!/, 0\\)$/.test(backgroundColor)) return colour(backgroundColor);
        }
    };
    const isRound = style => parseFloat(style.borderRadius) > 8;
    const look = (parent, names) => {
        const [card, plain, primary, danger] = names.map(([tag, name]) => Object.assign(document.createElement(tag), { className: name }));
        parent.append(card, plain, primary, danger);
        const [cards, plains, primaries, dangers] = [card, plain, primary, danger].map(each => getComputedStyle(each));
        const found = {
            font: [...document.fonts].some(each => /Red ?Hat ?Text/.test(each.family) && each.status === "loaded"),
            size: cards.fontSize, text: colour(cards.color), ground: ground(parent), card: ground(card), roundCard: isRound(cards),
            plain: colour(plains.color), primary: colour(primaries.backgroundColor), danger: colour(dangers.color), roundButton: isRound(primaries) };
        for (const each of [card, plain, primary, danger]) each.remove();
        return found;
    };
"""
PAGE = LOOK + 'return look(document.querySelector("main"), [["div", "card"], ["button", ""], ["button", "primary"], ["button", "danger"]]);'
OVERVIEW = LOOK + """
    const prefix = ["pf-v6-c-", "pf-v5-c-", "pf-c-"].find(each => document.querySelector(`.${each}card`));
    return look(document.querySelector(`.${prefix}card`).parentElement, [["div", `${prefix}card`],
        ...["pf-m-secondary", "pf-m-primary", "pf-m-secondary pf-m-danger"].map(each => ["button", `${prefix}button ${each}`])]);
"""
# Of 255: below, two areas look alike.
VISIBLE = 8


class Look(WebTest):
    size = DESKTOP

    def looks(self, style):
        browser, cockpit = self.browser, self.cockpit()
        browser.driver.get(cockpit.address.replace("index.html", "manifest.json"))
        browser.driver.execute_script("localStorage.setItem('shell:style', arguments[0])", style)
        browser.open_shell(cockpit).sees("When an app asks for an accessory")
        mine = browser.driver.execute_script(PAGE)
        browser.show("system")
        frame = lambda: next((each for each in browser.find("iframe") if "/system/" in (each.get_attribute("src") or "")), None)
        browser.driver.switch_to.frame(browser.wait(frame, "the frame of Overview", text=False))
        browser.sees("Configuration")
        return browser.driver.execute_script(OVERVIEW), mine

    def test_as_cockpit(self):
        for style in ("light", "dark"):
            theirs, mine = self.looks(style)
            for name, value in theirs.items():
                with self.subTest(style=style, value=name):
                    if isinstance(value, list):
                        self.assertLess(max(abs(a - b) for a, b in zip(value, mine[name])), VISIBLE, f"{value} in Cockpit, {mine[name]} in the page")
                    else:
                        self.assertEqual(mine[name], value)
