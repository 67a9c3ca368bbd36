// SPDX-License-Identifier: Apache-2.0
// The accessories of this machine, for admins: their state, the apps that may use them, and revoking.

import { KeyedList, ask, badge, button, element, facts, freshID, message, setAttribute, setText } from "./dom.js";
import { ago, moment, words } from "./text.js";
import { ADMIN } from "./bus.js";

/** The interval of reading links and batteries, in milliseconds, while the section is visible. */
const REFRESH = 15_000;

export class Accessories {
    #bus;
    #objects;
    #list;
    #empty = message(words.noAccessories(), words.noAccessoriesHint());
    #timer = null;
    element;

    constructor(bus, objects) {
        this.#bus = bus;
        this.#objects = objects;
        const list = element("ul", { class: "cards" });
        this.#list = new KeyedList(list, each => each.path, each => this.#make(each), (item, each) => item.update(each));
        this.element = element("section", { "aria-label": words.title() }, list, this.#empty);
    }

    shown() { this.#refresh(); }
    hidden() { clearTimeout(this.#timer); }

    draw() {
        const accessories = this.#objects.all("Accessory").sort((a, b) => a.DisplayName.localeCompare(b.DisplayName));
        this.#list.draw(accessories);
        this.#empty.hidden = accessories.length > 0;
    }

    /** Links and batteries are not signalled: the visible section reads them. */
    async #refresh() {
        clearTimeout(this.#timer);
        if (!document.hidden && this.#objects.isAdmin) {
            await this.#bus.call(ADMIN, "Admin.Refresh").catch(() => {});
            for (const { path } of this.#objects.all("Accessory")) await this.#objects.readAgain(path, "Accessory");
        }
        clearTimeout(this.#timer);
        if (this.element.isConnected) this.#timer = setTimeout(() => this.#refresh(), REFRESH);
    }

    #grants(path) {
        return this.#objects.all("Grant").filter(each => each.Accessory === path).sort((a, b) => a.App.localeCompare(b.App));
    }

    /** The adapter that has it, where that is a question: there are several, or it is not there. */
    #adapter(address) {
        const adapters = this.#objects.get(ADMIN, "Admin")?.Adapters ?? [];
        const found = adapters.find(each => each.address === address);
        if (!address || found && adapters.length < 2) return null;
        if (!found) return words.adapterMissing(address);
        return found.powered ? found.name : words.adapterOff(found.name);
    }

    #names(grants) { return grants.map(each => this.#objects.appName(each.App)); }

    #make({ path }) {
        const current = () => ({ path, ...this.#objects.get(path, "Accessory") });
        const id = freshID();
        const name = element("h2", { id });
        const badges = element("p", { class: "badges" });
        const about = element("div", {});
        const apps = element("ul", { class: "grants" });
        const list = new KeyedList(apps, each => each.path, each => this.#makeGrant(each), (row, each) => row.update(each));
        const rename = button(words.rename(), () => this.#rename(current()));
        const remove = button(words.remove(), () => this.#remove(current()), "danger");
        const item = element("li", {}, element("article", { class: "card", "aria-labelledby": id }, name, badges, about,
            element("h3", {}, words.mayUse()), apps, element("div", { class: "actions" }, rename, remove)));
        item.update = accessory => {
            setText(name, accessory.DisplayName);
            setAttribute(rename, "aria-label", words.renameOf(accessory.DisplayName));
            setAttribute(remove, "aria-label", words.removeOf(accessory.DisplayName));
            const grants = this.#grants(path);
            const { Interface: joined = "" } = this.#objects.get(path, "Network") ?? {};
            badges.replaceChildren(
                badge(words.state(accessory.State), accessory.State === "authorized" ? "good" : "warning"),
                ...(accessory.Address ? [badge(accessory.Connected ? words.connected() : words.notConnected(), accessory.Connected ? "good" : "")] : []),
                ...(joined ? [badge(words.joined(joined), "good")] : []));
            const used = Math.max(0, ...grants.map(each => each.LastUsed));
            const created = Math.min(...grants.map(each => each.Created));
            about.replaceChildren(facts([
                [words.address(), accessory.Address],
                [words.adapter(), this.#adapter(accessory.Adapter)],
                [words.networkName(), accessory.NetworkName],
                [words.battery(), accessory.Battery >= 0 ? words.percent(accessory.Battery) : null],
                [words.lastUsed(), ago(used)],
                [words.setUp(), Number.isFinite(created) && created > 0 ? moment(created) : null],
            ]));
            list.draw(grants);
        };
        return item;
    }

    #makeGrant({ path, App: app, Accessory: accessory }) {
        const accessoryName = () => this.#objects.get(accessory, "Accessory")?.DisplayName ?? "";
        const name = element("span", { class: "name" });
        const note = element("span", { class: "note" });
        const toggle = element("input", { type: "checkbox", role: "switch" });
        const failure = element("p", { class: "failure", role: "alert", hidden: true });
        toggle.addEventListener("change", async () => {
            failure.hidden = true;
            toggle.disabled = true;
            try {
                await this.#bus.set(path, "Grant", "Enabled", cockpit.variant("b", toggle.checked));
            } catch (error) {
                failure.textContent = words.error(error);
                failure.hidden = false;
            }
            toggle.disabled = false;
            toggle.checked = this.#objects.get(path, "Grant")?.Enabled ?? false;
        });
        const revoke = button(words.revoke(), () => this.#revoke(path, app, accessory));
        const row = element("li", {}, element("label", {}, toggle, name), note, revoke, failure);
        row.update = grant => {
            const shown = this.#objects.appName(app);
            setText(name, shown);
            setText(note, grant.Enabled ? "" : words.switchedOff());
            setAttribute(toggle, "aria-label", words.switchFor(shown, accessoryName()));
            setAttribute(revoke, "aria-label", words.revokeOf(shown, accessoryName()));
            if (!toggle.disabled) toggle.checked = grant.Enabled;
        };
        return row;
    }

    #rename(accessory) {
        const id = freshID();
        const field = element("input", { id, type: "text", value: accessory.DisplayName, maxlength: "256", required: true, autocomplete: "off" });
        ask({
            title: words.renameOf(accessory.DisplayName), action: words.saveName(),
            content: [element("label", { for: id }, words.newName()), field, element("p", { class: "hint" }, words.renameHint())],
            run: () => this.#bus.call(accessory.path, "Accessory.Rename", field.value),
        });
        field.select();
    }

    #revoke(path, app, accessory) {
        const others = this.#grants(accessory).filter(each => each.path !== path);
        const name = this.#objects.get(accessory, "Accessory")?.DisplayName ?? "";
        ask({
            title: words.revokeTitle(this.#objects.appName(app), name), action: words.revoke(), kind: "danger",
            content: [element("p", {}, others.length > 0 ? words.revokeOther(this.#names(others)) : words.revokeLast())],
            run: () => this.#bus.call(path, "Grant.Revoke"),
        });
    }

    #remove({ path, DisplayName: name }) {
        const apps = this.#names(this.#grants(path));
        ask({
            title: words.removeTitle(name), action: words.remove(), kind: "danger",
            content: [element("p", {}, words.removeHint()), apps.length > 0 ? element("p", {}, words.removeApps(apps)) : ""],
            run: () => this.#bus.call(path, "Accessory.Remove"),
        });
    }
}
