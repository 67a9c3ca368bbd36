// SPDX-License-Identifier: Apache-2.0
// The accessories of this machine for admins, or those that a member of the group set up: a list that can be searched,
// and for each its state, the apps that may use it, and the ways to take access back.

import { KeyedList, ask, badge, button, choices, element, facts, field, freshID, message, name, setAttribute, setText, show } from "./dom.js";
import { ADMIN } from "./bus.js";
import { HeardDevices } from "./heard-devices.js";
import { Images, showImage } from "./images.js";
import { Muted } from "./muted.js";
import { ago, compare, moment, words } from "./text.js";
import { visibility } from "./visibility.js";

/** The interval of reading links and batteries, in milliseconds, while the section is visible. */
const REFRESH = 15_000;
/** Up to so many accessories, each shows all about itself; of more, the one that is opened. */
const FEW = 8;
/** So many cards are drawn at first, and again when a person comes to the last. */
const SLICE = 60;
/** The kinds of objects that are drawn. */
const KINDS = ["Accessory", "Grant", "Network", "App", "Admin", "Manager"];

const FILTERS = {
    "": () => true,
    connected: ({ accessory, joined }) => accessory.Connected || joined !== "",
    absent: each => each.isInRange === false,
    attention: ({ accessory, grants }) => accessory.State !== "authorized" || accessory.Problems.length > 0 || grants.some(each => !each.Enabled),
};
const ORDERS = {
    name: (a, b) => compare(a.accessory.DisplayName, b.accessory.DisplayName) || (a.path < b.path ? -1 : 1),
    used: (a, b) => b.used - a.used || ORDERS.name(a, b),
    created: (a, b) => b.created - a.created || ORDERS.name(a, b),
};

/** In seconds; the daemon carries a removal out even when the page is closed meanwhile. */
const REMOVAL_DELAY = 10;

/** An accessory with everything that its card shows. Texts are made where they are needed: of a thousand, most are not. */
class Item {
    #isOnly;

    constructor(accessory, grants, apps, joined, isOnly, isOpen) {
        this.path = accessory.path;
        this.accessory = accessory;
        this.grants = grants;
        this.apps = apps;
        this.joined = joined;
        this.isOpen = isOpen;
        this.#isOnly = isOnly;
    }

    get used() { return Math.max(0, ...this.grants.map(each => each.LastUsed)); }
    get created() { return Math.min(...this.grants.map(each => each.Created || Infinity)); }
    /** Null where no app observes it, or none that may use it now. */
    get isInRange() {
        const observing = this.grants.filter(each => each.Observed && each.Enabled && each.State === "authorized");
        return observing.length > 0 ? observing.some(each => each.Present) : null;
    }
    get label() { return this.#isOnly ? this.accessory.DisplayName : words.oneOfMany(this.accessory); }
    /** For the search. */
    get text() {
        const { DisplayName: shown, AdvertisedName: own, Address: address, NetworkName: network } = this.accessory;
        return [shown, own, address, network, ...this.apps].join("\n").toLocaleLowerCase();
    }
}

export class Accessories {
    #bus;
    #objects;
    #images;
    #list;
    #muted;
    #empty = message(words.noAccessories(), words.noAccessoriesHint());
    #emptyOwn = message(words.noOwnAccessories(), words.ownHint());
    #note = element("p", { class: "note" }, words.ownHint());
    #none = message(words.nothingFits());
    #search = element("input", { id: freshID(), type: "search", autocomplete: "off" });
    #order = element("select", { id: freshID() });
    #orderField = field(words.order(), this.#order);
    #filter = element("select", { id: freshID() });
    #total = element("p", { class: "note", role: "status" });
    #tools;
    #selection;
    /** The paths of the selected ones; null while none can be selected. */
    #selected = null;
    #opened = new Set();
    /** The lists of devices, by the paths of grants for a kind. */
    #heard = new Map();
    /** How many cards are drawn. */
    #limit = SLICE;
    /** Behind the last card that is drawn, while there are more. */
    #end = element("div", { hidden: true });
    #timer = null;
    #drawn = "";
    element;

