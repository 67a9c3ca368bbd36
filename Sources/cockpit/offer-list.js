// SPDX-License-Identifier: Apache-2.0
// The offers, as cards. While the pointer is over the list, cards keep their places: new ones are added at the end, and
// a withdrawn one leaves an inactive placeholder until the pointer has left.

import { KeyedList, element, setAttribute, setText } from "./dom.js";
import { showImage } from "./images.js";
import { bars, words } from "./text.js";

/** The time after a touch in which the list keeps its order, in milliseconds. */
const REST = 1500;
/** The time in which a new card ignores presses, which were meant for another, in milliseconds. */
export const GUARD = 1000;

export class OfferList {
    #pick;
    #images;
    #cards;
    /** The offers, and the one that failed. */
    #offers = [];
    #failed = null;
    /** Whether one has been picked, so that no other can be picked. */
    #isLocked = false;
    /** The shown list: the offers, and placeholders of withdrawn ones. */
    #last = [];
    #touched = -Infinity;
    #isPointed = false;
    #timer = null;
    element = element("ul", { class: "offers" });

    /** `pick(offer)` is called for a press, `images()` gives the run's images. */
    constructor(pick, images) {
        this.#pick = pick;
        this.#images = images;
        this.#cards = new KeyedList(this.element, each => each.id, each => this.#make(each), (card, each) => this.#update(card, each));
        const touch = () => { this.#touched = performance.now(); };
        for (const event of ["pointerdown", "touchmove", "wheel", "keydown"]) this.element.addEventListener(event, touch, { passive: true });
        this.element.addEventListener("pointerover", event => { this.#isPointed = event.pointerType === "mouse"; });
        this.element.addEventListener("pointerleave", () => { this.#isPointed = false; this.#settle(); });
        this.element.addEventListener("focusout", () => this.#settle());
    }

    /** Shows these offers; `failed` is the one whose last attempt failed, `isLocked` lets none be picked. */
    draw(offers, failed = null, isLocked = false) {
        const known = new Map(offers.map(each => [each.id, each]));
        if (this.#isAtRest) {
            this.#last = offers;
        } else {
            const shown = new Set(this.#last.map(each => each.id));
            // An offer that returns, as after a failed pairing, has another identifier and keeps its place.
            const back = each => offers.find(offer => !shown.has(offer.id) && isAlike(offer, each));
            const kept = this.#last.map(each => {
                const offer = known.get(each.id) ?? back(each);
                if (offer) shown.add(offer.id);
                return offer ?? { ...each, isGone: true };
            });
            const ids = new Set(kept.map(each => each.id));
            this.#last = [...kept, ...offers.filter(each => !ids.has(each.id))];
            if (kept.some(each => each.isGone)) this.#settle();
        }
        this.#failed = failed;
        this.#isLocked = isLocked;
        this.#offers = offers;
        this.#cards.draw(this.#last);
    }

    get #isAtRest() {
        const isFocused = this.element.contains(document.activeElement) && document.activeElement.matches(":focus-visible");
        return !this.#isPointed && !isFocused && performance.now() - this.#touched > REST;
    }

    /** Removes the placeholders of withdrawn offers once the pointer has left. */
    #settle() {
        clearTimeout(this.#timer);
        this.#timer = setTimeout(() => { if (this.element.isConnected) this.#drawAgain(); }, REST + 50);
    }

    #drawAgain() { this.draw(this.#offers, this.#failed, this.#isLocked); }

    #make(offer) {
        const card = element("button", { type: "button", class: "offer" },
            element("span", { class: "picture", "aria-hidden": "true" }, element("img", { alt: "", hidden: true, draggable: "false" })),
            element("span", { class: "about" },
                element("span", { class: "name" }), element("span", { class: "advertised" }), element("span", { class: "address-end ltr" }), element("span", { class: "alike" }),
                element("span", { class: "network" }), element("span", { class: "access" }), element("span", { class: "until" }), element("span", { class: "note" })),
            element("span", { class: "strength", role: "img" }, ...[1, 2, 3, 4].map(() => element("i", {}))));
        const image = card.querySelector("img");
        image.addEventListener("error", () => { image.hidden = true; });
        card.addEventListener("click", () => {
            if (card.getAttribute("aria-disabled") === "true") return;
            this.#pick(this.#last.find(each => each.id === offer.id));
        });
        card.isNew = true;
        setTimeout(() => { card.isNew = false; this.#drawAgain(); }, GUARD);
        return element("li", {}, card);
    }

    #update(item, offer) {
        const card = item.firstElementChild;
        const set = (name, text) => {
            const part = card.querySelector(name);
            setText(part, text);
            part.hidden = !text;
        };
        set(".name", offer.name);
        set(".advertised", offer.advertisedName === offer.name ? "" : offer.advertisedName);
        set(".address-end", offer.addressEnd ?? "");
        set(".alike", offer.resembles ? words.resembles(offer.resembles) : "");
        const { maxDevices, devicesInRange = 0, namesInRange } = offer;
        set(".network", maxDevices !== undefined ? words.kindOffer(maxDevices, devicesInRange, namesInRange)
            : [offer.ssid === undefined ? "" : words.network(offer), offer.endpoint].filter(Boolean).join(" · "));
        set(".until", (offer.ends ?? []).map(words.end).join(" · "));
        const { access, characteristics } = offer;
        const uses = { full: words.fullOffer, read: words.readOffer, listed: () => words.listOffer(characteristics ?? []) };
        set(".access", uses[access]?.() ?? "");
        set(".note", offer.isGone ? words.gone() : this.#failed && isAlike(offer, this.#failed) ? words.tryAgain()
            : [offer.shared ? words.shared() : offer.paired ? words.alreadyPaired() : words.added(),
                offer.elsewhere?.length && words.alsoAt(offer.elsewhere)].filter(Boolean).join(" · "));
        card.classList.toggle("gone", !!offer.isGone);
        setAttribute(card, "aria-disabled", offer.isGone || card.isNew || this.#isLocked ? "true" : null);
        const strength = bars(offer.rssi ?? offer.networkRssi);
        const shown = card.querySelector(".strength");
        shown.hidden = maxDevices !== undefined;
        setAttribute(shown, "data-bars", String(strength));
        setAttribute(shown, "aria-label", words.strength(strength));
        const address = offer.hasImage ? this.#images()?.address(offer.id) : null;
        showImage(card.querySelector("img"), address);
    }
}

/** Whether two offers look like the same accessory to a person. */
export function isAlike(a, b) {
    return a.id === b.id || (a.name === b.name && a.advertisedName === b.advertisedName && a.addressEnd === b.addressEnd && a.ssid === b.ssid && a.endpoint === b.endpoint);
}
