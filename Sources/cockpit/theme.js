// SPDX-License-Identifier: Apache-2.0
// Light or dark, as chosen in Cockpit, else as in the browser; and the look of its version.

/** The first Cockpit with PatternFly 6, which is round. */
const ROUND = 337;

const dark = window.matchMedia("(prefers-color-scheme: dark)");

function apply() {
    const choice = localStorage.getItem("shell:style") ?? "auto";
    const isDark = choice === "dark" || (choice !== "light" && dark.matches);
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
}

apply();
dark.addEventListener("change", apply);
window.addEventListener("storage", event => { if (event.key === "shell:style") apply(); });
window.addEventListener("cockpit-style", apply);

cockpit.transport.wait(() => {
    document.documentElement.dataset.look = parseInt(cockpit.info.version) < ROUND ? "square" : "round";
});
