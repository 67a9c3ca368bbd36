// SPDX-License-Identifier: Apache-2.0
// The present and the past, for admins: pickers, sessions, picker programs, and the audit trail, live.

import { KeyedList, badge, button, choices, element, field, freshID, setText } from "./dom.js";
import { ADMIN } from "./bus.js";
import { auditLines } from "./shapes.js";
import { moment, words } from "./text.js";

/** Lines of the trail that are read and kept. */
const KEPT = 2000;
/** Lines that are shown at first, and with each "more". */
const SHOWN = 100;
/** Events that give access, and those that take it away. */
const GIVEN = new Set(["granted", "authorized", "updated", "enabled"]);
const TAKEN = new Set(["revoked", "disabled", "unpaired", "storeReplaced"]);
const CHANGES = new Set([...GIVEN, ...TAKEN, "renamed", "muted", "unmuted"]);

export class Activity {
    #bus;
    #objects;
    #entries = [];
    #newest = 0;
    #count = SHOWN;
    #now = element("ul", { class: "plain" });
    #programs = element("ul", { class: "plain" });
    #app = element("select", { id: freshID() });
    #kind = element("select", { id: freshID() });
    #search = element("input", { id: freshID(), type: "search", autocomplete: "off" });
    #total = element("p", { class: "note", role: "status" });
    #list;
    #more = button(words.older(), () => { this.#count += SHOWN; this.#drawTrail(); });
    #failure = element("p", { class: "failure", role: "alert", hidden: true });
    #readsFor = null;
    /** Lines that were signalled while the trail is being read; null at other times. */
    #told = null;
    element;

    constructor(bus, objects) {
        this.#bus = bus;
        this.#objects = objects;
        const list = element("ol", { class: "trail" });
        this.#list = new KeyedList(list, each => each.id, each => this.#line(each));
        choices(this.#kind, [["", words.allEvents()], ["changes", words.changes()], ["actions", words.actions()], ["refused", words.refusals()]]);
        for (const control of [this.#app, this.#kind, this.#search]) {
            control.addEventListener("input", () => { this.#count = SHOWN; this.#drawTrail(); });
        }
        this.element = element("section", { "aria-label": words.activity() },
            element("h2", {}, words.runsNow()), this.#now,
            element("h2", {}, words.programs()), this.#programs,
            element("h2", {}, words.trail()),
            element("div", { class: "filters" }, field(words.search(), this.#search), field(words.whichApp(), this.#app), field(words.whichEvents(), this.#kind)),
            this.#total, this.#failure, list, element("div", { class: "actions" }, this.#more));
        bus.on(ADMIN, "Admin.Audited", entries => {
            this.#told?.push(entries);
            this.#take(entries);
            this.#drawTrail();
        });
    }

    draw() {
        this.#drawRunning();
        const isThere = this.#objects.isAdmin && this.#objects.state === "ready";
        if (!isThere) this.#readsFor = null;
        else if (this.#readsFor === null) this.#read();
        this.#drawTrail();
    }

    /** Reads the trail; the daemon signals later lines. */
    async #read() {
        const reading = this.#readsFor = Symbol("reading");
        const told = this.#told = [];
        try {
            const [entries] = await this.#bus.call(ADMIN, "Admin.GetAudit", { limit: cockpit.variant("u", KEPT) });
            if (this.#readsFor !== reading) return;
            this.#entries = [];
            this.#newest = 0;
            // Cockpit may hand over a signal before an answer that was sent earlier.
            for (const each of [entries, ...told]) this.#take(each);
            this.#failure.hidden = true;
        } catch (error) {
            setText(this.#failure, words.error(error));
            this.#failure.hidden = false;
        }
        if (this.#told === told) this.#told = null;
        this.#drawTrail();
    }

    /** Newest first, without lines that are listed already. */
    #take(entries) {
        const fresh = auditLines(entries).filter(each => each.id > this.#newest);
        if (fresh.length === 0) return;
        this.#newest = Math.max(...fresh.map(each => each.id));
        this.#entries = [...fresh.reverse(), ...this.#entries].slice(0, KEPT);
    }

    #drawRunning() {
        const pickers = this.#objects.all("Picker").map(each => element("li", {},
            words.pickerNow(each.AppName, this.#programName(each.Program))));
        const sessions = this.#objects.all("Session").map(each => element("li", {}, words.sessionOf(this.#objects.appName(each.App)), " ",
            badge(words.sessionState(each.State), each.State === "active" ? "good" : ""), element("span", { class: "note" }, each.Program ?? "")));
        const running = [...pickers, ...sessions];
        this.#now.replaceChildren(...(running.length > 0 ? running : [element("li", {}, words.nothingRuns())]));
        const programs = this.#objects.manager.Pickers ?? [];
        this.#programs.replaceChildren(...(programs.length > 0 ? programs.map((each, index) => element("li", {},
            each.isYours ? words.thisPage() : each.label || each.program, " ",
            badge(each.shows ? words.shows() : index === 0 ? words.next() : words.waits(), index === 0 ? "good" : ""),
            element("span", { class: "note" }, each.program))) : [element("li", {}, words.noPrograms())]));
    }

    #programName(program) {
        if (!program) return words.byPolicy();
        const found = this.#objects.manager.Pickers?.find(each => each.shows);
        return found ? (found.isYours ? words.thisPage() : found.label || found.program) : program;
    }

    #drawTrail() {
        if (!this.element.isConnected) return;
        this.#drawApps();
        const [app, kind, text] = [this.#app.value, this.#kind.value, this.#search.value.trim().toLocaleLowerCase()];
        const fits = each => (!app || each.app === app)
            && (!kind || kind === (CHANGES.has(each.event) ? "changes" : each.event === "refused" ? "refused" : "actions"))
            && (!text || [each.event, words.event(each.event), each.app, this.#accessory(each), each.who, each.why]
                .some(part => part.toLocaleLowerCase().includes(text)));
        const found = this.#entries.filter(fits);
        this.#list.draw(found.slice(0, this.#count));
        this.#more.hidden = found.length <= this.#count;
        setText(this.#total, found.length > 0 ? words.lines(found.length) : words.noLines());
    }

    #drawApps() {
        const apps = [...new Set(this.#entries.map(each => each.app).filter(each => each))].sort();
        if (this.#app.options.length === apps.length + 1) return;
        const chosen = this.#app.value;
        choices(this.#app, [["", words.allApps()], ...apps.map(each => [each, this.#objects.appName(each)])]);
        this.#app.value = apps.includes(chosen) ? chosen : "";
    }

    #accessory({ accessory }) {
        if (!accessory) return "";
        return this.#objects.get(`/org/accessorysetup1/accessory/${accessory.replaceAll("-", "_")}`, "Accessory")?.DisplayName ?? accessory;
    }

    #line(entry) {
        const kind = GIVEN.has(entry.event) ? "good" : TAKEN.has(entry.event) ? "warning" : entry.event === "refused" ? "danger" : "";
        return element("li", {}, element("p", { class: "what" }, badge(words.event(entry.event), kind), " ",
            [entry.app && this.#objects.appName(entry.app), this.#accessory(entry)].filter(each => each).join(" → ")),
        entry.why ? element("p", {}, entry.why) : null,
        element("p", { class: "note" }, element("time", { datetime: new Date(entry.time * 1000).toISOString() }, moment(entry.time)), " · ", entry.who));
    }
}
