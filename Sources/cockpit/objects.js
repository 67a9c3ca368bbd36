// SPDX-License-Identifier: Apache-2.0
// The daemon's objects that this page may see, kept up to date: the page's only model. Views read it, and receive an
// event when it changes.

import { ADMIN, ROOT, errorName } from "./bus.js";
import { shaped, shapedAll } from "./shapes.js";

/** Dispatches "changed". `state`: "starting", "ready", "absent" (no daemon) or "lost" (no connection). */
export class Objects extends EventTarget {
    #bus;
    #all = new Map();
    /** Signals that arrived during a reading of all objects; null at other times. */
    #heard = null;
    /** For each reading of one object in progress, the signals about the object since its beginning. */
    #readings = new Set();
    #versions = new Map();
    #appNames = { version: -1, names: new Map() };
    state = "starting";
    /** Whether the daemon treats this page's user as an admin. */
    isAdmin = false;

    constructor(bus) {
        super();
        this.#bus = bus;
        bus.follow({
            added: (path, interfaces) => this.#hear(() => this.#merge(path, interfaces)),
            removed: (path, names) => this.#hear(() => this.#remove(path, names)),
            changed: (path, name, values, gone) => this.#hear(() => this.#told(path, name, values, gone)),
        });
        bus.addEventListener("owner", event => {
            if (!event.detail) this.#lose("absent");
            // The first reading is under way before the connection says that the daemon is there.
            else if (this.state !== "starting" || !this.#heard) this.load();
        });
        bus.addEventListener("close", () => this.#lose("lost"));
    }

    /** Reads everything again. */
    async load() {
        // Signals wait for the answer: Cockpit may hand over a signal before an answer that was sent earlier. Applied
        // after the answer, a signal that the answer includes changes nothing: the last value of a property is the
        // same.
        const heard = this.#heard = [];
        try {
            const [all, manager, admin] = await Promise.all([
                this.#bus.objects(), this.#bus.properties(ROOT, "Manager"),
                this.#bus.properties(ADMIN, "Admin").catch(error => { if (errorName(error) === "UnknownObject") return null; throw error; }),
            ]);
            const objects = new Map(all.map(([path, interfaces]) => [path, shapedAll(path, interfaces)]));
            objects.set(ROOT, shapedAll(ROOT, { Manager: manager }));
            if (admin) objects.set(ADMIN, shapedAll(ADMIN, { Admin: admin }));
            // The daemon went away in the meantime, or another has started.
            if (this.#heard !== heard) return;
            this.#heard = null;
            this.isAdmin = admin !== null;
            this.#replace(objects);
            this.state = "ready";
            for (const each of heard) each();
        } catch (error) {
            if (this.#heard !== heard) return;
            this.#heard = null;
            this.state = "absent";
            console.warn("the daemon's objects cannot be read:", error.message ?? error);
        }
        this.#tell();
    }

    #hear(change) {
        if (this.#heard) this.#heard.push(change);
        else change();
    }

    /** Reads properties that the daemon does not signal. */
    async readAgain(path, name) {
        const reading = { path, name, all: this.#all, told: [] };
        this.#readings.add(reading);
        const values = await this.#bus.properties(path, name).catch(() => null);
        this.#readings.delete(reading);
        // An answer of another daemon, or from before all objects were read, is older than the present state.
        if (!values || this.#all !== reading.all || !this.get(path, name)) return;
        this.#change(path, name, values, []);
        // As in `load`: a signal since then may be newer than the answer, and is no older.
        for (const [values, gone] of reading.told) this.#change(path, name, values, gone);
    }

    /** The properties of an object's interface; null when there is none. */
    get(path, name) {
        return this.#all.get(path)?.[name] ?? null;
    }

    /** All objects with an interface: their properties with the path. The same values stay the same object. */
    all(name) {
        const found = [];
        for (const interfaces of this.#all.values()) if (interfaces[name]) found.push(interfaces[name]);
        return found;
    }

    /** A number that changes whenever an object with this interface does. */
    version(name) { return this.#versions.get(name) ?? 0; }

    get manager() { return this.get(ROOT, "Manager") ?? {}; }
    get admin() { return this.get(ADMIN, "Admin") ?? {}; }

    /** The app's name for people, if it has a manifest that can be read. */
    appName(id) {
        if (this.#appNames.version !== this.version("App")) {
            this.#appNames = { version: this.version("App"), names: new Map(this.all("App").map(each => [each.Id, each.Name])) };
        }
        return this.#appNames.names.get(id) || id;
    }

    #replace(objects) {
        const names = [...this.#all.values(), ...objects.values()].flatMap(Object.keys);
        this.#all = objects;
        this.#touch(new Set(names));
    }

    #touch(names) { for (const each of names) this.#versions.set(each, this.version(each) + 1); }

    #merge(path, interfaces) {
        this.#all.set(path, { ...this.#all.get(path), ...shapedAll(path, interfaces) });
        this.#touch(Object.keys(interfaces));
        this.#tell();
    }

    #remove(path, names) {
        const interfaces = this.#all.get(path);
        if (!interfaces) return;
        for (const name of names) delete interfaces[name];
        this.#touch(names);
        if (Object.keys(interfaces).length === 0) this.#all.delete(path);
        this.#tell();
    }

    /** The daemon signals a change. */
    #told(path, name, values, gone) {
        for (const each of this.#readings) if (each.path === path && each.name === name) each.told.push([values, gone]);
        this.#change(path, name, values, gone);
    }

    #change(path, name, values, gone) {
        const interfaces = this.#all.get(path);
        if (!interfaces?.[name]) return;
        const properties = { ...interfaces[name], ...values };
        for (const each of gone) delete properties[each];
        interfaces[name] = shaped(path, name, properties);
        this.#touch([name]);
        this.#tell();
    }

    #lose(state) {
        this.#heard = null;
        this.#replace(new Map());
        this.state = state;
        this.isAdmin = false;
        this.#tell();
    }

    #tell() { this.dispatchEvent(new Event("changed")); }
}
