// SPDX-License-Identifier: Apache-2.0
// The apps that may not ask for a picker, for admins and members of the group, who may allow them to ask again.

import { ROOT } from "./bus.js";
import { KeyedList, button, element, name, setAttribute, setText, show } from "./dom.js";
import { moment, words } from "./text.js";

export class Muted {
    #bus;
    #objects;
    #list;
    element;

    constructor(bus, objects) {
        this.#bus = bus;
        this.#objects = objects;
        const list = element("ul", { class: "plain" });
        this.#list = new KeyedList(list, each => each.app, each => this.#make(each.app), (row, each) => row.update(each));
        this.element = element("section", { class: "muted", hidden: true }, element("h2", {}, words.mutedApps()), element("p", { class: "note" }, words.mutedHint()), list);
    }

    draw() {
        const muted = this.#objects.manager.MutedApps ?? [];
        this.#list.draw(muted);
        show(this.element, muted.length > 0);
    }

    #make(app) {
        const title = name("");
        const note = element("span", { class: "note" });
        const failure = element("p", { class: "failure", role: "alert" });
        const allow = button(words.allowAgain(), async () => {
            setText(failure, "");
            try { await this.#bus.call(ROOT, "Manager.UnmuteApp", app); } catch (error) { setText(failure, words.error(error)); }
        });
        const row = element("li", {}, title, note, allow, failure);
        row.update = each => {
            setText(title, each.name || app);
            setText(note, words.mutedSince(moment(each.since)));
            setAttribute(allow, "aria-label", words.allowAgainOf(each.name || app));
        };
        return row;
    }
}
