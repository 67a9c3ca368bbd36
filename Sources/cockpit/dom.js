// SPDX-License-Identifier: Apache-2.0
// Builds the document. External data becomes text nodes and attributes, never HTML; unchanged content keeps its
// elements, and with them focus and touches.

import { guard } from "./guard.js";
import { words } from "./text.js";

/** An element: `attributes` with `on…` for listeners, then text and nodes as children; null children are left out. */
export function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
        else if (value === true) made.setAttribute(name, "");
        else if (value !== false && value != null) made.setAttribute(name, value);
    }
    made.append(...children.filter(each => each != null));
    return made;
}

/** Sets a text if it differs. */
export function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
}

/** Sets an attribute if it differs; null removes it. */
export function setAttribute(node, name, value) {
    if (value === null) node.removeAttribute(name);
    else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** Shows or hides an element, where it is not so already: a browser counts each assignment as a change. */
export function show(node, isShown) {
    if (node.hidden === isShown) node.hidden = !isShown;
}

/**
 * A list whose items keep their elements: `make(item)` for a new one, `update(element, item)` for each. The order of
 * elements follows that of items.
 */
export class KeyedList {
    #elements = new Map();

    /** @param {(element: any, item: any) => void} update */
    constructor(container, keyOf, make, update = () => {}) {
        this.container = container;
        this.keyOf = keyOf;
        this.make = make;
        this.update = update;
    }

    draw(items) {
        const { activeElement } = document;
        const keys = new Set(items.map(this.keyOf));
        for (const [key, made] of this.#elements) if (!keys.has(key)) { this.#remove(made); this.#elements.delete(key); }
        let place = this.container.firstElementChild;
        for (const item of items) {
            const key = this.keyOf(item);
            let made = this.#elements.get(key);
            if (!made) {
                made = this.make(item);
                this.#elements.set(key, made);
            }
            if (made === place) place = place.nextElementSibling;
            else this.container.insertBefore(made, place);
            this.update(made, item);
        }
        // An element that is moved loses the focus.
        if (activeElement instanceof HTMLElement && document.activeElement !== activeElement && this.container.contains(activeElement)) {
            activeElement.focus({ preventScroll: true });
        }
    }

    /** The focus of an item that is removed goes to its neighbour, rather than to the beginning of the page. */
    #remove(made) {
        const hadFocus = made.contains(document.activeElement);
        const neighbour = made.nextElementSibling ?? made.previousElementSibling;
        made.remove();
        if (hadFocus) (neighbour?.querySelector("button:not([hidden]), input:not([hidden]), a") ?? document.querySelector("main"))?.focus();
    }
}

/** A button that runs `press`, and is disabled meanwhile. */
export function button(text, press, kind = "", attributes = {}) {
    return pressing(element("button", { type: "button", class: kind, ...attributes }, text), press);
}

/** A button that consents or destroys: see guard.js. */
export function guardedButton(text, press, kind = "") {
    return pressing(guard(element("button", { type: "button", class: kind }, text)), press);
}

function pressing(made, press) {
    made.addEventListener("click", async () => {
        if (made.getAttribute("aria-disabled") === "true") return;
        made.setAttribute("aria-disabled", "true");
        try { await press(); } finally { made.removeAttribute("aria-disabled"); }
    });
    return made;
}

/** A control with its label. */
export function field(text, control) {
    return element("div", { class: "field" }, element("label", { for: control.id }, text), control);
}

/** Gives a list of choices its options: pairs of value and text. */
export function choices(select, options) {
    select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
}

/** A name of a person, an app or an accessory, in its own direction. */
export function name(text) {
    return element("bdi", {}, text);
}

/** An address, which runs from left to right in every language. */
export function ltr(text) {
    return element("bdi", { class: "ltr" }, text);
}

/** A label in a coloured box: `kind` is "", "good", "warning" or "danger". */
export function badge(text, kind = "") {
    return element("span", { class: `badge ${kind}` }, text);
}

/**
 * Pairs of a term and its description, with `update(pairs)`; pairs without a description are left out. A description that
 * stays the same keeps its text, which a person may have selected.
 */
export function facts() {
    const list = element("dl", { class: "facts" });
    const rows = new KeyedList(list, ([term]) => term, ([term, , kind]) => element("div", {}, element("dt", {}, term),
        element("dd", {}, kind === "address" ? ltr("") : name(""))),
    (row, [, value]) => setText(row.lastChild.firstChild, value));
    return { element: list, update: pairs => rows.draw(pairs.filter(([, value]) => value != null && value !== "")) };
}

/** A message in the place of an empty list. */
export function message(title, ...hints) {
    return element("div", { class: "message" }, element("h2", {}, title), ...hints.map(each =>
        typeof each === "string" ? element("p", {}, each) : each));
}

let made = 0;
/** An identifier for an element that others refer to. */
export function freshID() {
    made += 1;
    return `made-${made}`;
}

/**
 * Asks for confirmation in a dialog: `content` are its nodes, `run` performs the action. A failure appears in the dialog,
 * which stays open. One that destroys (`kind` "danger") is guarded, and opens on "cancel".
 */
export function ask({ title, content, action, kind = "primary", run }) {
    const failure = element("p", { role: "alert", class: "failure", hidden: true });
    const id = freshID();
    const doIt = async () => {
        failure.hidden = true;
        try {
            await run();
            dialog.close();
        } catch (error) {
            failure.textContent = words.error(error);
            failure.hidden = false;
        }
    };
    const isDanger = kind === "danger";
    const go = element("button", { type: "submit", class: kind }, action);
    if (isDanger) guard(go);
    const form = element("form", { class: "sheet-content" }, element("h2", { id }, title), ...content, failure,
        element("div", { class: "actions" }, go, button(words.cancel(), () => dialog.close(), "", { autofocus: isDanger })));
    form.addEventListener("submit", async event => {
        event.preventDefault();
        if (go.disabled) return;
        go.disabled = true;
        await doIt();
        go.disabled = false;
    });
    const dialog = element("dialog", { class: "sheet", "aria-labelledby": id }, form);
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
    return dialog;
}
