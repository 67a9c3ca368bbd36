# SPDX-License-Identifier: Apache-2.0
"""Random input of the page: hundreds of changes by chance, of the right types and of others, the same ones in every run. After each of
change the page has complained of nothing, and still answers."""

import json
from xml.etree import ElementTree

from web import WebTest  # first: it knows where the others are

from harness.programs import TESTS
from harness.radio import scenario

SEED = 20
CHANGES = 300

# The replacement of Cockpit's D-Bus client before the page begins, and a source of chance with a seed.
PLAYED = """
(() => {
    const { seed, interfaces } = __WORLD__;
    let state = seed;
    const chance = below => {
        // mulberry32
        state = (state + 0x6D2B79F5) | 0;
        let t = Math.imul(state ^ (state >>> 15), 1 | state);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) % below;
    };
    const pick = list => list[chance(list.length)];
    const root = "/org/accessorysetup1";
    const paths = {
        Accessory: [`${root}/accessory/1`, `${root}/accessory/2`], Admin: [`${root}/admin`], App: [`${root}/app/a`, `${root}/app/b`],
        Grant: [`${root}/grant/1`, `${root}/grant/2`], Manager: [root], Network: [`${root}/accessory/1`],
        Picker: [`${root}/picker/1`], Session: [`${root}/session/1`],
    };
    const texts = ["", "com.example.dice", "Dice", "ready", "off", "authorized", "searching", "offering", "pairing", "bridging", "confirming",
        "renaming", "done", "failed", "migration", "rename", "wpa2", "2.4 GHz", "on", "granted", "refused", `${root}/accessory/1`, "deny",
        "approve", "hear", "<b>x</b>", "$0 %s", "org.accessorysetup1.Error.UserCancelled", "active", "\\u202eabc", "x".repeat(300)];
    const kinds = ["confirm-passkey", "display-passkey", "display-pin", "enter-passkey", "enter-pin", "consent", "unheard-of"];
    const keys = {
        id: () => pick(["1:1", "1:2", "1:3"]), name: () => text(), advertisedName: () => text(), hasImage: () => chance(2) === 0, rssi: () => -chance(128),
        shared: () => chance(2) === 0, ssid: () => "RGljZQ==", network: () => text(), security: () => pick(["wpa2", "open", "x"]), band: () => text(),
        networkRssi: () => -chance(128), kind: () => pick(kinds), passkey: () => chance(1e6), entered: () => chance(9), pin: () => text(),
        error: () => text(), message: () => text(), finishInApp: () => chance(2) === 0, migrations: () => [text(), text()],
        program: () => ":1.2", label: () => text(), isYours: () => chance(4) > 0, shows: () => chance(3) > 0, file: () => text(), line: () => chance(99),
        key: () => text(), reason: () => text(), apps: () => [text()], target: () => text(), source: () => text(), minimumRssi: () => -chance(128),
        time: () => number(), event: () => text(), app: () => text(), accessory: () => text(), who: () => text(), why: () => text(),
        address: () => text(), item: () => text(), reasons: () => [text()],
    };
    const text = () => pick(texts);
    const number = () => pick([0, 1, -1, 1700000000, 2 ** 53, -(2 ** 53), 255, 1e300, 0.5]);
    const variant = (t, v) => ({ t, v });
    const strange = depth => pick([
        () => null, () => text(), () => number(), () => true, () => [], () => ({}), () => [text(), number(), null], () => variant("v", variant("s", text())),
        () => depth > 3 ? 0 : [strange(depth + 1)], () => depth > 3 ? 0 : ({ name: strange(depth + 1), id: strange(depth + 1), apps: strange(depth + 1) }),
    ])();
    const value = type => {
        if (chance(8) === 0) return strange(0);
        if (type === "a{sv}") {
            const made = {};
            for (const [key, make] of Object.entries(keys)) if (chance(3) > 0) made[key] = variant("v", chance(12) === 0 ? strange(0) : make());
            return made;
        }
        if (type === "a{sas}") return { Supports: ["Bluetooth"], [text()]: value("as") };
        if (type === "ay") return "RGljZQ==";
        if (type.startsWith("a")) return Array.from({ length: chance(5) }, () => value(type.slice(1)));
        if (type === "b") return chance(2) === 0;
        if ("so".includes(type)) return text();
        return number();
    };
    const properties = name => {
        const made = {};
        for (const [property, type] of Object.entries(interfaces[name])) if (chance(8) > 0) made[property] = variant(type, value(type));
        if (name === "Manager" && chance(3) > 0) made.Pickers = variant("aa{sv}", [{ isYours: variant("b", true), shows: variant("b", true) }]);
        if (name === "Picker" && chance(3) > 0) made.Stage = variant("s", pick(["searching", "offering", "pairing", "renaming", "confirming", "done"]));
        return made;
    };
    const full = name => `org.accessorysetup1.${name}`;
    const names = Object.keys(paths);
    const objects = () => {
        const all = {};
        for (const name of names) for (const path of paths[name]) {
            if (path === root || name === "Admin" || chance(5) === 0) continue;
            all[path] = { ...all[path], [full(name)]: properties(name) };
        }
        return all;
    };
    const listeners = { owner: [], close: [] };
    const subscriptions = [];
    let isGood = false;
    const answer = (path, name, member, args) => {
        if (isGood) return good(path, member, args);
        if (chance(12) === 0) throw { name: full(pick(["Error.InvalidRequest", "Error.Unknown"])), message: text() };
        switch (member) {
        case "GetAll": return [properties(args[0].split(".").at(-1))];
        case "GetManagedObjects": return [chance(16) === 0 ? strange(0) : objects()];
        case "GetAudit": return [value("aa{sv}")];
        case "Explain": case "ListDevices": return [value("aa{sv}")];
        case "ImageData": return ["iVBORw0KGgo="];
        default: return [];
        }
    };
    // A daemon that says one sensible thing.
    const good = (path, member, args) => {
        switch (member) {
        case "GetAll": return [args[0] === full("Manager") ? { Bluetooth: variant("s", "ready"), Pickers: variant("aa{sv}", []) } : {}];
        case "GetManagedObjects": return [{ [`${root}/accessory/9`]: { [full("Accessory")]: { DisplayName: variant("s", "The last die") } } }];
        case "GetAudit": case "Explain": return [[]];
        default: return [];
        }
    };
    const client = {
        addEventListener: (name, body) => listeners[name]?.push(body),
        subscribe: (match, body) => subscriptions.push([match, body]),
        close: () => { subscriptions.length = 0; },
        call: (path, name, member, args) => new Promise((resolve, reject) => {
            try { resolve(answer(path, name, member, args)); } catch (error) { reject(error); }
        }),
    };
    const tell = (path, name, member, args) => {
        for (const [match, body] of subscriptions) {
            const fits = (match.path ?? path) === path && match.interface === name && (match.member ?? member) === member;
            if (fits) body(path, name, member, args);
        }
    };
    const change = () => {
        const name = pick(names), path = pick(paths[name]);
        switch (chance(16)) {
        case 0: tell(root, "org.freedesktop.DBus.ObjectManager", "InterfacesRemoved", [path, [full(name)]]); return `removed ${path}`;
        case 1: case 2: case 3:
            tell(root, "org.freedesktop.DBus.ObjectManager", "InterfacesAdded", [path, chance(10) === 0 ? strange(0) : { [full(name)]: properties(name) }]);
            return `added ${path} ${name}`;
        case 4: tell(`${root}/admin`, full("Admin"), "Audited", [value("aa{sv}")]); return "audited";
        case 5: location.hash = `#/${pick(["", "apps", "activity", "policy", "apps/com.example.dice", "nowhere"])}`; return `went to ${location.hash}`;
        case 6:
            if (chance(4) > 0) return "nothing";
            for (const each of listeners.owner) each(null, null);
            for (const each of listeners.owner) each(null, ":1.7");
            return "another daemon";
        default: {
            const values = properties(name);
            const gone = chance(6) === 0 ? Object.keys(interfaces[name]).slice(0, 1) : [];
            tell(path, "org.freedesktop.DBus.Properties", "PropertiesChanged", [full(name), values, chance(20) === 0 ? strange(0) : gone]);
            return `changed ${path} ${name} ${JSON.stringify(values)}`;
        }
        }
    };
    const complaints = [];
    addEventListener("error", event => complaints.push(String(event.error?.stack ?? event.message)));
    addEventListener("unhandledrejection", event => complaints.push(String(event.reason?.stack ?? event.reason?.message ?? event.reason)));
    const frame = () => new Promise(requestAnimationFrame);
    window.playSome = async (from, count) => {
        for (let number = from; number < from + count; number += 1) {
            const what = change();
            // Awaited calls go on, and scheduled changes are drawn.
            await frame();
            await frame();
            if (complaints.length > 0) return { number, what, complaints };
            if (!document.querySelector("#page main")?.firstElementChild) return { number, what, complaints: ["the page is empty"] };
        }
        return null;
    };
    window.playGood = async () => {
        isGood = true;
        location.hash = "#/";
        for (const each of listeners.owner) each(null, ":1.8");
    };
    let real;
    Object.defineProperty(window, "cockpit", {
        configurable: true, get: () => real,
        set: made => {
            real = made;
            const dbus = made?.dbus;
            // Cockpit has other uses for D-Bus, which stay.
            if (dbus) made.dbus = (name, ...rest) => name === "org.accessorysetup1" ? client : dbus.call(made, name, ...rest);
        },
    });
})();
"""


