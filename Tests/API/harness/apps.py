# SPDX-License-Identifier: Apache-2.0
"""An app: its session, its requests, and the events that it received."""

import dbus

from harness.clients import Client, Identity
from harness.names import MANAGER, ROOT, SESSION, SOMEBODY
from harness.values import sv
from harness.waiting import wait


class App(Client):
    """An app: an executable and a manifest that names it, and one session."""

    def __init__(self, world, app="dice", uid=SOMEBODY, socket=None):
        super().__init__(world, Identity(app, uid), socket)
        self.session = None

    def create_session(self):
        return str(self.call(ROOT, MANAGER, "CreateSession", "a{sv}", sv({})))

    def begin(self):
        """Creates a session and activates it."""
        self.session = self.create_session()
        self.request("Activate")
        self.wait_event("activated")
        return self

    def request(self, member, signature="", *arguments):
        return self.call(self.session, SESSION, member, signature, *arguments)

    def show_picker(self, *items, **settings):
        return str(self.request("ShowPicker", "aa{sv}a{sv}", dbus.Array([sv(each) for each in items], "a{sv}"), sv(settings)))

    def remove(self, accessory):
        self.request("RemoveAccessory", "o", dbus.ObjectPath(accessory))

    @property
    def events(self):
        return [(str(each.arguments[0]), each.arguments[1]) for each in self.signals
                if each.member == "Event" and each.interface == SESSION and each.path == self.session]

    @property
    def event_types(self):
        """The events so far; more may be on their way: to compare with the required events, use `told`."""
        return [kind for kind, _ in self.events]

    def told(self):
        """The types of all events that the daemon has sent up to now."""
        self.settle()
        return self.event_types

    def wait_event(self, kind, seconds=10, count=1):
        """The details of the `count`th event of a type."""
        def look():
            found = [details for each, details in self.events if each == kind]
            return found[count - 1] if len(found) >= count else None

        # An empty dictionary is an answer too.
        return wait(lambda: (found := look()) is not None and [found], seconds, lambda: f"{kind}; came {self.event_types}")[0]

    @property
    def state(self):
        return str(self.get(self.session, SESSION, "State"))

    @property
    def accessories(self):
        return [str(each) for each in self.get(self.session, SESSION, "Accessories")]
