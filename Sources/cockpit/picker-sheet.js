// SPDX-License-Identifier: Apache-2.0
// The picker as the person sees it: a sheet over whatever the page shows, from the app's request to "Continue in the
// app". One scene for each stage; a scene is rebuilt for another stage or question, and otherwise updated.

import { button, element, freshID, guardedButton, setText, show } from "./dom.js";
import { showImage } from "./images.js";
import { OfferList, isAlike } from "./offer-list.js";
import { naming, question } from "./questions.js";
import { words } from "./text.js";

/** Dispatches "aside" when the sheet is put aside, and when it is back. */
export class PickerSheet extends EventTarget {
    #picker;
    #explain;
    /** Whether an admin has put the sheet aside while the run continues. */
    isAside = false;
    #dialog;
    #title = element("h2", { id: freshID(), tabindex: "-1" });
    #status = element("p", { class: "status", role: "status" });
    #timer = element("p", { class: "time-left", role: "timer" });
    #scene = element("div", { class: "scene" });
    #cancel;
    #mute;
    #failure = element("p", { class: "failure", role: "alert", hidden: true });
    #key = "";
    /** @type {(shown: object) => void} */
    #update = () => {};
    #clock = null;
    #isScheduled = false;
    /** The browser's lock; true while it is being asked for. */
    #wakeLock = null;

