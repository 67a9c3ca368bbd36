// SPDX-License-Identifier: Apache-2.0
// The page's texts in one place, for Cockpit's translations (po.*.js), and the formats of times and strengths. Names
// from the daemon are safe to show: it replaces characters that would hide or reverse text (AccessoryModel/ShownName).

import { errorName } from "./bus.js";

const _ = cockpit.gettext;

/** Letters of Hebrew, Arabic and other scripts that run from right to left. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** States language and direction of the page. Without a translation the shell's direction stays. */
export function applyLanguage() {
    document.documentElement.lang = language();
    if (cockpit.language_direction === "rtl") document.documentElement.dir = "rtl";
}

/**
 * A text with values in it. A value that may run in another direction than the text is isolated (U+2068, U+2069), so that it
 * cannot take the words beside it along.
 */
function fill(text, ...values) {
    const isolates = RIGHT_TO_LEFT.test(text) || document.documentElement.dir === "rtl";
    return cockpit.format(text, ...values.map(each => typeof each === "string" && (isolates || RIGHT_TO_LEFT.test(each)) ? `\u2068${each}\u2069` : each));
}

const plural = (one, many, count) => fill(cockpit.ngettext(one, many, count), count);

/** From 0 (unknown) to 4, with the terminal picker's steps. */
export function bars(rssi) {
    return rssi === undefined ? 0 : rssi >= -55 ? 4 : rssi >= -67 ? 3 : rssi >= -80 ? 2 : 1;
}

const language = () => (cockpit.language ?? "en").replace("_", "-");

// Made once: each costs as much as a hundred texts.
const moments = new Intl.DateTimeFormat(language(), { dateStyle: "medium", timeStyle: "medium" });
const distances = new Intl.RelativeTimeFormat(language(), { numeric: "auto" });
const collator = new Intl.Collator(language(), { numeric: true });

/** The order of two names. */
export const compare = (a, b) => collator.compare(a, b);

/** A span of time, `8h`, in words. */
function span(text) {
    const [, count, unit] = /^(\d+)(\w+)$/.exec(text) ?? [null, "0", "s"];
    const units = { s: "second", min: "minute", h: "hour", d: "day", w: "week" };
    return new Intl.NumberFormat(language(), { style: "unit", unit: units[unit] ?? "second", unitDisplay: "long" }).format(Number(count));
}

/** A moment, from seconds since 1970. */
export function moment(seconds) {
    return moments.format(new Date(seconds * 1000));
}

/** How long ago, from seconds since 1970; 0 is never. */
export function ago(seconds) {
    if (!seconds) return _("never");
    const passed = Math.max(0, Date.now() / 1000 - seconds);
    if (passed >= 86400) return distances.format(-Math.floor(passed / 86400), "day");
    if (passed >= 3600) return distances.format(-Math.floor(passed / 3600), "hour");
    return passed >= 60 ? distances.format(-Math.floor(passed / 60), "minute") : _("just now");
}

