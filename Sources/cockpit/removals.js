// SPDX-License-Identifier: Apache-2.0
// Removals that a person can still take back: each waits for ten seconds, visibly. A page that is closed meanwhile
// carries them out.

import { button, element, setAttribute, setText, show } from "./dom.js";
import { words } from "./text.js";

/** In seconds. */
const DELAY = 10;

export class Removals {
    #changed;
    /** Path → the removal that waits, or has failed. */
    #all = new Map();

    /** `changed` is called when a notice has another text. */
    constructor(changed) {
        this.#changed = changed;
        window.addEventListener("pagehide", () => { for (const path of [...this.#all.keys()]) this.#run(path); });
    }

    /** Begins to remove the object at `path`, by `run`. */
    begin(path, run) {
        clearInterval(this.#all.get(path)?.timer);
        const removal = { run, left: DELAY, error: null };
        removal.timer = setInterval(() => {
            removal.left -= 1;
            if (removal.left <= 0) this.#run(path);
            this.#changed();
        }, 1000);
        this.#all.set(path, removal);
        this.#changed();
    }

    async #run(path) {
        const removal = this.#all.get(path);
        clearInterval(removal.timer);
        if (removal.left === null) return;
        removal.left = null;
        try {
            await removal.run();
            this.#all.delete(path);
        } catch (error) {
            removal.error = error;
        }
        this.#changed();
    }

    #undo(path) {
        clearInterval(this.#all.get(path)?.timer);
        this.#all.delete(path);
        this.#changed();
    }

    /** The notice of one removal: its element, and `update()`. */
    notice(path) {
        // Read out once; the seconds are for eyes.
        const text = element("p", { role: "status" });
        const undo = button("", () => this.#undo(path), "primary");
        const made = element("div", { class: "leaving", hidden: true }, text, undo);
        const update = () => {
            const removal = this.#all.get(path);
            show(made, !!removal);
            if (!removal) return;
            undo.hidden = removal.left === null && !removal.error;
            setText(undo, removal.error ? words.close() : words.undoIn(removal.left));
            setAttribute(undo, "aria-label", removal.error ? null : words.undo());
            setText(text, removal.error ? words.error(removal.error) : removal.left === null ? words.removing() : words.removedSoon());
        };
        return { element: made, update };
    }
}
