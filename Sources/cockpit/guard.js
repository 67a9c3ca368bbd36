// SPDX-License-Identifier: Apache-2.0
// Buttons that consent or destroy ignore presses that were aimed at something else in their place: the second press of
// a double tap, and the repetition of a held key.

import { visibility } from "./visibility.js";

/** How long a guarded button takes no press after it has come into view, in milliseconds. */
const DELAY = 1000;

/** The guards of buttons in view, which begin anew when the page comes back into view. A button that is removed is not. */
const guards = new Set();

visibility.addEventListener("changed", () => { for (const each of guards) each.begin(); });

// A held key repeats itself: no button, and no form, goes by that.
document.addEventListener("keydown", event => {
    const isText = event.target instanceof HTMLInputElement && event.target.type !== "checkbox";
    if (event.repeat && (event.key === "Enter" || event.key === " " && !isText)) event.preventDefault();
}, { capture: true });

class Guard {
    #timer = null;
    #isOver = false;

    constructor(button) {
        this.button = button;
        this.#close();
        new IntersectionObserver(entries => {
            if (entries.at(-1).isIntersecting) {
                guards.add(this);
                this.begin();
            } else {
                guards.delete(this);
                this.#close();
            }
        }).observe(button);
        button.addEventListener("click", event => {
            if (this.#isOver && event.detail < 2) return;
            event.preventDefault();
            event.stopImmediatePropagation();
        }, { capture: true });
    }

    /** The button has come into view. */
    begin() {
        this.#close();
        this.#timer = setTimeout(() => this.#open(), DELAY);
    }

    #close() {
        clearTimeout(this.#timer);
        this.#isOver = false;
        this.button.dataset.guarded = "";
        this.button.setAttribute("aria-disabled", "true");
    }

    #open() {
        this.#isOver = true;
        delete this.button.dataset.guarded;
        this.button.removeAttribute("aria-disabled");
    }
}

/** Guards a button, before its own listeners are added; the button. */
export function guard(button) {
    new Guard(button);
    return button;
}
