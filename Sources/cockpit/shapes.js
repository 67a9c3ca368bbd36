// SPDX-License-Identifier: Apache-2.0
// The daemon's values in the form that the views rely on: each property and key of interfaces.js is present and of its
// kind. A value of another kind, from a newer or older daemon, counts as absent.

import { PROPERTIES, RECORDS } from "./interfaces.js";

/** The seconds since 1970 that a date can have. */
const LAST_MOMENT = 8.64e12;

const isRecord = value => value !== null && typeof value === "object" && !Array.isArray(value);
const texts = value => Array.isArray(value) ? value.filter(each => typeof each === "string") : undefined;

/** For each kind: the value that counts; undefined for one of another kind. */
const KINDS = {
    text: value => typeof value === "string" ? value : undefined,
    truth: value => value === true,
    number: value => typeof value === "number" && Number.isFinite(value) ? value : undefined,
    seconds: value => typeof value === "number" && Number.isFinite(value) ? Math.min(Math.max(value, 0), LAST_MOMENT) : undefined,
    texts,
    bytes: value => value,
    dictionary: value => isRecord(value) ? value : undefined,
    textsByName: value => isRecord(value)
        ? Object.fromEntries(Object.entries(value).map(([key, each]) => [key, texts(each) ?? []])) : undefined,
    record: (value, name) => record(RECORDS[name], value) ?? undefined,
    records: (value, name) => Array.isArray(value) ? value.map(each => record(RECORDS[name], each)).filter(each => each !== null) : undefined,
};
/** For each kind: the value of a property that is left out. */
const EMPTY = {
    text: () => "", truth: () => false, number: () => 0, seconds: () => 0, texts: () => [], bytes: () => undefined,
    dictionary: () => ({}), textsByName: () => ({}), record: name => record(RECORDS[name], {}), records: () => [],
};

/** Rows as `record` reads them, by the table that they are of. */
const parsed = new Map();

function parse(rows) {
    if (!parsed.has(rows)) {
        parsed.set(rows, Object.entries(rows).map(([key, [words, standIn]]) => {
            const [, kind, name, isOptional] = /^(\w+) ?(\w*)(\??)$/.exec(words);
            return [key, KINDS[kind], name, isOptional ? () => undefined : () => standIn ?? EMPTY[kind](name)];
        }));
    }
    return parsed.get(rows);
}

/** A dictionary by its rows; null for a value that is none. Keys without a row stay as they are. */
function record(rows, value) {
    if (!isRecord(value)) return null;
    const taken = { ...value };
    for (const [key, take, name, empty] of parse(rows)) {
        const each = take(value[key], name) ?? empty();
        if (each === undefined) delete taken[key];
        else taken[key] = each;
    }
    return taken;
}

/** The properties of an interface of the object at `path`, with the path. */
export function shaped(path, name, values) {
    return { ...(PROPERTIES[name] ? record(PROPERTIES[name], isRecord(values) ? values : {}) : values), path };
}

/** An object's interfaces with their properties. */
export function shapedAll(path, interfaces) {
    return Object.fromEntries(Object.entries(isRecord(interfaces) ? interfaces : {}).map(([name, values]) => [name, shaped(path, name, values)]));
}

/** Lines of the audit trail. */
export const auditLines = value => KINDS.records(value, "audit") ?? [];

/** The devices that an app hears by a grant for a kind. */
export const heardDevices = value => KINDS.records(value, "heardDevice") ?? [];

/** The devices of an explanation. */
export const explained = value => KINDS.records(value, "device") ?? [];
