// SPDX-License-Identifier: Apache-2.0
// The pickers of all gateways of a fleet, for an operator whose fleet's directory is on this machine: accessoryctl
// talks to the broker, and the page's own sheet shows the pickers, one at a time.

import { badge, button, element, setText } from "./dom.js";
import { words } from "./text.js";

const HAS_FLEET = 'test -e "${ACCESSORY_FLEET:-$HOME/.config/accessory-fleet}/operator.conf"';
const OVER = new Set(["done", "failed"]);
const CHOOSING = new Set(["searching", "offering"]);
/** Of an offer, parts that may differ where several gateways make the same one. */
const OWN = new Set(["id", "rssi", "networkRssi", "hasImage"]);
/** All that a person sees of an offer but its strength. */
const terms = (run, offer) => JSON.stringify([run.App, run.Kind, run.Prompt, Object.entries(offer).filter(([key]) => !OWN.has(key)).sort()]);
const path = each => `${each.gateway}/${each.picker}`;

/** Has the interface of `Picker`, for `PickerSheet`. Dispatches "changed". */
export class FleetPicker extends EventTarget {
    #process = null;
    /** Of all gateways. */
    #pickers = [];
    /** The last line, as far as it has come. */
    #rest = "";
    #gaveUp = false;
    #newName = null;
    run = null;
    ended = null;
    picked = null;
    isPicking = false;
    // Images are not in the fleet's reports, and a gateway's clock may be any.
    images = null;
    timeLeft = null;
    /** The last thing that went wrong, for people. */
    problem = "";

    get isOpen() { return this.#process !== null; }

    open() {
        this.problem = "";
        this.#rest = "";
        const process = cockpit.spawn(["accessoryctl", "fleet", "picker", "--json"], { err: "out" });
        this.#process = process;
        process.stream(text => this.#read(text));
        process.then(() => this.#closed(), () => this.#closed());
        this.#tell();
    }

    /** The end of its input has the program take the gateways' registrations back. */
    close() { this.#process?.input("", false); }

    #closed() {
        this.#process = null;
        this.#take([]);
    }

    #read(text) {
        const lines = (this.#rest + text).split("\n");
        this.#rest = lines.pop() ?? "";
        for (const line of lines) {
            if (line.startsWith("[")) this.#take(JSON.parse(line));
            else if (line) { this.problem = line; this.#tell(); }
        }
    }

    #take(pickers) {
        this.#pickers = pickers;
        const found = pickers.find(each => path(each) === this.run?.path) ?? pickers.find(each => !OVER.has(each.Stage));
        if (this.run && (!found || path(found) !== this.run.path)) this.#end();
        // The next one waits until the end of the last one was seen.
        if (found && !this.ended) {
            if (!this.run) [this.picked, this.#newName, this.#gaveUp] = [null, null, false];
            this.run = {
                ...found, path: path(found), AppName: words.appAt(found.AppName, found.gateway),
                Offers: found.Offers.map(each => ({ ...each, hasImage: false, elsewhere: this.#sameElsewhere(found, each.id).map(({ run }) => run.gateway) })),
                Prompt: { ...found.Prompt, ...found.secret },
            };
            if (found.Offers.length === 1 && !CHOOSING.has(found.Stage) && found.Stage !== "failed") this.#follow();
        }
        this.#tell();
    }

    #follow() {
        const [offer] = this.run.Offers;
        this.picked = { ...offer, name: this.#newName ?? offer.name };
    }

    #end() {
        this.ended = this.#gaveUp && this.run.Stage !== "done" ? null : this.run;
        this.run = null;
    }

    /** The offers of other gateways that say the same of an accessory with which they are bonded, too. */
    #sameElsewhere(shown, id) {
        const run = this.#pickers.find(each => path(each) === path(shown));
        const offer = run?.Offers.find(each => each.id === id);
        if (offer?.identity === undefined || !CHOOSING.has(run.Stage)) return [];
        const wanted = terms(run, offer);
        return this.#pickers.filter(each => each.gateway !== run.gateway && CHOOSING.has(each.Stage))
            .flatMap(each => each.Offers.filter(other => other.identity === offer.identity && terms(each, other) === wanted).map(other => ({ run: each, offer: other })));
    }

    /** Picks at the gateway that hears it best, whose picker the sheet then follows. */
    async pick(offer, choice = {}) {
        const strength = each => each.offer.rssi ?? -Infinity;
        const nearest = this.#sameElsewhere(this.run, offer.id).reduce((a, b) => strength(b) > strength(a) ? b : a, { run: this.run, offer });
        this.run = { ...this.run, gateway: nearest.run.gateway, picker: nearest.run.picker, path: path(nearest.run) };
        this.#send({ pick: nearest.offer.id, end: choice.end ?? "", access: choice.access ?? "" });
    }

    async respond(answer) {
        this.#send(Object.fromEntries(Object.entries(answer).map(([key, value]) => [key, value?.t ? value.v : value])));
    }

    async rename(name) {
        this.#newName = name;
        this.#send({ name });
    }

    async cancel() {
        this.#gaveUp = this.run?.Stage !== "renaming" || this.run.Kind === "rename";
        this.#send({ cancel: true });
    }

    async mute() {
        this.#gaveUp = true;
        this.#send({ mute: true });
    }

    dismiss() {
        this.ended = null;
        this.#take(this.#pickers);
    }

    #send(answer) {
        if (!this.run) return;
        this.#process?.input(`${JSON.stringify({ gateway: this.run.gateway, picker: this.run.picker, ...answer })}\n`, true);
    }

    #tell() { this.dispatchEvent(new Event("changed")); }
}

/** The section: the gateways, and the switch. */
export class Fleet extends EventTarget {
    #picker;
    #gateways = element("ul", { class: "plain" });
    #failure = element("p", { class: "failure", role: "alert" });
    #switch;
    /** Whether this user has a fleet's directory. */
    isThere = false;
    element;

    constructor(picker) {
        super();
        this.#picker = picker;
        this.#switch = button("", () => picker.isOpen ? picker.close() : picker.open(), "primary");
        this.element = element("section", { "aria-label": words.fleet() }, element("h2", {}, words.fleet()),
            element("p", { class: "hint" }, words.fleetHint()), this.#switch, this.#failure, this.#gateways);
        picker.addEventListener("changed", () => this.draw());
        cockpit.spawn(["sh", "-c", HAS_FLEET], { err: "ignore" }).then(() => {
            this.isThere = true;
            this.dispatchEvent(new Event("changed"));
        }, () => {});
    }

    /** The states of gateways are not signalled: the visible section reads them. */
    async shown() {
        try {
            const gateways = JSON.parse(await cockpit.spawn(["accessoryctl", "fleet", "list", "--json"], { err: "message" }));
            this.#gateways.replaceChildren(...gateways.map(each => element("li", {}, element("strong", {}, each.gateway), " ",
                badge(words.gatewayState(each.status?.state), each.status?.state === "online" ? "good" : "warning"),
                element("span", { class: "note" }, words.grantCount(each.grants)))));
        } catch (error) {
            setText(this.#failure, words.error(error));
        }
    }

    draw() {
        setText(this.#switch, this.#picker.isOpen ? words.stopFleetPickers() : words.showFleetPickers());
        setText(this.#failure, this.#picker.problem);
    }
}
