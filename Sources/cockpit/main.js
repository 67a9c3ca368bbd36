// SPDX-License-Identifier: Apache-2.0
// The page begins here: the connection, the daemon's objects, the picker, and the sections beside it.

import "./theme.js";
import { Accessories } from "./accessories.js";
import { Activity } from "./activity.js";
import { Apps } from "./apps.js";
import { button, element, message, setAttribute, setText } from "./dom.js";
import { Explain } from "./explain.js";
import { Fleet, FleetPicker } from "./fleet.js";
import { Objects } from "./objects.js";
import { Picker } from "./picker.js";
import { PickerSheet } from "./picker-sheet.js";
import { Policy } from "./policy.js";
import { browser, bus, first } from "./registration.js";
import { askPermission, mayAsk, notify } from "./notify.js";
import { applyLanguage, words } from "./text.js";
import { visibility } from "./visibility.js";

const SECTIONS = { "": words.title, apps: words.apps, activity: words.activity, policy: words.policy, fleet: words.fleet };

/** For each adapter by name. rfkill, which not every machine has, lifts a block; bluetoothd gives power. */
const SWITCH_ON = `rfkill unblock bluetooth 2>/dev/null
for name; do busctl set-property org.bluez "/org/bluez/$name" org.bluez.Adapter1 Powered b true || exit; done`;

class Page {
    #bus;
    #objects;
    #picker;
    #sheet;
    #fleet;
    #views;
    #current = null;
    #key = null;
    #isScheduled = false;
    #banner = element("div", { class: "banner", role: "status" });
    #nav = element("nav", { "aria-label": words.sections() });
    #main = element("main", { tabindex: "-1" });

