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

/**
 * The daemon on the system bus, as this page's own client sees it. As root where Cockpit has administrative access.
 * Dispatches "owner" (detail: whether the daemon is there) and "close" (the bridge or the bus has gone).
 */
export class Bus extends EventTarget {
    #client;

    constructor(client) {
        super();
        this.#client = client;
        client.addEventListener("owner", (_, owner) => this.dispatchEvent(new CustomEvent("owner", { detail: !!owner })));
        client.addEventListener("close", () => this.dispatchEvent(new Event("close")));
    }

    static async open() {
        const address = await systemBusAddress();
        return new Bus(cockpit.dbus(NAME, { bus: "none", address, superuser: "try" }));
    }

    /** Calls `member`, which is `Interface.Method` without the daemon's name; the results. Fails with Cockpit's error. */
    async call(path, member, ...args) {
        const [interface_, method] = member.split(".");
        // Without types Cockpit's bridge would first look for the object's methods, and report a missing method where
        // the daemon reports a missing object.
        return plain(await this.#client.call(path, `${NAME}.${interface_}`, method, args, { type: METHODS[member] }));
    }

    /** All properties of an object's interface that this client may see. */
    async properties(path, interface_) {
        const [values] = await this.#client.call(path, PROPERTIES, "GetAll", [`${NAME}.${interface_}`], { type: "s" });
        return plain(values);
    }

    set(path, interface_, property, value) {
        return this.#client.call(path, PROPERTIES, "Set", [`${NAME}.${interface_}`, property, value], { type: "ssv" });
    }

    /** Every object that this client may see: path → interface → properties. */
    async objects() {
        const [objects] = await this.#client.call(ROOT, OBJECT_MANAGER, "GetManagedObjects", [], { type: "" });
        return Object.entries(objects).map(([path, interfaces]) => [path, ours(interfaces)]);
    }

    /** Calls `added`, `removed` and `changed` for the daemon's signals about objects. */
    follow({ added, removed, changed }) {
        this.#client.subscribe({ path: ROOT, interface: OBJECT_MANAGER }, (_path, _interface, member, [path, what]) => {
            if (member === "InterfacesAdded") added(path, ours(what));
            if (member === "InterfacesRemoved") removed(path, list(what).map(short));
        });
        const properties = { path_namespace: ROOT, interface: PROPERTIES, member: "PropertiesChanged" };
        this.#client.subscribe(properties, (path, _interface, _member, [interface_, values, gone]) => {
            changed(path, short(interface_), plain(values), list(gone));
        });
    }

    /** Calls `body` with the arguments of a signal of the daemon's own. */
    on(path, member, body) {
        const [interface_, name] = member.split(".");
        this.#client.subscribe({ path, interface: `${NAME}.${interface_}`, member: name },
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

async function systemBusAddress() {
    try {
        return (await cockpit.spawn(["printenv", "DBUS_SYSTEM_BUS_ADDRESS"], { err: "ignore" })).trim();
    } catch {
        return USUAL_ADDRESS;
    }
}