def interfaces():
    """Every property that the daemon has, by its interface, with its type: from the files that describe them."""
    found = {}
    for file in sorted((TESTS.parent / "Sources/AccessoryBus/Interfaces").glob("*.xml")):
        for interface in ElementTree.parse(file).iter("interface"):
            short = interface.get("name").removeprefix("org.accessorysetup1.")
            found[short] = {each.get("name"): each.get("type") for each in interface.findall("property")}
    return found


class Random(WebTest):
    scenario = scenario()

    def test_whatever_it_is_told(self):
        source = PLAYED.replace("__WORLD__", json.dumps({"seed": SEED, "interfaces": interfaces()}))
        driver = self.browser.driver
        driver.execute_cdp_cmd("Page.enable", {})
        added = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
        self.addCleanup(driver.execute_cdp_cmd, "Page.removeScriptToEvaluateOnNewDocument", added)
        page = self.open()
        driver.set_script_timeout(240)
        for begin in range(0, CHANGES, 50):
            broken = driver.execute_async_script(
                "const done = arguments[2]; playSome(arguments[0], arguments[1]).then(done, error => done(String(error)))", begin, 50)
            self.assertIsNone(broken)
        # It has not only kept still: it shows valid input.
        driver.execute_script("playGood()")
        page.sees("The last die")
        self.assertQuiet()
