# SPDX-License-Identifier: Apache-2.0
"""The page's objects, over a bus that the test plays: Cockpit may hand over a signal before an answer that was sent earlier, and
an answer of a daemon that has gone."""

from web import WebTest

# The page's own module, and a bus whose answers come when the test says so; the rest is the page's reaction.
PLAYED = """
    const { Objects } = await import(new URL("objects.js", location.href));
    const ADMIN = "/org/accessorysetup1/admin";
    class Bus extends EventTarget {
        lockdown = "off";
        waiting = null;
        follow(handlers) { this.tell = handlers; }
        async objects() { return []; }
        properties(path) {
            const values = path === ADMIN ? { Lockdown: this.lockdown } : {};
            return this.waiting ? new Promise(answer => this.waiting.push(() => answer(values))) : Promise.resolve(values);
        }
        owner(is) { this.dispatchEvent(new CustomEvent("owner", { detail: is })); }
    }
    const bus = new Bus(), objects = new Objects(bus);
    await objects.load();
"""

# The same for the trail: `shown` says which of two lines the page has.
TRAIL = """
    const { Activity } = await import(new URL("activity.js", location.href));
    const bus = {
        on(path, member, body) { this.tell = body; },
        call() { return new Promise(answer => { this.answer = answer; }); },
    };
    const objects = Object.assign(new EventTarget(), {
        isAdmin: true, state: "ready", manager: {}, admin: {}, all: () => [], get: () => null, appName: id => id,
    });
    const line = (id, why) => ({ id, time: 1, event: "granted", app: "com.example.dice", accessory: "", who: "root", why });
    const activity = new Activity(bus, objects);
    document.querySelector("main").replaceChildren(activity.element);
    const shown = () => ["first", "second"].filter(each => activity.element.querySelector(".trail").textContent.includes(each));
    activity.draw();
"""


class Known(WebTest):
    def played(self, body, script=PLAYED):
        return self.open("policy").driver.execute_async_script(
            f"const done = arguments[0]; (async () => {{ {script} {body} }})().catch(error => done(`${{error.stack}}`));")

    def test_a_line_that_is_told_before_the_trail_is_answered_stays(self):
        self.assertEqual(self.played("""
            bus.tell([line(2, "second")]);
            bus.answer([[line(1, "first")]]);
            await new Promise(next => setTimeout(next));
            done(shown());
        """, TRAIL), ["first", "second"])

    def test_a_line_that_is_told_and_answered_is_there_once(self):
        self.assertEqual(self.played("""
            bus.tell([line(2, "second")]);
            bus.answer([[line(1, "first"), line(2, "second")]]);
            await new Promise(next => setTimeout(next));
            done([shown(), activity.element.querySelector(".trail").children.length]);
        """, TRAIL), [["first", "second"], 2])

    def test_an_answer_is_no_newer_than_what_was_told_meanwhile(self):
        self.assertEqual(self.played("""
            bus.waiting = [];
            const reading = objects.readAgain(ADMIN, "Admin");
            bus.tell.changed(ADMIN, "Admin", { Lockdown: "on" }, []);
            bus.waiting[0]();
            await reading;
            done(objects.admin.Lockdown);
        """), "on")

    def test_what_nobody_tells_is_in_the_answer(self):
        self.assertEqual(self.played("""
            bus.lockdown = "broken";
            await objects.readAgain(ADMIN, "Admin");
            done(objects.admin.Lockdown);
        """), "broken")

    def test_an_answer_of_a_daemon_that_has_gone_is_none(self):
        self.assertEqual(self.played("""
            bus.waiting = [];
            const reading = objects.readAgain(ADMIN, "Admin");
            const late = bus.waiting[0];
            bus.waiting = null;
            bus.lockdown = "on";
            bus.owner(false);
            const ready = new Promise(next => objects.addEventListener("changed", next, { once: true }));
            bus.owner(true);
            await ready;
            late();
            await reading;
            done(objects.admin.Lockdown);
        """), "on")
