// SPDX-License-Identifier: Apache-2.0
// Whether a person can see the page: the browser's tab is in front, and in Cockpit's shell no other page is.

/** Dispatches "changed". `isVisible`: the page is in view. */
class Visibility extends EventTarget {
    constructor() {
        super();
        let was = this.isVisible;
        cockpit.addEventListener("visibilitychange", () => {
            if (was === this.isVisible) return;
            was = this.isVisible;
            this.dispatchEvent(new Event("changed"));
        });
    }

    get isVisible() { return !cockpit.hidden; }
}

export const visibility = new Visibility();
