// SPDX-License-Identifier: Apache-2.0
// The devices of a grant for a kind, for admins: those that the app hears, as of the last reading, and those that are
// excluded. Each can be excluded, and included again.

import { KeyedList, ask, button, element, field, freshID, ltr, name, setAttribute, setText, show } from "./dom.js";
import { heardDevices } from "./shapes.js";
import { words } from "./text.js";

/** The age of a reading, in milliseconds, after which a list that is opened is read again. */
const STALE = 15_000;
/** Up to so many devices need no search. */
const FEW = 8;
/** Devices that are drawn at first, and with each "more". */
const SHOWN = 40;

export class HeardDevices {
    #bus;
    #path;
    #app = "";
    #excluded = new Set();
    /** The names by address. One that was included again counts as heard until the next reading. */
    #names = new Map();
    #reading = null;
    #readAt = -Infinity;
    #count = SHOWN;
    #search = element("input", { id: freshID(), type: "search", autocomplete: "off" });
    #tools = field(words.search(), this.#search);
    #total = element("p", { class: "note" });
    #failure = element("p", { class: "failure", role: "alert", hidden: true });
    #items = element("ul", {});
    #list = new KeyedList(this.#items, each => each.address, each => this.#make(each), (row, each) => row.update(each));
    #more = button(words.older(), () => { this.#count += SHOWN; this.#draw(); });
    element = element("div", { class: "devices" }, this.#total, this.#tools, this.#failure, this.#items, this.#more);

    /** @param {string} path of the grant. */
    constructor(bus, path) {
        this.#bus = bus;
        this.#path = path;
        this.#search.addEventListener("input", () => { this.#count = SHOWN; this.#draw(); });
    }

    get isShown() { return this.element.isConnected && !this.element.closest("[hidden]"); }

    /** Shows the grant as it is now. */
    update(grant, app) {
        this.#app = app;
        this.#excluded = new Set(grant.Excluded);
        for (const each of this.#excluded) if (!this.#names.has(each)) this.#names.set(each, "");
        this.#draw();
        if (performance.now() - this.#readAt > STALE) this.read();
    }

    /** Reads the devices that the app hears: they are not signalled. */
    async read() {
        const reading = this.#reading = {};
        this.#readAt = performance.now();
        try {
            const [devices] = await this.#bus.call(this.#path, "Grant.ListDevices");
            if (this.#reading !== reading) return;
            // The daemon keeps no names of excluded devices.
            const names = new Map([...this.#excluded].map(each => [each, this.#names.get(each) ?? ""]));
            for (const each of heardDevices(devices)) names.set(each.address, each.name);
            this.#names = names;
            show(this.#failure, false);
        } catch (error) {
            if (this.#reading !== reading) return;
            setText(this.#failure, words.error(error));
            show(this.#failure, true);
        }
        this.#draw();
    }

    /** Excluded devices come first: a list of a thousand would hide them. */
    #draw() {
        const text = this.#search.value.trim().toLocaleLowerCase();
        const found = [...this.#names].filter(each => !text || each.join("\n").toLocaleLowerCase().includes(text))
            .map(([address, shown]) => ({ address, name: shown, isExcluded: this.#excluded.has(address) }))
            .sort((a, b) => Number(b.isExcluded) - Number(a.isExcluded) || (a.address < b.address ? -1 : 1));
        this.#list.draw(found.slice(0, this.#count));
        setAttribute(this.#items, "aria-label", words.devicesOf(this.#app));
        show(this.#tools, this.#names.size > FEW || text !== "");
        show(this.#more, found.length > this.#count);
        const heard = this.#names.size - this.#excluded.size;
        setText(this.#total, found.length === 0 && text ? words.noDeviceFits()
            : [heard > 0 ? words.heardNow(heard) : words.hearsNone(), this.#excluded.size > 0 && words.excludedCount(this.#excluded.size)]
                .filter(each => each).join(" · "));
    }

    #make({ address }) {
        const title = name("");
        const state = element("span", {});
        const failure = element("p", { class: "failure", role: "alert", hidden: true });
        let shown = null;
        const change = button("", () => shown.isExcluded ? this.#include(address, failure) : this.#exclude(shown));
        const row = element("li", {}, element("span", { class: "about" }, element("span", { class: "name" }, title),
            element("span", { class: "note" }, ltr(address), state)), change, failure);
        row.update = device => {
            shown = device;
            setText(title, device.name || words.noName());
            setText(state, device.isExcluded ? ` · ${words.isExcluded()}` : "");
            setText(change, device.isExcluded ? words.include() : words.exclude());
            const label = words.deviceLabel(device);
            setAttribute(change, "aria-label", device.isExcluded ? words.includeOf(label) : words.excludeOf(label));
        };
        return row;
    }

    #exclude(device) {
        ask({
            title: words.excludeTitle(words.deviceLabel(device)), action: words.exclude(), kind: "danger",
            content: [element("p", {}, words.excludeHint(this.#app))],
            run: () => this.#bus.call(this.#path, "Grant.Exclude", device.address),
        });
    }

    async #include(address, failure) {
        failure.hidden = true;
        try {
            await this.#bus.call(this.#path, "Grant.Include", address);
        } catch (error) {
            setText(failure, words.error(error));
            failure.hidden = false;
        }
    }
}
