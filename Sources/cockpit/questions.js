// SPDX-License-Identifier: Apache-2.0
// A picker's questions and messages to the person: one function for each prompt. Answers go to the daemon, which checks
// them; its refusal appears beside the field.

import { element, freshID, guardedButton, setText } from "./dom.js";
import { showImage } from "./images.js";
import { words } from "./text.js";

/** Seconds before an unrequested consent can be given: it may appear under a finger. */
const CONSENT_DELAY = 3;

/** The prompt that the picker shows, as an element with `update(prompt)`; null for one that this page does not know. */
export function question(picker) {
    const { Prompt: prompt, Kind: kind } = picker.run;
    switch (prompt.kind) {
    case "confirm-passkey": return confirm(picker, prompt);
    case "display-passkey": return display(words.enterAtAccessory(), digits(prompt.passkey ?? 0));
    case "display-pin": return display(words.enterPINAtAccessory(), prompt.pin ?? "");
    case "enter-passkey":
        return entry(picker, words.whichNumber(), { inputmode: "numeric", pattern: "[0-9]{1,6}", maxlength: "6" },
            text => ({ passkey: cockpit.variant("u", Number(text)) }));
    case "enter-pin":
        return entry(picker, words.whichPIN(), { maxlength: "16" }, text => ({ pin: cockpit.variant("s", text) }));
    case "consent": return kind === "migration" ? migration(picker) : consent(picker, prompt);
    default: return null;
    }
}

/** A new name, in stage `renaming`. */
export function naming(picker) {
    const { Offers: [offer], Kind: kind, Prompt: prompt } = picker.run;
    const made = entry(picker, words.whatName(offer?.name ?? ""), { maxlength: "256", value: offer?.name ?? "" },
        null, text => picker.rename(text), words.saveName());
    if (prompt.message) made.append(element("p", { role: "alert", class: "failure" }, prompt.message));
    if (kind === "rename" && offer?.ssid !== undefined) made.append(element("p", { class: "hint" }, words.networkToo()));
    return made;
}

function confirm(picker, prompt) {
    return element("div", { class: "question" }, element("p", {}, words.sameNumber()), code(digits(prompt.passkey ?? 0)),
        element("div", { class: "actions" }, answer(picker, words.theyMatch(), true, "primary"),
            answer(picker, words.theyDiffer(), false)));
}

function consent(picker, prompt) {
    const text = prompt.network === undefined
        ? words.mayConnect(words.offerLabel(picker.picked)) : words.mayJoin(picker.run.AppName, prompt.network);
    return element("div", { class: "question" }, element("p", {}, text),
        element("div", { class: "actions" }, answer(picker, words.allow(), true, "primary"),
            answer(picker, words.refuse(), false)));
}

/** The accessories that are taken over, by name; agreeing is possible after the time to read them. */
function migration(picker) {
    const { Offers: offers, AppName: app } = picker.run;
    const pictures = new Map(offers.filter(each => each.hasImage).map(each => [each.id, element("img", { alt: "", hidden: true })]));
    const list = element("ul", { class: "taken" }, ...offers.map(each => element("li", {},
        element("span", { class: "picture", "aria-hidden": "true" }, pictures.get(each.id) ?? element("img", { alt: "", hidden: true })),
        element("span", { class: "about" }, each.name,
            words.offerParticulars(each) ? element("span", { class: "advertised" }, words.offerParticulars(each)) : null))));
    const agree = answer(picker, words.agree(), true, "primary");
    let left = CONSENT_DELAY;
    const tick = () => {
        agree.disabled = left > 0;
        setText(agree, left > 0 ? words.agreeIn(left) : words.agree());
        left -= 1;
        if (left >= 0) setTimeout(tick, 1000);
    };
    tick();
    const made = element("div", { class: "question" }, element("p", {}, words.takesOver(app)), list,
        element("div", { class: "actions" }, agree, answer(picker, words.refuse(), false)));
    made.update = () => {
        for (const [id, image] of pictures) showImage(image, picker.images?.address(id));
    };
    return made;
}

function display(text, shown) {
    const progress = element("p", { class: "hint" }, words.accessoryGoesOn());
    const made = element("div", { class: "question" }, element("p", {}, text), code(shown), progress);
    // The number of digits that were entered on the accessory.
    made.update = ({ entered = 0 }) => {
        made.querySelectorAll(".code b").forEach((digit, index) => digit.classList.toggle("entered", index < entered));
        setText(progress, entered > 0 ? words.entered(entered) : words.accessoryGoesOn());
    };
    return made;
}

function answer(picker, text, accept, kind = "") {
    return guardedButton(text, () => picker.respond({ accept: cockpit.variant("b", accept) }), kind);
}

function digits(number) {
    return String(number ?? 0).padStart(6, "0");
}

/** A number to compare or to type, digit by digit; screen readers read digits, not an amount. */
function code(text) {
    return element("p", { class: "code" }, element("span", { class: "spoken" }, [...text].join(" ")),
        element("span", { "aria-hidden": "true" }, ...[...text].map(each => element("b", {}, each))));
}

/** A text field: `encode` makes the answer, or `send` handles the text. */
function entry(picker, text, attributes, encode, send = value => picker.respond(encode(value)), action = words.goOn()) {
    const [id, failureID] = [freshID(), freshID()];
    const field = element("input", {
        id, type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false", enterkeyhint: "done", required: true,
        "aria-describedby": failureID, ...attributes,
    });
    const failure = element("p", { id: failureID, role: "alert", class: "failure" });
    const go = element("button", { type: "submit", class: "primary" }, action);
    const form = element("form", { class: "question" }, element("label", { for: id }, text), field, failure,
        element("div", { class: "actions" }, go));
    form.addEventListener("submit", async event => {
        event.preventDefault();
        if (go.disabled) return;
        go.disabled = true;
        setText(failure, "");
        try { await send(field.value); } catch (error) { setText(failure, words.error(error)); }
        go.disabled = false;
    });
    form.focusFirst = () => { field.focus(); field.select(); };
    return form;
}
