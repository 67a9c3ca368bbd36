// SPDX-License-Identifier: Apache-2.0
// The browser's notifications: an app asks while the page is out of view. A person turns them on once, by a button.

import { visibility } from "./visibility.js";

/** Whether the browser would ask the person; it does not on a connection without TLS, or once it was answered. */
export const mayAsk = () => window.isSecureContext && window.Notification?.permission === "default";

export const askPermission = () => Notification.requestPermission();

/** Notifies a person who does not see the page; null where that is not possible. A press brings the page to the front. */
export function notify(text) {
    if (visibility.isVisible || window.Notification?.permission !== "granted") return null;
    const made = new Notification(text, { tag: "accessories" });
    made.addEventListener("click", () => {
        window.top.focus();
        cockpit.jump("/accessories");
        made.close();
    });
    return made;
}
