// SPDX-License-Identifier: Apache-2.0
// The rules and claim lists in force, errors in their files by file and line, and the lock-down of BlueZ.

import { ADMIN } from "./bus.js";
import { badge, element, setText } from "./dom.js";
import { moment, words } from "./text.js";

export class Policy {
    #objects;
    #title = element("h2", {});
    #problems = element("ul", { class: "problems" });
    #hint = element("p", { class: "hint" });
    #directory = element("code", {}, "/etc/accessory-setup/policy.d");
    #rules = element("ul", { class: "plain" });
    #claims = element("section", { hidden: true });
    #lockdown = element("h2", {});
    #lockdownHint = element("p", { class: "hint" });
    #command = element("code", {}, "accessoryctl lockdown");
    element;

    constructor(objects) {
        this.#objects = objects;
        this.element = element("section", { "aria-label": words.policy() }, this.#title, this.#problems, this.#hint, this.#directory,
            this.#rules, this.#claims, this.#lockdown, this.#lockdownHint, this.#command);
    }

    /** The lock-down is not signalled: the visible section reads it. */
    shown() { this.#objects.readAgain(ADMIN, "Admin"); }

    draw() {
        const { Policy: rules = [], PolicyProblems: problems = [], ClaimLists: lists = [], ClaimProblems: mistakes = [],
            Lockdown: lockdown = "unknown" } = this.#objects.admin;
        this.#title.replaceChildren(words.policy(), " ",
            problems.length > 0 ? badge(words.policyBad(), "danger") : badge(words.policyGood(), "good"));
        this.#problems.replaceChildren(...problems.map(mistake));
        this.#problems.hidden = problems.length === 0;
        setText(this.#hint, problems.length > 0 ? words.policyBadHint() : rules.length === 0 ? words.noRules() : "");
        this.#directory.hidden = problems.length > 0 || rules.length > 0;
        this.#rules.replaceChildren(...rules.map(each => element("li", {},
            badge(words.ruleKind(each.kind), each.kind.startsWith("deny") ? "danger" : "good"), " ", each.name ? element("strong", {}, each.name) : null, " ",
            words.rule({ ...each, apps: each.apps.map(id => this.#objects.appName(id)) }),
            element("span", { class: "note" }, [each.minimumRssi === undefined ? "" : words.fromStrength(each.minimumRssi), each.source].filter(part => part).join(" · ")))));
        this.#claims.hidden = lists.length + mistakes.length === 0;
        this.#claims.replaceChildren(element("h2", {}, words.claims()), element("ul", { class: "problems", hidden: mistakes.length === 0 }, ...mistakes.map(mistake)),
            element("ul", { class: "plain" }, ...lists.map(each => element("li", {}, element("strong", {}, each.id), " ",
                words.claimList(each.used, Math.min(each.count, each.entries), this.#objects.appName(each.app)),
                element("span", { class: "note" }, [words.window(moment(each.from), moment(each.until)), each.source].join(" · "))))),
            element("code", {}, "accessoryctl claims"));
        this.#lockdown.replaceChildren(words.lockdown(), " ",
            badge(words.lockdownState(lockdown), { on: "good", broken: "danger" }[lockdown] ?? "warning"));
        setText(this.#lockdownHint, words.lockdownHint(lockdown));
        setText(this.#command, lockdown === "off" || lockdown === "broken" ? "sudo accessoryctl lockdown on" : "sudo accessoryctl lockdown status");
        this.#command.hidden = lockdown === "on";
    }
}

function mistake(each) {
    return element("li", {}, element("strong", {}, each.line > 0 ? `${each.file}, ${words.line(each.line)}` : each.file),
        each.key ? ` ${each.key}: ` : " ", each.reason);
}
