// SPDX-License-Identifier: Apache-2.0
// What the daemon tells, as the page's views may rely on it: each property that they read is there and of its kind. A
// newer or older daemon may say something else, or nothing: that counts as not said, and costs nothing but itself.

/** The seconds since 1970 that a date can have. */
const LAST_MOMENT = 8.64e12;

const isRecord = value => value !== null && typeof value === "object" && !Array.isArray(value);

// Each takes whatever was told, and gives what counts.
const text = value => typeof value === "string" ? value : "";
const truth = value => value === true;
const number = none => value => typeof value === "number" && Number.isFinite(value) ? value : none;
const time = value => Math.min(Math.max(number(0)(value), 0), LAST_MOMENT);
const list = take => value => Array.isArray(value) ? value.map(take).filter(each => each !== null) : [];
const texts = value => Array.isArray(value) ? value.filter(each => typeof each === "string") : [];
const dictionary = take => value => isRecord(value)
    ? Object.fromEntries(Object.entries(value).map(([key, each]) => [key, take(each)])) : {};
/** A text, a number or a list of texts that may be missing. */
const maybe = take => value => value === undefined || take(value) !== value ? undefined : value;
const maybeTexts = value => Array.isArray(value) ? texts(value) : undefined;

/** A dictionary with these keys; null for what is none. Others are left as they are. */
const record = keys => value => {
    if (!isRecord(value)) return null;
    const taken = { ...value };
    for (const [key, take] of Object.entries(keys)) {
        const each = take(value[key]);
        if (each === undefined) delete taken[key];
        else taken[key] = each;
    }
    return taken;
};

const offer = record({
    id: text, name: text, advertisedName: text, hasImage: truth, shared: truth, paired: truth, rssi: maybe(number()), networkRssi: maybe(number()),
    ssid: value => value, network: text, resembles: text, security: maybe(text), band: maybe(text),
});
const prompt = record({
    kind: maybe(text), error: maybe(text), message: maybe(text), pin: text, passkey: number(0), entered: number(0),
    finishInApp: truth, migrations: maybeTexts,
});
const rule = record({ kind: text, name: text, source: text, target: text, apps: texts, minimumRssi: maybe(number()) });

const INTERFACES = {
    Accessory: record({
        DisplayName: text, State: text, Address: text, Adapter: text, NetworkName: text, Apps: texts, Connected: truth, Battery: number(-1),
    }),
    Admin: record({
        Policy: list(rule), PolicyProblems: list(record({ file: text, line: number(0), key: text, reason: text })),
        Lockdown: value => text(value) || "unknown",
        Adapters: list(record({ name: text, address: text, powered: truth, allowed: truth })),
    }),
    App: record({ Id: text, Name: text, Source: text, Problems: texts, Manifest: dictionary(texts) }),
    Grant: record({ App: text, Accessory: text, State: text, Enabled: truth, Created: time, LastUsed: time }),
    Manager: record({
        Version: text, Bluetooth: text, WiFi: text, PickerAvailable: truth,
        Pickers: list(record({ program: text, label: text, isYours: truth, shows: truth })),
    }),
    Network: record({ Interface: text }),
    Picker: record({
        App: text, AppName: text, Program: text, Kind: text, Stage: text, Offers: list(offer), Prompt: value => prompt(value) ?? prompt({}),
        Deadline: number(0),
    }),
    Session: record({ App: text, Program: text, State: text }),
};

/** An interface's properties. */
export function shaped(name, values) {
    return INTERFACES[name]?.(isRecord(values) ? values : {}) ?? values;
}

/** An object's interfaces with their properties. */
export function shapedAll(interfaces) {
    return Object.fromEntries(Object.entries(isRecord(interfaces) ? interfaces : {}).map(([name, values]) => [name, shaped(name, values)]));
}

/** Lines of the audit trail. */
export const auditLines = list(record({ id: number(0), time, event: text, app: text, accessory: text, who: text, why: text }));

/** What an explanation lists. */
export const explained = list(record({
    address: text, name: text, item: text, reasons: texts, rssi: maybe(number()), network: maybe(text), ssid: value => value,
}));
