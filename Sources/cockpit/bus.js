// SPDX-License-Identifier: Apache-2.0
// The page's own D-Bus connection to the daemon, which ends with the page. Cockpit's usual connection is
// the bridge's and outlives pages: a picker that is no longer visible would stay registered.

import { METHODS } from "./interfaces.js";

export const NAME = "org.accessorysetup1";
export const ROOT = "/org/accessorysetup1";
export const ADMIN = `${ROOT}/admin`;
const PROPERTIES = "org.freedesktop.DBus.Properties";
const OBJECT_MANAGER = "org.freedesktop.DBus.ObjectManager";
const USUAL_ADDRESS = "unix:path=/run/dbus/system_bus_socket";

/** The longest pause before the connection is opened again, in milliseconds. */
const LONGEST_PAUSE = 5000;

/**
 * The daemon on the system bus, as this page's own client sees it. As root where Cockpit has administrative access.
 * Dispatches "owner" (detail: whether the daemon is there) and "close" (the bridge or the bus has gone). A connection that
 * ends is opened again, for as long as the page is.
 */
export class Bus extends EventTarget {
    #client;
    #address = USUAL_ADDRESS;
    /** Rules and bodies, for each connection. */
    #subscriptions = [];
    #pause = 0;
    #timer = null;
    /** Whether the session has named its bus. Until then the usual one is tried, which saves a round trip. */
    #isAddressKnown = false;
    #asking;

    constructor() {
        super();
        this.#open();
        this.#asking = this.#askAddress();
    }

    async #askAddress() {
        const address = await cockpit.spawn(["printenv", "DBUS_SYSTEM_BUS_ADDRESS"], { err: "ignore" }).catch(() => "");
        this.#isAddressKnown = true;
        if (this.#client && (address.trim() || USUAL_ADDRESS) === this.#address) return;
        this.#address = address.trim() || USUAL_ADDRESS;
        this.#open();
    }

    #open() {
        clearTimeout(this.#timer);
        const former = this.#client;
        const client = this.#client = cockpit.dbus(NAME, { bus: "none", address: this.#address, superuser: "try" });
        former?.close();
        client.addEventListener("owner", (_, owner) => {
            if (client !== this.#client) return;
            if (owner) this.#pause = 0;
            this.dispatchEvent(new CustomEvent("owner", { detail: !!owner }));
        });
        client.addEventListener("close", (_, options) => { if (client === this.#client) this.#closed(options?.problem); });
        for (const [rule, body] of this.#subscriptions) client.subscribe(rule, body);
    }

    #closed(problem) {
        this.#client = null;
        if (!this.#isAddressKnown) return;
        // Cockpit closes the channel to a name that has no owner.
        if (problem === "not-found") this.dispatchEvent(new CustomEvent("owner", { detail: false }));
        else this.dispatchEvent(new Event("close"));
        this.#pause = Math.min(LONGEST_PAUSE, 2 * this.#pause + 500);
        this.#timer = setTimeout(() => this.#open(), this.#pause);
    }

    #subscribe(rule, body) {
        this.#subscriptions.push([rule, body]);
        this.#client?.subscribe(rule, body);
    }

    async #send(...call) {
        const isFirst = !this.#isAddressKnown;
        const client = this.#client;
        try {
            if (client) return await client.call(...call);
        } catch (error) {
            // The usual bus is not the session's, and does not exist.
            if (!isFirst || error.name) throw error;
        }
        if (isFirst) await this.#asking;
        if (!this.#client || client === this.#client) throw new Error("not connected");
        return await this.#client.call(...call);
    }

    /** Calls `member`, which is `Interface.Method` without the daemon's name; the results. Fails with Cockpit's error. */
    async call(path, member, ...args) {
        const [interface_, method] = member.split(".");
        // Without types Cockpit's bridge would first look for the object's methods, and report a missing method where
        // the daemon reports a missing object.
        return plain(await this.#send(path, `${NAME}.${interface_}`, method, args, { type: METHODS[member] }));
    }

    /** All properties of an object's interface that this client may see. */
    async properties(path, interface_) {
        const [values] = await this.#send(path, PROPERTIES, "GetAll", [`${NAME}.${interface_}`], { type: "s" });
        return plain(values);
    }

    set(path, interface_, property, value) {
        return this.#send(path, PROPERTIES, "Set", [`${NAME}.${interface_}`, property, value], { type: "ssv" });
    }

    /** Every object that this client may see: path → interface → properties. */
    async objects() {
        const [objects] = await this.#send(ROOT, OBJECT_MANAGER, "GetManagedObjects", [], { type: "" });
        return Object.entries(objects).map(([path, interfaces]) => [path, ours(interfaces)]);
    }

    /** Calls `added`, `removed` and `changed` for the daemon's signals about objects. */
    follow({ added, removed, changed }) {
        this.#subscribe({ path: ROOT, interface: OBJECT_MANAGER }, (_path, _interface, member, [path, what]) => {
            if (member === "InterfacesAdded") added(path, ours(what));
            if (member === "InterfacesRemoved") removed(path, list(what).map(short));
        });
        const properties = { path_namespace: ROOT, interface: PROPERTIES, member: "PropertiesChanged" };
        this.#subscribe(properties, (path, _interface, _member, [interface_, values, gone]) => {
            changed(path, short(interface_), plain(values), list(gone));
        });
    }

    /** Calls `body` with the arguments of a signal of the daemon's own. */
    on(path, member, body) {
        const [interface_, name] = member.split(".");
        this.#subscribe({ path, interface: `${NAME}.${interface_}`, member: name },
            (_path, _interface, _member, args) => body(...args.map(plain)));
    }
}

const short = name => String(name).replace(`${NAME}.`, "");
const list = value => Array.isArray(value) ? value : [];

function ours(interfaces) {
    return Object.fromEntries(Object.entries(interfaces ?? {}).map(([name, values]) => [short(name), plain(values)]));
}

/** Values without the types that Cockpit gives variants. */
export function plain(value) {
    if (Array.isArray(value)) return value.map(plain);
    if (value === null || typeof value !== "object") return value;
    if ("t" in value && "v" in value && Object.keys(value).length === 2) return plain(value.v);
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plain(each)]));
}

/** The name of the daemon's error without its prefix; empty for other errors. */
export function errorName(error) {
    return error?.name?.split(".").at(-1) ?? "";
}
