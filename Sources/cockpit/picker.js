// SPDX-License-Identifier: Apache-2.0
// This page as a picker program: registered while it is open, it follows the run that the daemon assigns to it and
// forwards the person's answers. It holds the state and draws nothing.

import { errorName } from "./bus.js";
import { Images } from "./images.js";
import { register } from "./registration.js";
import { visibility } from "./visibility.js";

/** The interval of renewing the registration, in milliseconds. */
const RENEWAL = 25_000;
/** Stages in which the offers are those to choose from; in later ones, the chosen one alone. */
const CHOOSING = new Set(["searching", "offering", "failed"]);

/** Dispatches "changed" when the state changes, and "began" when a run begins. */
export class Picker extends EventTarget {
    #bus;
    #objects;
    #clockOffset = 0;
    #renewal = null;
    /** "starting", "registered", "refused" (not allowed to) or "failed". */
    state = "starting";
    /** Why registering failed. */
    problem = null;
    /** The daemon's properties of the run, with its path; null without a run. */
    run = null;
    /** The last run, once it is over and until the person has seen it. */
    ended = null;
    /** The images of the run, and of the one that has ended. */
    images = null;
    /** The offer that is set up, or was last, by the daemon's word; null before the first. */
    picked = null;
    /** The name that the person has given in this run. */
    #newName = null;
    /** Whether a pick is on its way to the daemon. */
    isPicking = false;
    /** Whether the run ends because the person cancelled. */
    #gaveUp = false;

    constructor(bus, objects) {
        super();
        this.#bus = bus;
        this.#objects = objects;
        objects.addEventListener("changed", () => this.#look());
    }

    /**
     * Registers, and renews the registration: the connections of a sleeping laptop stay open, and apps would wait for
     * an absent person.
     */
    async register(label, registering = register(label)) {
        clearTimeout(this.#renewal);
        try {
            await registering;
            this.state = "registered";
            this.#renewal = setTimeout(() => this.register(label), RENEWAL);
        } catch (error) {
            this.state = errorName(error) === "AccessDenied" ? "refused" : "failed";
            this.problem = error;
        }
        this.#tell();
    }

    /** The daemon or the connection is gone. */
    forget() {
        clearTimeout(this.#renewal);
        this.state = "starting";
    }

    /** The picker program that pickers go to before this one; null when this one is the first. */
    get shownElsewhere() {
        const first = this.#objects.manager.Pickers?.[0];
        return first && !first.isYours ? first : null;
    }

    /** Milliseconds until discovery ends, by the machine's clock; null when it does not. */
    get timeLeft() {
        const deadline = this.run?.Deadline ?? 0;
        return deadline > 0 ? deadline / 1000 - (Date.now() + this.#clockOffset) : null;
    }

    // The person's answers; each fails with Cockpit's error.
    /** `choice` has `end` and `access`, each one of the offer's choices, or empty for the app's. */
    async pick(offer, choice = {}) {
        if (this.isPicking) return;
        this.isPicking = true;
        this.#tell();
        try {
            const chosen = Object.entries(choice).filter(([, value]) => value).map(([key, value]) => [key, cockpit.variant("s", value)]);
            await (chosen.length ? this.#call("PickWith", offer.id, Object.fromEntries(chosen)) : this.#call("Pick", offer.id));
        } finally {
            this.isPicking = false;
            this.#tell();
        }
    }

    respond(answer) { return this.#call("Respond", answer); }

    async rename(name) {
        await this.#call("Rename", name);
        this.#newName = name;
        this.#follow();
    }

    cancel() { return this.#leave("Cancel"); }

    /** Cancels, and has the app not ask again. */
    mute() { return this.#leave("Mute"); }

    async #leave(member) {
        // In a setup, the name is the last question: without an answer, the accessory keeps its name.
        this.#gaveUp = this.run?.Stage !== "renaming" || this.run.Kind === "rename";
        try {
            await this.#call(member);
        } catch (error) {
            this.#gaveUp = false;
            throw error;
        }
    }

    /** The person has seen the outcome. */
    dismiss() {
        this.ended = null;
        this.images?.close();
        this.images = null;
        this.#tell();
    }

    async #call(member, ...args) {
        const path = this.run?.path;
        if (!path) return;
        try {
            await this.#bus.call(path, `Picker.${member}`, ...args);
        } catch (error) {
            // The run ended in the meantime: the page shows that anyway.
            if (errorName(error) !== "UnknownObject") throw error;
        }
    }

    /** Finds the run that this program shows: an admin also sees those of others. */
    #look() {
        const isOurs = this.#objects.manager.Pickers?.some(each => each.isYours && each.shows);
        const found = isOurs ? this.#objects.all("Picker")[0] ?? null : null;
        if (this.run && this.run.path !== found?.path) this.#end();
        if (found) {
            const isNew = this.run === null;
            if (isNew) this.#begin(found.path);
            this.run = found;
            this.#follow();
            if (isNew) this.dispatchEvent(new Event("began"));
        }
        this.#tell();
    }

    /** Takes the offer that is set up from the run. */
    #follow() {
        const { Stage: stage, Offers: offers } = this.run ?? {};
        if (offers?.length === 1 && !CHOOSING.has(stage)) this.picked = { ...offers[0], name: this.#newName ?? offers[0].name };
    }

    #begin(path) {
        this.ended = null;
        this.picked = null;
        this.#newName = null;
        this.#gaveUp = false;
        this.images?.close();
        this.images = new Images(id => this.#bus.call(path, "Picker.ImageData", id).then(([data]) => data));
        this.images.addEventListener("loaded", () => this.#tell());
        this.#readClock();
    }

    #end() {
        // The last known properties contain the outcome. After a cancellation none is shown, and the page itself
        // reports a lost daemon or connection.
        const isSilent = (this.#gaveUp && this.run.Stage !== "done") || this.#objects.state !== "ready"
            // It has moved to a program that can be seen.
            || (!visibility.isVisible && this.run.Stage !== "done" && this.run.Stage !== "failed");
        this.ended = isSilent ? null : this.run;
        this.run = null;
        if (!this.ended) this.dismiss();
    }

    /** A phone's clock is not the machine's. */
    async #readClock() {
        try {
            const [asked, text] = [Date.now(), await cockpit.spawn(["date", "+%s%3N"], { err: "ignore" })];
            this.#clockOffset = Number(text) - (asked + Date.now()) / 2;
        } catch {
            this.#clockOffset = 0;
        }
    }

    #tell() { this.dispatchEvent(new Event("changed")); }
}