export const words = {
    // The page.
    title: () => _("Accessories"),
    apps: () => _("Apps"),
    policy: () => _("Policy"),
    activity: () => _("Activity"),
    sections: () => _("Sections"),
    cancel: () => _("Cancel"),
    close: () => _("Close"),
    reload: () => _("Reload"),
    starting: () => _("Loading"),
    absent: () => _("The accessorysetupd service is not running"),
    absentHint: () => _("The page resumes when the service is back. To see why it stopped, run this command on the machine:"),
    lost: () => _("The connection was lost"),
    lostHint: () => _("Operations in progress have ended. Reload the page when the machine can be reached again."),
    limited: () => _("Limited access"),
    limitedHint: () => _("Only administrators can see accessories, apps and the audit trail. Turn on administrative access at the top of Cockpit."),

    // Whether this page shows pickers.
    ready: () => _("When an app asks for an accessory, the picker appears here. Keep this page open."),
    noRadio: state => state === "off" ? _("Bluetooth is switched off") : _("No Bluetooth adapter found"),
    noRadioHint: state => state === "off" ? _("An administrator can switch it on.") : _("Attach an adapter, or look in the machine’s firmware settings whether its own is disabled."),
    switchOn: () => _("Switch Bluetooth on"),
    refused: () => _("You may not set up accessories"),
    refusedHint: () => _("This requires administrative access in Cockpit, or membership in the group accessory-picker. Ask an administrator to add you with this command, then log in again:"),
    failedToRegister: () => _("This page cannot show pickers"),
    elsewhere: who => fill(_("$0 is showing pickers. This page takes over when that one closes."), who),
    anotherProgram: () => _("Another program"),
    label: (user, browser) => fill(_("$0 in $1"), user, browser),
    busyElsewhere: (app, who) => fill(_("$0 is asking for an accessory. Shown by: $1"), app, who),

    // The picker.
    asks: (app, kind) => fill({
        migration: _("$0 would like to use accessories that are already set up"),
        rename: _("$0 would like you to name an accessory"),
        authorization: _("$0 would like additional access to an accessory"),
        renewal: _("$0 would like to go on using an accessory"),
    }[kind] ?? _("$0 would like to set up an accessory"), app),
    searching: () => _("Looking for accessories"),
    searchHint: () => _("Turn the accessory on and hold it near this machine."),
    searchHint2: () => _("Many accessories must first be put into pairing mode, often by holding a button for a few seconds."),
    found: count => plural("$0 accessory found", "$0 accessories found", count),
    timeLeft: seconds => fill(_("$0 left"), `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`),
    missing: () => _("Accessory missing? See why"),
    aside: app => fill(_("$0 is waiting for your choice."), app),
    backToPicker: () => _("Back to the picker"),
    strength: bars => [_("signal unknown"), _("weak signal"), _("fair signal"), _("good signal"), _("strong signal")][bars],
    mute: () => _("Don’t ask again"),
    resembles: name => fill(_("Looks like “$0”, but is a different accessory"), name),
    shared: () => _("Used by another app"),
    alreadyPaired: () => _("Already paired by another program"),
    added: () => _("New"),
    gone: () => _("Out of range"),
    tryAgain: () => _("Try again"),
    tryAgainHint: () => _("Choose it again to retry, or choose another one."),
    network: ({ network, security, band }) => [fill(_("Wi-Fi “$0”"), network), words.security(security), band].filter(each => each).join(" · "),
    security: security => ({
        open: _("open"), owe: _("open, encrypted"), wep: "WEP", wpa: "WPA", wpa2: "WPA2", "wpa2-wpa3": "WPA2/WPA3", wpa3: "WPA3",
        enterprise: _("enterprise"), psk: "WPA",
    })[security] ?? "",
    alsoTaken: names => fill(_("Choosing one also gives the app access to accessories that are already set up: $0"), names.join(", ")),
    pairing: name => name ? fill(_("Setting up $0"), name) : _("Setting up"),
    bridging: () => _("Setting up its Bluetooth Classic connection"),
    waitingForApp: app => fill(_("Waiting for $0"), app),
    unknownQuestion: () => _("This page is older than the service and does not support this question. Cancel and reload the page."),
    sameNumber: () => _("Does the accessory show this number?"),
    theyMatch: () => _("Yes, it does"),
    theyDiffer: () => _("No, a different one"),
    enterAtAccessory: () => _("Enter this number on the accessory"),
    enterPINAtAccessory: () => _("Enter this PIN on the accessory"),
    accessoryGoesOn: () => _("Setup then continues automatically."),
    entered: count => plural("$0 digit entered", "$0 digits entered", count),
    whichNumber: () => _("Which number does the accessory show?"),
    whichPIN: () => _("What is the accessory’s PIN? It is often on a label or in the manual."),
    goOn: () => _("Continue"),
    mayJoin: (app, network) => fill(_("Allow $0 to join the network $1?"), app, network),
    mayConnect: name => name ? fill(_("Allow $0 to connect?"), name) : _("Allow the accessory to connect?"),
    allow: () => _("Allow"),
    refuse: () => _("Don’t allow"),
    takesOver: app => fill(_("These are already set up on this machine. $0 would use them too:"), app),
    agree: () => _("Agree"),
    agreeIn: seconds => fill(_("Agree in $0"), seconds),
    naming: () => _("Name the accessory"),
    whatName: name => name ? fill(_("What should $0 be called?"), name) : _("What should it be called?"),
    saveName: () => _("Save name"),
    keepName: () => _("Keep the current name"),
    networkToo: () => _("Its network is given the same name."),
    failedToSetUp: name => name ? fill(_("$0 was not set up"), name) : _("It was not set up"),
    endOfAccess: () => _("Access ends"),
    onlyReading: () => _("The app may only read and receive data, not write"),
    endOfApp: () => _("as the app asks"),
    /** A rule by which access ends: `8h`, `18:00`, `idle 30d`, or `none`. */
    end: rule => rule === "none" ? _("Access does not end") : rule.includes(":") ? fill(_("Access ends at $0"), rule)
        : rule.startsWith("idle ") ? fill(_("Access ends when unused for $0"), span(rule.slice(5))) : fill(_("Access ends after $0"), span(rule)),
    endsAt: moment => fill(_("Access ends: $0"), moment),
    hasEnded: () => _("Access has ended; the app can ask for more time"),
    done: (kind, name) => kind === "rename" ? _("Renamed") : kind === "renewal" ? _("Access renewed") : name ? fill(_("$0 is ready to use"), name) : _("Ready to use"),
    goOnIn: app => fill(_("Continue in $0."), app),
    finishInApp: app => fill(_("Finish setup in $0."), app),
    notDone: ({ error = "" }) => error.endsWith("DiscoveryTimeout") ? _("Nothing was found") : _("Nothing was set up"),

    /** The reason for a failed run: `error` is the daemon's name for it, `message` its text. */
    reason: ({ error = "", message = "" }) => ({
        DiscoveryTimeout: _("No matching accessory was found in time. Turn it on, hold it near this machine, and try again in the app."),
        UserCancelled: _("The picker was closed."),
        ConnectionFailed: fill(_("Pairing failed: $0"), message),
        PickerRestricted: fill(_("The radio is not available: $0"), message),
        UserRestricted: fill(_("Not allowed on this machine: $0"), message),
    })[error.split(".").at(-1)] ?? (message || _("The picker was closed.")),

    /** The message of an error of the daemon or the bus; `$0` is the daemon's own, in English. */
    error: error => {
        const detail = String(error?.message ?? error).replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, "\ufffd");
        return ({
            AccessDenied: fill(_("Permission denied: $0"), detail),
            InvalidRequest: fill(_("Invalid request: $0"), detail),
            ConnectionFailed: fill(_("The accessory cannot be reached: $0"), detail),
            UserRestricted: fill(_("Not allowed on this machine: $0"), detail),
            PickerRestricted: fill(_("The radio is not available: $0"), detail),
            UnknownObject: _("It no longer exists."),
            NoReply: _("The service did not answer."),
            ServiceUnknown: _("The service is not running."),
            Disconnected: _("The connection was lost."),
        })[errorName(error)] ?? fill(_("The operation failed: $0"), detail);
    },

    // Accessories.
    noAccessories: () => _("No accessories are set up"),
    noAccessoriesHint: () => _("When an app asks for an accessory, the picker appears here. “Apps” lists the known apps, and shows why an app does not find its accessory."),
    noOwnAccessories: () => _("You have not set up any accessories"),
    ownHint: () => _("You see the accessories that you set up. To see all, turn on administrative access at the top of Cockpit."),
    state: state => ({
        authorized: _("authorized"), awaitingAuthorization: _("waiting for the app"), unauthorized: _("not authorized"),
    })[state] ?? state,
    connected: () => _("connected"),
    notConnected: () => _("not connected"),
    inRange: () => _("in range"),
    notInRange: () => _("not in range"),
    address: () => _("Address"),
    adapter: () => _("Bluetooth adapter"),
    adapterMissing: address => fill(_("$0, not present"), address),
    adapterOff: name => fill(_("$0, switched off"), name),
    networkName: () => _("Network"),
    joined: interface_ => fill(_("joined by $0"), interface_),
    battery: () => _("Battery"),
    percent: value => fill("$0 %", value),
    lastUsed: () => _("Last used"),
    setUp: () => _("Set up"),
    mayUse: () => _("Apps that may use it"),
    switchFor: (app, accessory) => fill(_("$0 may use $1"), app, accessory),
    switchedOff: () => _("switched off"),
    rename: () => _("Rename"),
    renameOf: name => fill(_("Rename $0"), name),
    newName: () => _("New name"),
    renameHint: () => _("All apps, and Bluetooth itself, use this name."),
    revoke: () => _("Revoke"),
    revokeOf: (app, accessory) => fill(_("Revoke $0’s access to $1"), app, accessory),
    revokeTitle: (app, accessory) => fill(_("Revoke $0’s access to $1?"), app, accessory),
    revokeLast: () => _("No other app uses it, so its pairing is removed too. To be used again, it must be set up again."),
    revokeOther: apps => fill(_("The app loses access immediately. The accessory stays paired for: $0"), apps.join(", ")),
    remove: () => _("Remove"),
    removeOf: name => fill(_("Remove $0"), name),
    removeTitle: name => fill(_("Remove $0?"), name),
    removeHint: () => _("This removes its pairing and all access to it. To be used again, it must be set up again."),
    removeOwnHint: () => _("The apps for which you set it up lose access. If no other app uses it, its pairing is removed too."),
    removeApps: apps => fill(_("These apps lose access: $0"), apps.join(", ")),

    // Devices of a grant for a kind.
    devicesOf: app => fill(_("Devices that $0 hears"), app),
    heardNow: count => plural("$0 device heard now", "$0 devices heard now", count),
    hearsNone: () => _("No devices are heard now: they are listed while the app uses Bluetooth."),
    excludedCount: count => plural("$0 excluded", "$0 excluded", count),
    noDeviceFits: () => _("No device matches."),
    isExcluded: () => _("excluded"),
    exclude: () => _("Exclude"),
    excludeOf: device => fill(_("Exclude $0"), device),
    excludeTitle: device => fill(_("Exclude $0?"), device),
    excludeHint: app => fill(_("$0 no longer hears this device until you include it again. A device that changes its address is heard again under the new one."), app),
    include: () => _("Include"),
    includeOf: device => fill(_("Include $0"), device),
    deviceLabel: ({ name: shown, address }) => shown ? fill("$0 ($1)", shown, address) : address,

    opens: () => _("can read, write and receive data until you revoke access"),
    hears: () => _("hears all such devices, and cannot use them, until you revoke access"),
    readsOnly: () => _("can read and receive data, not write, until you revoke access"),
    usesOnly: list => fill(_("can use only these characteristics until you revoke access: $0"), list.join(", ")),
    readOffer: () => _("The app can read and receive data, not write. An accessory may still act when it is read."),
    fullOffer: () => _("The app gets full access: it can read, write and receive data."),
    listOffer: list => fill(_("The app can use only these characteristics: $0"), list.join(", ")),
    kindOffer: (most, count, names) => fill(_("Hears all such devices, now and later, up to $0 at a time"), most) + " · "
        + [plural("$0 in range", "$0 in range", count), ...(names?.length ? [names.join(", ")] : [])].join(": "),
    finish: () => _("Done"),

    // The list of accessories.
    accessories: count => plural("$0 accessory", "$0 accessories", count),
    nothingFits: () => _("No accessory matches."),
    order: () => _("Order"),
    byName: () => _("by name"),
    byUse: () => _("last used first"),
    bySetup: () => _("newest first"),
    show: () => _("Show"),
    all: () => _("all"),
    connectedOnly: () => _("connected"),
    attentionOnly: () => _("needs attention"),
    /** A name that several accessories have, with the particulars of this one. */
    oneOfMany: accessory => fill("$0 ($1)", accessory.DisplayName, words.particulars(accessory) || accessory.path.slice(-4)),
    /** The name that an accessory gives itself, and the end of its address. */
    particulars: ({ DisplayName: shown, AdvertisedName: own = "", Address: address }) =>
        [own !== shown && own, address.slice(-5)].filter(each => each).join(" · "),
    /** The same of an offer; empty where they say no more than its name. */
    offerParticulars: ({ name: shown, advertisedName: own, addressEnd: end }) => [own !== shown && own, end].filter(each => each).join(" · "),
    /** The name of an offer, with its particulars where several have the name; empty for none. */
    offerLabel: offer => offer?.addressEnd === undefined ? offer?.name ?? "" : fill("$0 ($1)", offer.name, words.offerParticulars(offer)),
    more: () => _("Details"),
    less: () => _("Close details"),
    detailsOf: name => fill(_("Details of $0"), name),
    select: () => _("Select several"),
    selectAll: () => _("Select all"),
    selectOne: name => fill(_("Select $0"), name),
    revokeSelected: count => fill(_("Revoke access ($0)"), count),
    removeSelected: count => fill(_("Remove selected ($0)"), count),
    removeSeveral: count => plural("Remove $0 accessory?", "Remove $0 accessories?", count),
    revokeSeveral: count => plural("Revoke access to $0 accessory?", "Revoke access to $0 accessories?", count),
    revokeSeveralHint: () => _("The app loses access immediately. An accessory that no other app uses is unpaired."),
    undo: () => _("Undo"),
    removedSoon: () => _("It will be removed in a few seconds."),
    notifyMe: () => _("Notify me when an app asks"),

    // Apps that may not ask.
    mutedApps: () => _("Apps that may not ask"),
    mutedHint: () => _("These apps cannot open the picker. Their accessories continue to work."),
    mutedSince: moment => fill(_("since $0"), moment),
    allowAgain: () => _("Allow again"),
    allowAgainOf: app => fill(_("Allow $0 to ask again"), app),

    // Apps.
    noApps: () => _("No apps are known"),
    noAppsHint: () => _("An app becomes known by its manifest, a file in this directory:"),
    sample: () => _("For example, com.example.dice.conf:"),
    sampleHint: () => _("The manual page explains each key:"),
    problems: count => plural("$0 problem", "$0 problems", count),
    usable: () => _("valid manifest"),
    manifest: () => _("Manifest"),
    manifestKey: key => ({
        Supports: _("Radios"), BluetoothServices: _("Services"), BluetoothNames: _("Names"), Networks: _("Networks"), BluetoothCompanyIdentifiers: _("Companies"),
        Unit: _("Identified by unit"), Executable: _("Identified by executable"), Users: _("Run by"), Flatpak: "Flatpak", Snap: "Snap",
    })[key] ?? key,
    appsAccessories: () => _("Accessories"),
    none: () => _("none"),
    running: count => plural("$0 session", "$0 sessions", count),
    notRunning: () => _("not running"),
    why: () => _("Why is it not offered?"),
    whyTitle: app => fill(_("Accessories offered to $0 now"), app),
    whyHint: () => _("Accessories in range, and why some are not offered: by the items of the app’s picker if one is open, else by the app’s manifest."),
    whyStart: () => _("Scan again"),
    whyStop: () => _("Stop"),
    whyLooking: () => _("Scanning"),
    whyStopped: () => _("Stopped. Last results:"),
    whyNothing: () => _("Nothing found yet. Is the accessory on and nearby?"),
    isOffered: () => _("offered"),
    isNotOffered: () => _("not offered"),
    matches: item => fill(_("Matches: $0"), item),
    noName: () => _("(no name)"),
    dBm: rssi => rssi === undefined ? "" : fill("$0 dBm", rssi),
    back: () => _("Back"),

    // Activity.
    runsNow: () => _("Running now"),
    pickerNow: (app, who) => fill(_("$0 has a picker open. Shown by: $1"), app, who),
    byPolicy: () => _("no one (approved by policy)"),
    sessionOf: app => fill(_("Session of $0"), app),
    sessionState: state => ({ created: _("not active yet"), active: _("active"), invalidated: _("ended") })[state] ?? state,
    nothingRuns: () => _("No app has a session."),
    programs: () => _("Where pickers are shown"),
    noPrograms: () => _("Nowhere: the requests of apps fail until “accessoryctl picker” or this page can show them."),
    thisPage: () => _("this page"),
    next: () => _("will show the next picker"),
    waits: () => _("waiting"),
    shows: () => _("showing one now"),
    trail: () => _("Audit trail"),
    search: () => _("Search"),
    whichApp: () => _("App"),
    whichEvents: () => _("Events"),
    allApps: () => _("all apps"),
    allEvents: () => _("all"),
    changes: () => _("access changes"),
    actions: () => _("setup and use"),
    refusals: () => _("refusals"),
    lines: count => plural("$0 line", "$0 lines", count),
    older: () => _("Show more"),
    noLines: () => _("No matching entries."),
    event: event => ({
        pickerShown: _("picker shown"), offered: _("offered"), picked: _("picked"), paired: _("paired"), adopted: _("adopted"), unpaired: _("unpaired"),
        granted: _("granted"), authorized: _("authorized"), updated: _("updated"), renamed: _("renamed"), used: _("used"), joined: _("network joined"),
        left: _("network left"), revoked: _("revoked"), disabled: _("switched off"), enabled: _("switched on"), refused: _("refused"),
        storeReplaced: _("store replaced"), muted: _("muted"), unmuted: _("unmuted"),
    })[event] ?? event,

    // Fleet.
    fleet: () => _("Fleet"),
    fleetHint: () => _("Apps at all gateways ask here while their pickers are shown."),
    showFleetPickers: () => _("Show the pickers of all gateways"),
    stopFleetPickers: () => _("Stop showing them"),
    alsoAt: gateways => fill(_("Also at: $0"), gateways.join(", ")),
    appAt: (app, gateway) => fill(_("$0 at $1"), app, gateway),
    gatewayState: state => ({ online: _("connected"), offline: _("not connected") })[state] ?? _("never seen"),
    grantCount: count => plural("$0 grant", "$0 grants", count),

    // Policy.
    policyGood: () => _("in force"),
    policyBad: () => _("invalid"),
    policyBadHint: () => _("Until this is fixed, nothing new is set up and nothing is approved. Existing grants keep working."),
    noRules: () => _("There are no rules: every app with a manifest may ask, a person picks, and nothing is denied. Rules are files in this directory:"),
    rule: ({ kind, apps, target }) => {
        const who = apps.length > 0 ? apps.join(", ") : _("every app");
        return {
            "allow-picker": fill(_("Only these may ask for a picker: $0"), who),
            "deny-picker": fill(_("These may not ask for a picker: $0"), who),
            approve: fill(_("Approved for $0 without asking a person: $1"), who, target),
            deny: fill(_("Denied to $0: $1"), who, target),
        }[kind] ?? kind;
    },
    ruleKind: kind => ({
        "allow-picker": _("allow"), "deny-picker": _("deny"), approve: _("approve"), deny: _("deny"),
    })[kind] ?? kind,
    claims: () => _("Claim lists"),
    claimList: (used, count, app) => fill(_("$0 of $1 accessories set up for $2"), used, count, app),
    window: (from, until) => fill(_("from $0 until $1"), from, until),
    fromStrength: rssi => fill(_("from $0 dBm"), rssi),
    line: number => fill(_("line $0"), number),
    lockdown: () => _("Lock-down of BlueZ"),
    lockdownState: state => ({
        on: _("on"), off: _("off"), broken: _("incomplete"), unknown: _("unknown"),
    })[state] ?? state,
    lockdownHint: state => ({
        on: _("Only root and this service may talk to BlueZ, and newly started programs cannot open Bluetooth sockets. Apps can reach only the accessories granted to them."),
        off: _("Programs can bypass this service to reach accessories, as far as BlueZ’s own rules and the kernel allow. This command turns the lock-down on:"),
        broken: _("A file of the lock-down is missing. This command restores it; if it reports the policy as missing, reinstall the package first:"),
        unknown: _("The bus configuration cannot be read. This command shows the reason:"),
    })[state] ?? "",
};