    constructor(bus, objects) {
        this.#bus = bus;
        this.#objects = objects;
        this.#images = new Images(path => bus.call(path, "Accessory.ImageData").then(([data]) => data));
        this.#images.addEventListener("loaded", () => this.#drawAgain());
        const list = element("ul", { class: "cards" });
        this.#list = new KeyedList(list, each => each.path, each => this.#make(each.path), (item, each) => item.update(each));
        choices(this.#order, [["name", words.byName()], ["used", words.byUse()], ["created", words.bySetup()]]);
        choices(this.#filter, [["", words.all()], ["connected", words.connectedOnly()], ["absent", words.notInRange()], ["attention", words.attentionOnly()]]);
        for (const control of [this.#search, this.#order, this.#filter]) control.addEventListener("input", () => { this.#limit = SLICE; this.#drawAgain(); });
        const observer = new IntersectionObserver(entries => {
            if (!entries.at(-1).isIntersecting) return;
            this.#limit += SLICE;
            this.#drawAgain();
            // It may still be in view.
            observer.unobserve(this.#end);
            observer.observe(this.#end);
        }, { rootMargin: "100%" });
        observer.observe(this.#end);
        this.#selection = this.#makeSelection();
        this.#tools = element("div", {}, element("div", { class: "filters" }, field(words.search(), this.#search),
            this.#orderField, field(words.show(), this.#filter)), this.#selection.element, this.#total);
        this.#muted = new Muted(bus, objects);
        this.element = element("section", { "aria-label": words.title() }, this.#note, this.#tools, list, this.#end, this.#empty, this.#emptyOwn, this.#none, this.#muted.element);
    }

    shown() { this.#refresh(); }
    hidden() { clearTimeout(this.#timer); }

    /** Draws where something has changed, or times have passed. */
    draw() {
        const { isAdmin } = this.#objects;
        const key = [...KINDS.map(each => this.#objects.version(each)), isAdmin, Math.floor(Date.now() / 60_000)].join();
        if (key === this.#drawn) return;
        this.#drawn = key;
        const all = this.#read();
        const text = this.#search.value.trim().toLocaleLowerCase();
        const found = all.filter(each => FILTERS[this.#filter.value](each) && (!text || each.text.includes(text)));
        found.sort(ORDERS[this.#order.value]);
        this.#list.draw(found.slice(0, this.#limit));
        show(this.#end, found.length > this.#limit);
        show(this.#tools, all.length > FEW || text !== "" || this.#filter.value !== "" || !!this.#selected);
        // A member does not see when accessories were set up and used.
        show(this.#orderField, isAdmin);
        show(this.#note, !isAdmin && all.length > 0);
        show(this.#empty, isAdmin && all.length === 0);
        show(this.#emptyOwn, !isAdmin && all.length === 0);
        show(this.#none, found.length === 0 && all.length > 0);
        setText(this.#total, words.accessories(found.length));
        this.#selection.update(found);
        this.#muted.draw();
    }

    #drawAgain() {
        this.#drawn = "";
        this.draw();
    }

    /** All accessories, each with everything that its card shows. */
    #read() {
        const grants = new Map();
        for (const each of this.#objects.all("Grant")) grants.set(each.Accessory, [...grants.get(each.Accessory) ?? [], each]);
        const accessories = this.#objects.all("Accessory");
        const names = new Map();
        for (const { DisplayName: shown } of accessories) names.set(shown, (names.get(shown) ?? 0) + 1);
        return accessories.map(accessory => {
            const { path } = accessory;
            const own = (grants.get(path) ?? []).sort((a, b) => compare(a.App, b.App));
            // A member sees no grants.
            const apps = (own.length > 0 ? own.map(each => each.App) : accessory.Apps).map(each => this.#objects.appName(each));
            return new Item(accessory, own, apps, this.#objects.get(path, "Network")?.Interface ?? "",
                names.get(accessory.DisplayName) === 1, this.#opened.has(path) || accessories.length <= FEW);
        });
    }

    /**
     * Links and batteries are signalled once the daemon has looked for them: it does while the section is visible. Problems
     * and the devices of kinds are not signalled: those of open cards are read.
     */
    async #refresh() {
        clearTimeout(this.#timer);
        if (visibility.isVisible) {
            if (this.#objects.isAdmin) await this.#bus.call(ADMIN, "Admin.Refresh").catch(() => {});
            const all = this.#objects.all("Accessory");
            for (const { path } of all) if (this.#opened.has(path) || all.length <= FEW) await this.#objects.readAgain(path, "Accessory");
            for (const [path, devices] of this.#heard) {
                if (!this.#objects.get(path, "Grant")) this.#heard.delete(path);
                else if (devices.isShown) await devices.read();
            }
        }
        clearTimeout(this.#timer);
        if (this.element.isConnected) this.#timer = setTimeout(() => this.#refresh(), REFRESH);
    }

    /** The adapter that has it, where that is a question: there are several, or it is not there. */
    #adapter(address) {
        const adapters = this.#objects.admin.Adapters ?? [];
        const found = adapters.find(each => each.address === address);
        if (!address || !this.#objects.isAdmin || found && adapters.length < 2) return null;
        if (!found) return words.adapterMissing(address);
        return found.powered ? found.name : words.adapterOff(found.name);
    }

    // MARK: One accessory

    #make(path) {
        const id = freshID();
        const image = element("img", { alt: "", hidden: true });
        const title = name("");
        const other = element("p", { class: "note" });
        const badges = element("p", { class: "badges" });
        const apps = element("p", { class: "note" });
        const box = element("input", { type: "checkbox" });
        box.addEventListener("change", () => {
            if (box.checked) this.#selected?.add(path);
            else this.#selected?.delete(path);
            this.#drawAgain();
        });
        const open = button("", () => {
            if (!this.#opened.delete(path)) this.#opened.add(path);
            this.#drawAgain();
        }, "opens");
        const leaving = this.#makeNotice(path);
        const card = element("article", { class: "card", "aria-labelledby": id }, element("div", { class: "summary" }, box,
            element("span", { class: "picture", "aria-hidden": "true" }, image),
            element("div", { class: "about" }, element("h2", { id }, title), other, badges, apps), open), leaving.element);
        const item = element("li", {}, card);
        let details = null;
        let last = null;
        item.update = each => {
            const { accessory } = each;
            if (accessory.HasImage) showImage(image, this.#images.address(path));
            leaving.update(accessory);
            const parts = [accessory, ...each.grants, ...each.apps, each.label, each.joined, each.isOpen, this.#selected?.has(path), this.#opened.size > 0,
                this.#objects.admin.Adapters, each.isOpen && Math.floor(Date.now() / 60_000)];
            if (last && last.length === parts.length && parts.every((part, index) => part === last[index])) return;
            last = parts;
            setText(title, accessory.DisplayName);
            setText(other, words.particulars(accessory));
            badges.replaceChildren(...this.#badges(each));
            setText(apps, each.isOpen ? "" : each.apps.join(", "));
            box.hidden = !this.#selected;
            box.checked = this.#selected?.has(path) ?? false;
            setAttribute(box, "aria-label", words.selectOne(each.label));
            open.hidden = each.isOpen && !this.#opened.has(path);
            setText(open, each.isOpen ? words.less() : words.more());
            setAttribute(open, "aria-expanded", String(each.isOpen));
            setAttribute(open, "aria-label", words.detailsOf(each.label));
            if (each.isOpen && !details) card.insertBefore((details = this.#makeDetails()).element, leaving.element);
            if (!details) return;
            details.element.hidden = !each.isOpen;
            if (each.isOpen) details.update(each);
        };
        return item;
    }

    #badges({ accessory, joined, grants, isInRange }) {
        const isOff = grants.length > 0 && grants.every(each => !each.Enabled);
        return [
            isOff ? badge(words.switchedOff()) : badge(words.state(accessory.State), accessory.State === "authorized" ? "good" : "warning"),
            accessory.Address ? badge(accessory.Connected ? words.connected() : words.notConnected(), accessory.Connected ? "good" : "") : null,
            joined ? badge(words.joined(joined), "good") : null,
            isInRange === null ? null : isInRange ? badge(words.inRange(), "good") : badge(words.notInRange()),
        ].filter(each => each);
    }

    #makeDetails() {
        const about = facts();
        const apps = element("ul", { class: "grants" });
        const problems = element("ul", { class: "problems" });
        const list = new KeyedList(apps, each => each.path, each => this.#makeGrant(each), (row, each) => row.update(each));
        let shown = null;
        const rename = button(words.rename(), () => this.#rename(shown));
        const remove = button(words.remove(), () => this.#remove(shown), "danger");
        const made = element("div", {}, about.element, problems, element("h3", {}, words.mayUse()), apps, element("div", { class: "actions" }, rename, remove));
        const update = each => {
            shown = each;
            const { accessory } = each;
            setAttribute(rename, "aria-label", words.renameOf(each.label));
            setAttribute(remove, "aria-label", words.removeOf(each.label));
            about.update([
                [words.address(), accessory.Address, "address"],
                [words.adapter(), this.#adapter(accessory.Adapter)],
                [words.networkName(), accessory.NetworkName],
                [words.battery(), accessory.Battery >= 0 ? words.percent(accessory.Battery) : null],
                [words.lastUsed(), each.grants.length > 0 ? ago(each.used) : null],
                [words.setUp(), Number.isFinite(each.created) ? moment(each.created) : null],
            ]);
            problems.replaceChildren(...accessory.Problems.map(problem => element("li", { lang: "en" }, problem)));
            problems.hidden = accessory.Problems.length === 0;
            if (this.#objects.isAdmin) list.draw(each.grants.map(grant => ({ ...grant, label: each.label })));
            else apps.replaceChildren(...each.apps.map(app => element("li", {}, name(app))));
        };
        return { element: made, update };
    }

    #makeGrant({ path }) {
        const app = name("");
        const note = element("span", { class: "note" });
        const toggle = element("input", { type: "checkbox", role: "switch" });
        const failure = element("p", { class: "failure", role: "alert", hidden: true });
        // Disabled, it would lose the focus.
        let isBusy = false;
        toggle.addEventListener("change", async () => {
            if (isBusy) return;
            isBusy = true;
            failure.hidden = true;
            try {
                await this.#bus.set(path, "Grant", "Enabled", cockpit.variant("b", toggle.checked));
            } catch (error) {
                setText(failure, words.error(error));
                failure.hidden = false;
            }
            isBusy = false;
            toggle.checked = this.#objects.get(path, "Grant")?.Enabled ?? false;
        });
        let shown = null;
        let devices = null;
        const revoke = button(words.revoke(), () => this.#revoke(shown));
        const row = element("li", {}, element("label", {}, toggle, element("span", { class: "name" }, app)), note, revoke, failure);
        row.update = grant => {
            shown = grant;
            const name = this.#objects.appName(grant.App);
            setText(app, name);
            const opened = { hear: words.hears, read: words.readsOnly, listed: () => words.usesOnly(grant.Characteristics ?? []) };
            const opens = !grant.Enabled ? words.switchedOff() : (opened[grant.Access] ?? words.opens)();
            setText(note, grant.Ends ? `${opens} · ${words.endsAt(moment(grant.Ends))}` : grant.EndRules?.length ? words.hasEnded() : opens);
            setAttribute(toggle, "aria-label", words.switchFor(name, grant.label));
            setAttribute(revoke, "aria-label", words.revokeOf(name, grant.label));
            if (!isBusy) toggle.checked = grant.Enabled;
            if (grant.Access === "hear" && !devices) {
                devices = new HeardDevices(this.#bus, path);
                this.#heard.set(path, devices);
                row.append(devices.element);
            }
            devices?.update(grant, name);
        };
        return row;
    }

    // MARK: Changes

    #rename({ path, accessory, label }) {
        const id = freshID();
        const field = element("input", { id, type: "text", value: accessory.DisplayName, maxlength: "256", required: true, autocomplete: "off" });
        ask({
            title: words.renameOf(label), action: words.saveName(),
            content: [element("label", { for: id }, words.newName()), field, element("p", { class: "hint" }, words.renameHint())],
            run: () => this.#bus.call(path, "Accessory.Rename", field.value),
        });
        field.select();
    }

    #revoke({ path, App: app, Accessory: accessory, label }) {
        const others = this.#objects.all("Grant").filter(each => each.Accessory === accessory && each.path !== path);
        const names = others.map(each => this.#objects.appName(each.App));
        ask({
            title: words.revokeTitle(this.#objects.appName(app), label), action: words.revoke(), kind: "danger",
            content: [element("p", {}, names.length > 0 ? words.revokeOther(names) : words.revokeLast())],
            run: () => this.#bus.call(path, "Grant.Revoke"),
        });
    }

    #remove({ path, apps, label }) {
        ask({
            title: words.removeTitle(label), action: words.remove(), kind: "danger",
            content: [element("p", {}, this.#removeHint()), apps.length > 0 ? element("p", {}, words.removeApps(apps)) : ""],
            run: () => this.#removeLater(path),
        });
    }

    /** A member removes only their own set-ups. */
    #removeHint() { return this.#objects.isAdmin ? words.removeHint() : words.removeOwnHint(); }

    #removeLater(path) { return this.#bus.call(path, "Accessory.ScheduleRemoval", REMOVAL_DELAY); }

    /** The notice of a removal that can still be taken back. */
    #makeNotice(path) {
        const text = element("p", { role: "status" });
        const undo = button(words.undo(), async () => {
            try { await this.#bus.call(path, "Accessory.CancelRemoval"); } catch (error) { setText(text, words.error(error)); }
        }, "primary");
        const made = element("div", { class: "leaving", hidden: true }, text, undo);
        const update = accessory => {
            const isLeaving = accessory.RemovalTime > 0;
            if (isLeaving === !made.hidden) return;
            show(made, isLeaving);
            setText(text, isLeaving ? words.removedSoon() : "");
        };
        return { element: made, update };
    }

    // MARK: Several

    /** Selecting several, to remove them or to revoke one app's access to them. */
    #makeSelection() {
        const begin = button(words.select(), () => { this.#selected = new Set(); this.#drawAgain(); });
        const end = button(words.cancel(), () => { this.#selected = null; this.#drawAgain(); });
        let shown = [];
        const all = button(words.selectAll(), () => { for (const each of shown) this.#selected.add(each.path); this.#drawAgain(); });
        const revoke = button("", () => this.#revokeSeveral(this.#chosen(shown)), "danger");
        const remove = button("", () => this.#removeSeveral(this.#chosen(shown)), "danger");
        const made = element("div", { class: "actions" }, begin, all, revoke, remove, end);
        const update = found => {
            shown = found;
            const count = this.#chosen(found).length;
            show(begin, !this.#selected);
            for (const each of [end, all, remove]) show(each, !!this.#selected);
            show(revoke, !!this.#selected && this.#objects.isAdmin);
            for (const each of [revoke, remove]) if (each.disabled !== (count === 0)) each.disabled = count === 0;
            setText(revoke, words.revokeSelected(count));
            setText(remove, words.removeSelected(count));
        };
        return { element: made, update };
    }

    #chosen(shown) { return shown.filter(each => this.#selected?.has(each.path)); }

    #removeSeveral(chosen) {
        ask({
            title: words.removeSeveral(chosen.length), action: words.remove(), kind: "danger",
            content: [element("p", {}, this.#removeHint()), element("ul", { class: "plain" }, ...chosen.map(each => element("li", {}, name(each.label))))],
            run: async () => {
                await Promise.all(chosen.map(each => this.#removeLater(each.path)));
                this.#selected = null;
                this.#drawAgain();
            },
        });
    }

    #revokeSeveral(chosen) {
        const grants = chosen.flatMap(each => each.grants);
        const apps = [...new Set(grants.map(each => each.App))].sort(compare);
        const app = element("select", { id: freshID() });
        choices(app, apps.map(each => [each, this.#objects.appName(each)]));
        ask({
            title: words.revokeSeveral(chosen.length), action: words.revoke(), kind: "danger",
            content: [field(words.whichApp(), app), element("p", {}, words.revokeSeveralHint())],
            run: async () => {
                for (const each of grants) if (each.App === app.value) await this.#bus.call(each.path, "Grant.Revoke");
                this.#selected = null;
                this.#drawAgain();
            },
        });
    }
}