    constructor(bus) {
        this.#bus = bus;
        this.#objects = new Objects(bus);
        this.#picker = new Picker(bus, this.#objects);
        this.#sheet = new PickerSheet(this.#picker, app => {
            if (app) cockpit.location.go(["apps", app]);
            return this.#objects.isAdmin;
        });
        this.#sheet.addEventListener("aside", () => this.#schedule());
        const fleetPicker = new FleetPicker();
        this.#fleet = new Fleet(fleetPicker);
        this.#fleet.addEventListener("changed", () => this.#schedule());
        new PickerSheet(fleetPicker, () => false);
        this.#views = {
            "": new Accessories(bus, this.#objects), apps: new Apps(this.#objects),
            activity: new Activity(bus, this.#objects), policy: new Policy(this.#objects), fleet: this.#fleet,
        };
        for (const [path, text] of Object.entries(SECTIONS)) this.#nav.append(element("a", { href: `#/${path}` }, text()));
        const page = document.getElementById("page");
        applyLanguage();
        document.title = words.title();
        page.replaceChildren(element("header", {}, element("h1", {}, words.title()), this.#nav), this.#banner, this.#main);
        cockpit.addEventListener("locationchanged", () => this.#schedule());
        for (const each of [this.#objects, this.#picker]) each.addEventListener("changed", () => this.#schedule());
        this.#picker.addEventListener("changed", () => this.#announce());
        visibility.addEventListener("changed", () => this.#visibilityChanged());
    }

    #user = null;

    #announced = null;

    /** Announces a request outside the page: in the browser's tab, and in Cockpit's menu. */
    #announce() {
        const { run } = this.#picker;
        const text = run ? words.asks(run.AppName, run.Kind) : null;
        if (text === this.#announced) return;
        this.#announced = text;
        document.title = text ?? words.title();
        cockpit.transport.control("notify", { page_status: text ? { type: "info", title: text } : null });
        if (text) this.#notification = notify(text);
        else this.#notification?.close();
    }

    #notification = null;

    /** Out of view the page stands by; back in view it is registered like others, and reads properties that are not signalled. */
    #visibilityChanged() {
        if (this.#picker.state === "registered") this.#picker.register(this.#label);
        if (!visibility.isVisible) return;
        this.#notification?.close();
        this.#current?.shown?.();
    }

    /** This page's name at the daemon, for people: the user's, once it is known, and the browser's. */
    #label = "";

    /** Begins, and again whenever the daemon has come back. All questions are under way at once. */
    async start() {
        this.#label = browser();
        let wasReady = false;
        this.#objects.addEventListener("changed", () => {
            const isReady = this.#objects.state === "ready";
            if (isReady && !wasReady && this.#picker.state !== "registered") this.#picker.register(this.#label);
            if (!isReady && wasReady) this.#picker.forget();
            wasReady = isReady;
        });
        const registered = this.#picker.register(this.#label, first);
        cockpit.user().then(async user => {
            this.#user = user;
            this.#label = words.label(user.full_name || user.name, browser());
            // The registration under way has no user's name, whichever is answered first.
            await registered;
            if (this.#picker.state === "registered") this.#picker.register(this.#label);
        }, () => {});
        await Promise.all([this.#objects.load(), registered]);
        document.getElementById("page").removeAttribute("aria-busy");
    }

    #schedule() {
        if (this.#isScheduled) return;
        this.#isScheduled = true;
        requestAnimationFrame(() => { this.#isScheduled = false; this.#draw(); });
    }

    #draw() {
        const [section = "", detail] = cockpit.location.path;
        this.#drawBanner();
        const state = this.#objects.state !== "ready" ? this.#objects.state
            : this.#objects.isAdmin ? "admin" : this.#picker.state === "refused" ? "limited" : "member";
        this.#nav.hidden = state !== "admin";
        for (const [index, path] of Object.keys(SECTIONS).entries()) {
            setAttribute(this.#nav.children[index], "aria-current", path === section ? "page" : null);
            if (path === "fleet") this.#nav.children[index].hidden = !this.#fleet.isThere;
        }
        const key = `${state} ${section} ${detail ?? ""}`;
        if (key !== this.#key) {
            this.#key = key;
            this.#current?.hidden?.();
            this.#current = state === "member" ? this.#views[""] : state !== "admin" ? null
                : section === "apps" && detail ? new Explain(this.#bus, this.#objects, detail)
                    : this.#views[section] ?? this.#views[""];
            this.#main.replaceChildren(this.#current?.element ?? this.#message(state));
            this.#current?.draw();
            this.#current?.shown?.();
        } else {
            this.#current?.draw();
        }
    }

    /** The message in place of the sections. */
    #message(state) {
        switch (state) {
        case "absent": return message(words.absent(), words.absentHint(), element("code", {}, "systemctl status accessorysetupd"));
        case "lost": return message(words.lost(), words.lostHint(), button(words.reload(), () => location.reload(), "primary"));
        case "limited": return message(words.limited(), words.limitedHint());
        default: return message(words.starting());
        }
    }

    /** Switches adapters on that are off or blocked, for admins. */
    #bluetoothHelp(state) {
        if (state !== "off" || !this.#objects.isAdmin) return element("p", {}, words.noRadioHint(state));
        const failure = element("p", { class: "failure", role: "alert" });
        return element("div", {}, button(words.switchOn(), async () => {
            setText(failure, "");
            try {
                await cockpit.spawn(["sh", "-c", SWITCH_ON, "sh", ...(this.#objects.admin.Adapters ?? []).map(each => each.name)],
                    { superuser: "try", err: "message" });
            } catch (error) {
                setText(failure, words.error(error));
            }
        }, "primary"), failure);
    }

    /** Whether apps that ask are shown here. */
    #drawBanner() {
        const { state, shownElsewhere, run, problem } = this.#picker;
        const { Bluetooth: bluetooth } = this.#objects.manager;
        this.#banner.hidden = this.#objects.state !== "ready" || (!!run && !this.#sheet.isAside);
        this.#banner.className = "banner";
        const say = (kind, ...parts) => {
            if (kind) this.#banner.classList.add(kind);
            const key = parts.map(each => each.textContent ?? each).join("\n");
            if (this.#banner.dataset.text === key) return;
            this.#banner.dataset.text = key;
            this.#banner.replaceChildren(...parts);
        };
        if (this.#sheet.isAside && run) {
            say("warning", element("p", {}, words.aside(run.AppName)),
                button(words.backToPicker(), () => this.#sheet.setAside(false), "primary"));
        } else if (state === "refused") {
            say("warning", element("strong", {}, words.refused()), element("p", {}, words.refusedHint()),
                element("code", {}, `sudo usermod -aG accessory-picker ${this.#user?.name ?? "USER"}`));
        } else if (state === "failed") {
            say("warning", element("strong", {}, words.failedToRegister()), element("p", {}, words.error(problem)));
        } else if (shownElsewhere) {
            const who = shownElsewhere.label || words.anotherProgram();
            const [asking] = this.#objects.all("Picker");
            say("", ...(asking ? [element("strong", {}, words.busyElsewhere(asking.AppName, who)), element("p", {}, words.elsewhere(who))]
                : [element("p", {}, words.elsewhere(who))]));
        } else if (bluetooth && bluetooth !== "ready") {
            say("warning", element("strong", {}, words.noRadio(bluetooth)), this.#bluetoothHelp(bluetooth));
        } else if (state === "starting") {
            say("", element("p", {}, words.starting()));
        } else {
            say("good", element("p", {}, words.ready()), ...(mayAsk() ? [button(words.notifyMe(), async () => { await askPermission(); this.#schedule(); })] : []));
        }
    }
}

new Page(bus).start();

// Cockpit's switch for administrative access: the page reloads as another user.
const permission = cockpit.permission({ admin: true });
let wasAllowed = null;
permission.addEventListener("changed", () => {
    if (wasAllowed !== null && permission.allowed !== wasAllowed) location.reload();
    wasAllowed = permission.allowed;
});
