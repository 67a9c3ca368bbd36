# SPDX-License-Identifier: Apache-2.0
"""The devices of a grant for a kind on the page: an admin sees those that the app hears, excludes one and includes it again; and a list of a
thousand, with a daemon that is played."""

from web import DESKTOP, WebTest  # first: it knows where the others are

from harness.waiting import wait
from test_kinds import KindTest, kind
from test_states import States

TAG = "C0:FF:EE:00:02:0"


class Devices(KindTest, States):
    manifest = {}

    def setUp(self):
        super().setUp()
        self.allow(kind("Ruuvi tags"))
        self.person.close()
        self.page = self.open()
        self.page.sees("Ruuvi tags", "hears all such devices")

    def rows(self):
        """The devices from top to bottom, each as its texts."""
        return [each.text.split("\n") for each in self.page.find(".devices li") if each.is_displayed()]

    def wait_rows(self, *rows):
        self.page.wait(lambda: self.rows() == [list(each) for each in rows], lambda: f"{rows}; there are {self.rows()}")

    @staticmethod
    def heard(number):
        return f"tag-{number}", f"{TAG}{number}", "Exclude"

    def reload(self):
        self.page.driver.refresh()
        self.page.sees("Ruuvi tags")

    def exclude(self, number):
        self.page.press(f"Exclude tag-{number} ({TAG}{number})")
        self.page.sheet_says(f"Exclude tag-{number} ({TAG}{number})?", "Dice no longer hears this device")
        self.page.press("Exclude", "dialog")
        self.page.no_sheet()

    def test_one_is_excluded_and_included_again(self):
        self.page.sees("No devices are heard now: they are listed while the app uses Bluetooth.")
        view = self.searching()
        self.reload()
        self.page.sees("3 devices heard now")
        self.wait_rows(*(self.heard(number) for number in (1, 2, 3)))
        self.assertEqual(self.page.axe(), [])
        self.exclude(2)
        # It keeps its name, which the daemon does not list any more.
        self.wait_rows(("tag-2", f"{TAG}2 · excluded", "Include"), self.heard(1), self.heard(3))
        self.page.sees("2 devices heard now · 1 excluded")
        self.assertEqual(list(self.world.grants()[self.grant]["Excluded"]), [f"{TAG}2"])
        wait(lambda: self.tags[1] not in self.devices(view), what="the tag to go", also_every=0.05)
        self.check("devices")
        self.page.press(f"Include tag-2 ({TAG}2)")
        self.wait_rows(*(self.heard(number) for number in (1, 2, 3)))
        self.assertEqual(list(self.world.grants()[self.grant]["Excluded"]), [])
        self.assertQuiet()

    def test_without_confirmation_none_is_excluded(self):
        self.searching()
        # They are read again once the section is back in view.
        self.page.go("policy")
        self.page.sees("There are no rules")
        self.page.go("")
        self.page.press(f"Exclude tag-1 ({TAG}1)")
        self.page.press("Cancel", "dialog")
        self.page.no_sheet()
        self.wait_rows(*(self.heard(number) for number in (1, 2, 3)))
        self.assertEqual(list(self.world.grants()[self.grant]["Excluded"]), [])

    def test_excluded_by_another_admin(self):
        self.admin("Exclude", "s", f"{TAG}3")
        self.wait_rows(("(no name)", f"{TAG}3 · excluded", "Include"))
        self.admin("Include", "s", f"{TAG}3")
        self.page.wait(lambda: "excluded" not in self.page.text, "it to be included")

    def test_refusals_are_shown(self):
        """Another admin was quicker."""
        self.searching()
        self.reload()
        self.page.press(f"Exclude tag-1 ({TAG}1)")
        self.page.sheet_says("Exclude tag-1")
        self.admin("Exclude", "s", f"{TAG}1")
        self.page.press("Exclude", "dialog")
        self.page.sheet_says("Invalid request", "already")
        self.page.press("Cancel", "dialog")
        self.page.no_sheet()
        self.admin("Revoke")
        self.page.wait(lambda: self.rows() == [], "the grant to go")
        self.assertQuiet()