    /** `explain(app)` shows why something is not offered; it returns false to those who may not see that. */
    constructor(picker, explain) {
        super();
        this.#picker = picker;
        this.#explain = explain;
        this.#cancel = button("", () => this.#close());
        this.#mute = guardedButton(words.mute(), () => this.#try(() => this.#picker.mute()), "link");
        this.#dialog = element("dialog", { class: "sheet picker", "aria-labelledby": this.#title.id },
            element("div", { class: "sheet-content" }, this.#title, this.#status, this.#timer, this.#scene, this.#failure,
                element("div", { class: "actions" }, this.#cancel, this.#mute)));
        // Escape, and a phone's gesture for "back".
        this.#dialog.addEventListener("cancel", event => { event.preventDefault(); this.#close(); });
        // A browser may close it anyway: the run must stay visible.
        this.#dialog.addEventListener("close", () => { if (this.#picker.run && !this.isAside) this.#dialog.showModal(); });
        document.body.append(this.#dialog);
        picker.addEventListener("changed", () => this.#schedule());
    }

    /** Puts the sheet aside, or back. The run continues. */
    setAside(isAside) {
        if (isAside === this.isAside) return;
        this.isAside = isAside;
        if (isAside) this.#dialog.close();
        else if (this.#picker.run && !this.#dialog.open) this.#dialog.showModal();
        this.dispatchEvent(new Event("aside"));
    }

    /** Draws once for all changes before the next frame. */
    #schedule() {
        if (this.#isScheduled) return;
        this.#isScheduled = true;
        requestAnimationFrame(() => { this.#isScheduled = false; this.#draw(); });
    }

    async #close() {
        const { run } = this.#picker;
        if (!run) return this.#picker.dismiss();
        await this.#try(() => this.#picker.cancel());
    }

    async #try(body) {
        this.#failure.hidden = true;
        try {
            await body();
        } catch (error) {
            setText(this.#failure, words.error(error));
            this.#failure.hidden = false;
        }
    }

    #draw() {
        const shown = this.#picker.run ?? this.#picker.ended;
        this.#tick();
        if (!shown) {
            this.setAside(false);
            if (this.#dialog.open) this.#dialog.close();
            this.#key = "";
            this.#scene.replaceChildren();
            return this.#stayAwake(false);
        }
        const scene = this.#picker.run ? sceneOf(shown) : "end";
        const key = `${shown.path} ${scene}`;
        if (key !== this.#key) {
            // The question or the message has changed.
            this.setAside(false);
            this.#key = key;
            this.#failure.hidden = true;
            const made = this.#make(scene, shown);
            this.#scene.replaceChildren(...made.nodes);
            this.#scene.dataset.scene = scene;
            this.#update = made.update ?? (() => {});
            setText(this.#title, words.asks(shown.AppName, shown.Kind));
            setText(this.#cancel, scene === "end" ? words.close() : scene === "renaming" ? words.keepName() : shown.Prompt?.added ? words.finish() : words.cancel());
            // A name is asked for once the accessory is set up.
            show(this.#mute, scene !== "end" && scene !== "renaming" && !shown.Prompt?.added);
            if (!this.#dialog.open) this.#dialog.showModal();
            // Not on a button: a key that is being typed is no answer.
            (made.focus ?? (() => this.#title.focus()))();
        }
        this.#update(shown);
        setText(this.#status, this.#words(scene, shown));
        this.#stayAwake(!!this.#picker.run);
    }

    /** The progress, for eyes and for screen readers. */
    #words(scene, run) {
        switch (scene) {
        case "offers":
        case "failed":
            if (this.#picker.isPicking) return words.pairing("");
            if (scene === "failed") return words.failedToSetUp(words.offerLabel(this.#picker.picked));
            return run.Offers.length === 0 ? words.searching() : words.found(run.Offers.length);
        case "pairing": return words.pairing(words.offerLabel(this.#picker.picked));
        case "bridging": return words.bridging();
        case "waiting": return words.waitingForApp(run.AppName);
        case "renaming": return words.naming();
        case "end": return "";
        default: return "";
        }
    }

    #make(scene, run) {
        switch (scene) {
        case "offers":
        case "failed": return this.#offers(scene, run);
        case "pairing":
        case "bridging":
        case "waiting": {
            const portrait = this.#portrait();
            return { nodes: [portrait, element("div", { class: "busy", "aria-hidden": "true" })], update: portrait.update };
        }
        case "renaming": {
            const form = naming(this.#picker);
            const portrait = this.#portrait();
            return { nodes: [portrait, form], focus: form.focusFirst, update: portrait.update };
        }
        case "end": return { nodes: [this.#end(run)], focus: () => this.#cancel.focus() };
        default: {
            const made = question(this.#picker);
            if (!made) return { nodes: [element("p", {}, words.unknownQuestion())] };
            // Accessories that are taken over have their images beside the names.
            const portrait = run.Kind === "migration" ? null : this.#portrait();
            return {
                nodes: [portrait, made].filter(each => each), focus: made.focusFirst,
                update: shown => { portrait?.update(); made.update?.(shown.Prompt); },
            };
        }
        }
    }

    #offers(scene, run) {
        // The end of the grant, where the person may choose it: for whichever offer is pressed then.
        const id = freshID();
        const end = element("select", { id });
        const choice = element("p", { class: "end-choice", hidden: true }, element("label", { for: id }, words.endOfAccess()), end);
        const readID = freshID();
        const read = element("input", { id: readID, type: "checkbox" });
        const reading = element("p", { class: "end-choice", hidden: true }, read, element("label", { for: readID }, words.onlyReading()));
        const pick = offer => this.#try(() => this.#picker.pick(offer, { end: end.value, access: read.checked ? offer.accessChoices?.[0] ?? "" : "" }));
        const list = new OfferList(pick, () => this.#picker.images);
        const empty = element("div", { class: "empty" }, element("div", { class: "radar", "aria-hidden": "true" }),
            element("p", {}, words.searchHint()), element("p", { class: "hint" }, words.searchHint2()));
        // The failed one, as it is offered now.
        const again = () => this.#picker.run?.Offers.find(each => isAlike(each, this.#picker.picked ?? {}));
        const retry = button(words.tryAgain(), () => { const offer = again(); if (offer) pick(offer); }, "primary");
        const why = scene === "failed"
            ? element("div", { class: "why", role: "alert" }, element("p", { class: "failure" }, words.reason(run.Prompt)),
                element("p", {}, words.tryAgainHint()), retry) : null;
        const besides = run.Prompt.migrations?.length
            ? element("p", { class: "hint" }, words.alsoTaken(run.Prompt.migrations)) : null;
        const missing = this.#explain(null)
            ? button(words.missing(), () => { this.setAside(true); this.#explain(run.App); }, "link") : null;
        return {
            nodes: [why, besides, list.element, choice, reading, empty, missing].filter(each => each),
            update: shown => {
                const choices = [...new Set(shown.Offers.flatMap(each => each.endChoices ?? []))];
                choice.hidden = choices.length === 0;
                reading.hidden = !shown.Offers.some(each => each.accessChoices?.length);
                if (choices.join() !== end.dataset.choices) {
                    const chosen = end.value;
                    end.replaceChildren(element("option", { value: "" }, words.endOfApp()), ...choices.map(each => element("option", { value: each }, words.end(each))));
                    end.value = choices.includes(chosen) ? chosen : "";
                    end.dataset.choices = choices.join();
                }
                list.draw(shown.Offers, scene === "failed" ? this.#picker.picked : null, this.#picker.isPicking);
                empty.hidden = shown.Offers.length > 0;
                retry.hidden = this.#picker.isPicking || !again();
            },
        };
    }

    /** The image of the picked offer, once it is there. */
    #portrait() {
        const image = element("img", { alt: "", hidden: true });
        const made = element("div", { class: "portrait", "aria-hidden": "true" }, image);
        made.update = () => {
            const { picked, images } = this.#picker;
            showImage(image, picked?.hasImage ? images?.address(picked.id) : null);
        };
        made.update();
        return made;
    }

    #end(run) {
        const name = this.#picker.picked?.name ?? "";
        if (run.Stage === "done") {
            return element("div", { class: "end good", role: "status" }, this.#portrait(), element("h3", {}, words.done(run.Kind, name)),
                element("p", {}, run.Prompt.finishInApp ? words.finishInApp(run.AppName) : words.goOnIn(run.AppName)));
        }
        return element("div", { class: "end", role: "status" }, element("h3", {}, words.notDone(run.Prompt)),
            element("p", {}, words.reason(run.Prompt)));
    }

    // MARK: Time

    /** Runs once a second while there is a deadline; otherwise no timer runs. */
    #tick() {
        clearTimeout(this.#clock);
        const left = this.#picker.timeLeft;
        // The deadline applies to the search: a person may consider offers for any time.
        const isShown = left !== null && this.#picker.run.Stage === "searching";
        this.#timer.hidden = !isShown;
        if (!isShown) return;
        setText(this.#timer, words.timeLeft(Math.max(0, Math.ceil(left / 1000))));
        if (left > 0) this.#clock = setTimeout(() => this.#tick(), left % 1000 + 20);
    }

    /** A phone that goes to sleep ends the run, so it is kept awake where the browser permits. */
    async #stayAwake(isNeeded) {
        if (isNeeded === !!this.#wakeLock || !navigator.wakeLock) return;
        this.#wakeLock?.release?.();
        this.#wakeLock = isNeeded ? true : null;
        if (!isNeeded) return;
        this.#wakeLock = await navigator.wakeLock.request("screen").catch(() => null);
        if (!this.#picker.run) { this.#wakeLock?.release(); this.#wakeLock = null; }
    }
}

/** The scene of a run's stage and prompt. */
function sceneOf({ Stage: stage, Prompt: prompt }) {
    if (prompt.kind) return prompt.kind;
    switch (stage) {
    case "searching":
    case "offering": return "offers";
    case "confirming": return "waiting";
    case "done": return "end";
    default: return stage;
    }
}
