// SPDX-License-Identifier: Apache-2.0
// The apps that have a manifest, for admins: the declarations of each, errors in the manifest, and the app's
// accessories.

import { KeyedList, badge, element, facts, freshID, message, setText } from "./dom.js";
import { words } from "./text.js";

/** A manifest as /etc/accessory-setup/apps/com.example.dice.conf. */
const SAMPLE = `[Application]
Id=com.example.dice
Name=Dice
Executable=/usr/bin/dice

[AccessorySetup]
Supports=Bluetooth;
BluetoothServices=E56A082E-C49B-47CA-A2AB-389127B8ABE3;`;

export class Apps {
    #objects;
    #list;
    #empty = message(words.noApps(), words.noAppsHint(), element("code", {}, "/etc/accessory-setup/apps"),
        element("p", {}, words.sample()), element("pre", {}, element("code", {}, SAMPLE)), element("p", {}, words.sampleHint()),
        element("code", {}, "man accessorysetupd"));
    element;

    constructor(objects) {
        this.#objects = objects;
        const list = element("ul", { class: "cards" });
        this.#list = new KeyedList(list, each => each.path, () => this.#make(), (item, each) => item.update(each));
        this.element = element("section", { "aria-label": words.apps() }, list, this.#empty);
    }

    draw() {
        const apps = this.#objects.all("App").sort((a, b) => (a.Name || a.Id).localeCompare(b.Name || b.Id));
        this.#list.draw(apps);
        this.#empty.hidden = apps.length > 0;
    }

    #make() {
        const id = freshID();
        const name = element("h2", { id });
        const identifier = element("p", { class: "note" });
        const badges = element("p", { class: "badges" });
        const problems = element("ul", { class: "problems" });
        const about = facts();
        const why = element("a", { class: "button" }, words.why());
        const item = element("li", {}, element("article", { class: "card", "aria-labelledby": id }, name, identifier, badges, problems, about.element,
            element("div", { class: "actions" }, why)));
        item.update = app => {
            setText(name, app.Name || app.Id);
            setText(identifier, app.Name ? app.Id : "");
            const sessions = this.#objects.all("Session").filter(each => each.App === app.Id).length;
            badges.replaceChildren(
                app.Problems.length > 0 ? badge(words.problems(app.Problems.length), "danger") : badge(words.usable(), "good"),
                badge(sessions > 0 ? words.running(sessions) : words.notRunning(), sessions > 0 ? "good" : ""));
            // Their file is named below.
            problems.replaceChildren(...app.Problems.map(each => element("li", {}, each.replace(app.Source.replace(/[^/]*$/, ""), ""))));
            problems.hidden = app.Problems.length === 0;
            const names = this.#objects.all("Grant").filter(each => each.App === app.Id)
                .map(each => this.#objects.get(each.Accessory, "Accessory")?.DisplayName).filter(each => each);
            about.update([
                [words.manifest(), app.Source],
                ...Object.entries(app.Manifest ?? {}).map(([key, values]) => [words.manifestKey(key), values.join(", ")]),
                [words.appsAccessories(), names.length > 0 ? names.join(", ") : words.none()],
            ]);
            why.hidden = app.Problems.length > 0;
            why.href = `#/apps/${encodeURIComponent(app.Id)}`;
            why.setAttribute("aria-label", `${words.why()} ${app.Name || app.Id}`);
        };
        return item;
    }
}
