// SPDX-License-Identifier: Apache-2.0
// "Why is it not offered?": the devices in range of an app, and the daemon's reasons, read every few seconds while
// the section is visible.

import { KeyedList, badge, button, element, setAttribute, setText } from "./dom.js";
import { ADMIN } from "./bus.js";
import { explained } from "./shapes.js";
import { bars, words } from "./text.js";

/** Seconds of one scan. */
const SECONDS = 3;
/** Scans in a row; scanning costs power, and a page may be left open. */
const LOOKS = 40;

const isOffered = device => device.reasons.length === 0 && device.item !== "";

export class Explain {
    #bus;
    #objects;
    #app;
    #heard = new Map();
    #list;
    #round = 0;
    #status = element("p", { class: "status", role: "status" });
    #failure = element("p", { class: "failure", role: "alert", hidden: true });
    #title = element("h2", {});
    #toggle;
    element;

    constructor(bus, objects, app) {
        this.#bus = bus;
        this.#objects = objects;
        this.#app = app;
        const list = element("ul", { class: "cards" });
        this.#list = new KeyedList(list, each => each.key, () => this.#make(), (item, each) => item.update(each));
        this.#toggle = button("", () => { if (this.#round > 0) this.hidden(); else this.shown(); });
        this.element = element("section", { class: "explain" }, element("p", {}, element("a", { href: "#/apps" }, `‹ ${words.back()}`)),
            this.#title, element("p", { class: "hint" }, words.whyHint()), this.#status, this.#failure, list,
            element("div", { class: "actions" }, this.#toggle));
    }

    /** Scans, round by round, until `hidden`. */
    async shown() {
        if (this.#round > 0) return;
        this.#failure.hidden = true;
        for (this.#round = 1; this.#round > 0 && this.#round <= LOOKS && this.element.isConnected; this.#round += 1) {
            this.draw();
            if (document.hidden) break;
            try {
                const options = { app: cockpit.variant("s", this.#app), seconds: cockpit.variant("d", SECONDS) };
                const [devices] = await this.#bus.call(ADMIN, "Admin.Explain", options);
                this.#take(devices);
            } catch (error) {
                setText(this.#failure, words.error(error));
                this.#failure.hidden = false;
                break;
            }
        }
        this.#round = 0;
        this.draw();
    }

    hidden() { this.#round = 0; this.draw(); }

    /** The devices in range now; devices keep their places, and those out of range are removed. */
    #take(devices) {
        const keys = new Set();
        for (const device of explained(devices)) {
            const key = device.address || `network ${device.ssid}`;
            keys.add(key);
            this.#heard.set(key, { ...device, key });
        }
        for (const key of this.#heard.keys()) if (!keys.has(key)) this.#heard.delete(key);
    }

    draw() {
        // This section is about devices that are not offered.
        const heard = [...this.#heard.values()].sort((a, b) => Number(isOffered(a)) - Number(isOffered(b)));
        setText(this.#title, words.whyTitle(this.#objects.appName(this.#app)));
        setText(this.#toggle, this.#round > 0 ? words.whyStop() : words.whyStart());
        setText(this.#status, this.#round === 0 ? words.whyStopped() : heard.length > 0 ? words.whyLooking() : `${words.whyLooking()}. ${words.whyNothing()}`);
        this.#status.classList.toggle("listening", this.#round > 0);
        this.#list.draw(heard);
    }

    #make() {
        const name = element("h3", {});
        const address = element("p", { class: "note" });
        const strength = element("span", { class: "strength", role: "img" }, ...[1, 2, 3, 4].map(() => element("i", {})));
        const badges = element("p", { class: "badges" });
        const item = element("p", {});
        const reasons = element("ul", { class: "reasons" });
        const made = element("li", {}, element("article", { class: "card" }, element("div", { class: "heading" }, name, strength), address, badges, item, reasons));
        made.update = device => {
            setText(name, device.network ?? (device.name || words.noName()));
            setText(address, [device.ssid === undefined ? device.address : "Wi-Fi", words.dBm(device.rssi)].filter(each => each).join(" · "));
            const shown = bars(device.rssi);
            setAttribute(strength, "data-bars", String(shown));
            setAttribute(strength, "aria-label", words.strength(shown));
            badges.replaceChildren(isOffered(device) ? badge(words.isOffered(), "good") : badge(words.isNotOffered(), "warning"));
            setText(item, device.item ? words.matches(device.item) : "");
            reasons.replaceChildren(...device.reasons.map(each => element("li", { lang: "en" }, each)));
        };
        return made;
    }
}
