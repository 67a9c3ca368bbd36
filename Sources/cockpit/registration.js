// SPDX-License-Identifier: Apache-2.0
// The page's registration as a picker program. It is under way while the browser still loads the other modules: on a
// slow line an app does not wait for the whole page.

import { Bus, ROOT } from "./bus.js";
import { visibility } from "./visibility.js";

/** Seconds after which the daemon drops a silent page. Browsers let a background page run once a minute. */
const LEASE = 90;

/** The page's connection to the daemon. */
export const bus = new Bus();

/** Registers, or renews the registration, with a name for people. A page out of view stands by: others come first. */
export function register(label) {
    return bus.call(ROOT, "Manager.RegisterPicker", {
        label: cockpit.variant("s", label), lease: cockpit.variant("u", LEASE), standby: cockpit.variant("b", !visibility.isVisible),
    });
}

/** The browser's name for people, if known. */
export function browser() {
    const agent = navigator.userAgent;
    const first = names => Object.entries(names).find(([, pattern]) => pattern.test(agent))?.[0];
    const name = first({
        Firefox: /Firefox\//, Edge: /Edg\//, "Samsung Internet": /SamsungBrowser\//, Chrome: /Chrom(e|ium)\//, Safari: /Safari\//,
    }) ?? "?";
    const system = first({ Android: /Android/, iPhone: /iPhone/, iPad: /iPad/, Windows: /Windows/, macOS: /Mac OS/, Linux: /Linux/ });
    return system ? `${name}, ${system}` : name;
}

/** The first registration. Its user's name follows with the next. */
export const first = register(browser());
first.catch(() => {});