# The list over a daemon that the test plays.
PLAYED = """
    const { plain } = await import(new URL("bus.js", location.href));
    const { HeardDevices } = await import(new URL("heard-devices.js", location.href));
    const tasks = [];
    new PerformanceObserver(all => tasks.push(...all.getEntries().map(each => Math.round(each.duration)))).observe({ type: "longtask" });
    const devices = Array.from({ length: 1000 }, (_, number) => ({
        address: { t: "s", v: `C0:FF:EE:00:${String(Math.floor(number / 100)).padStart(2, "0")}:${String(number % 100).padStart(2, "0")}` },
        name: { t: "s", v: `tag ${number % 500}` } }));
    let failure = null;
    const calls = [];
    const bus = { async call(...call) { calls.push(call.slice(1)); if (failure) throw failure; return plain([devices]); } };
    const list = new HeardDevices(bus, "/org/accessorysetup1/grant/1");
    document.querySelector("main").replaceChildren(list.element);
    const painted = () => new Promise(next => requestAnimationFrame(() => setTimeout(next)));
    const show = async Excluded => { list.update({ Excluded }, "Dice"); await painted(); };
    const rows = () => [...list.element.querySelectorAll("li")];
    const total = () => list.element.querySelector(".note").textContent;
    const find = text => {
        const field = list.element.querySelector("input[type=search]");
        field.value = text;
        field.dispatchEvent(new Event("input"));
        return rows().length;
    };
"""


class Thousand(WebTest):
    size = DESKTOP

    def played(self, body, slowed=1):
        return super().played(body, PLAYED, slowed)

    def test_a_part_is_drawn_and_all_are_found(self):
        self.assertEqual(self.played("""
            await show([]);
            const first = rows().length;
            [...list.element.querySelectorAll("button")].at(-1).click();
            const more = rows().length;
            done([first, more, find("tag 7"), find("c0:ff:ee:00:09:99"), find("none"), total(), find(""), total()]);
        """), [40, 80, 22, 1, 0, "No device matches.", 40, "1000 devices heard now"])

    def test_excluded_ones_come_first_and_a_row_that_moves_keeps_the_focus(self):
        self.assertEqual(self.played("""
            await show([]);
            const row = rows()[30], button = row.querySelector("button");
            button.focus();
            await show([devices[30].address.v]);
            done([rows()[0] === row, document.activeElement === button, button.textContent, total()]);
        """), [True, True, "Include", "999 devices heard now · 1 excluded"])

    def test_a_failure_is_shown_until_the_next_reading(self):
        self.assertEqual(self.played("""
            const shown = () => { const found = list.element.querySelector(".devices > .failure"); return found.hidden ? "" : found.textContent; };
            failure = { name: "org.accessorysetup1.Error.UnknownObject", message: "gone" };
            await show([]);
            const before = shown();
            failure = null;
            await list.read();
            done([before, shown(), rows().length]);
        """), ["It no longer exists.", "", 40])

    def test_only_an_old_reading_is_repeated_and_only_in_sight(self):
        self.assertEqual(self.played("""
            await show([]);
            await show([devices[1].address.v]);
            const inSight = list.isShown;
            list.element.parentElement.hidden = true;
            const hidden = list.isShown;
            list.element.parentElement.hidden = false;
            done([calls.length, inSight, hidden]);
        """), [1, True, False])

    def test_on_a_slow_machine(self):
        """The figure of Docs/Performance.md, and the elements that a reading without a change touches."""
        tasks, touched = self.played("""
            await show([]);
            await painted();
            await new Promise(next => setTimeout(next, 500));
            tasks.length = 0;
            let touched = 0;
            const observer = new MutationObserver(all => { touched += all.length; });
            observer.observe(list.element, { subtree: true, childList: true, characterData: true, attributes: true });
            for (let turn = 0; turn < 10; turn += 1) {
                await list.read();
                await new Promise(next => setTimeout(next, 100));
            }
            done([tasks, touched]);
        """, slowed=6)
        print(f"1,000 devices of a kind at a sixth of this machine's speed: tasks over 50 ms for ten readings: {tasks}")
        self.assertEqual(touched, 0)
