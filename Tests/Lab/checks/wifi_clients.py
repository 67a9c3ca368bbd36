# SPDX-License-Identifier: Apache-2.0
"""Who speaks to the daemon in the checks of Wi-Fi: an app and a picker, as programs written against the session API would, both in the
check's own process and each on a connection of its own."""

import dbus

from lab import DAEMON_NAME, STANDSTILL, CheckFailed, SystemBus, expect

ROOT = "/org/accessorysetup1"
# A join may take 18 s, and going home some more.
JOIN_SECONDS = 30


def sv(values):
    def typed(value):
        if isinstance(value, dict):
            return sv(value)
        return dbus.ByteArray(value) if isinstance(value, bytes) else value

    return dbus.Dictionary({key: typed(value) for key, value in values.items()}, signature="sv")


def network(**descriptor):
    """An item with Wi-Fi; names of networks are bytes."""
    return {"name": "Dice", "descriptor": descriptor}


class Client:
    def __init__(self, lab):
        self.lab = lab
        self.bus = SystemBus()
        self.bus.set_exit_on_disconnect(False)

    def interface(self, path, name):
        return dbus.Interface(self.bus.get_object(DAEMON_NAME, path, introspect=False), f"{DAEMON_NAME}.{name}")

    def get(self, path, interface, name):
        return self.interface(path, interface).Get(f"{DAEMON_NAME}.{interface}", name, dbus_interface=dbus.PROPERTIES_IFACE)

    def close(self):
        self.bus.close()


class App(Client):
    """One session, whose events are kept as (type, details)."""

    def __init__(self, lab):
        super().__init__(lab)
        self.events = []
        self.bus.add_signal_receiver(
            lambda kind, details: self.events.append((str(kind), details)), "Event", f"{DAEMON_NAME}.Session", DAEMON_NAME)
        self.session = self.interface(self.interface(ROOT, "Manager").CreateSession(sv({})), "Session")
        self.session.Activate()

    def show(self, *items, **settings):
        settings.setdefault("discoveryTimeout", STANDSTILL * 90.0)
        self.session.ShowPicker(dbus.Array([sv(each) for each in items], "a{sv}"), sv(settings), signature="aa{sv}a{sv}")

    def wait_event(self, kind, seconds=30, count=1):
        """The details of the `count`th event of a type."""
        def look():
            found = [details for each, details in self.events if each == kind]
            return [found[count - 1]] if len(found) >= count else None

        return self.lab.wait_until(look, seconds, lambda: f"{kind}; came {[each for each, _ in self.events]}")[0]

    def count(self, kind):
        return sum(each == kind for each, _ in self.events)

    def wait_dismissed(self, error, seconds=30, count=1):
        details = self.wait_event("pickerDidDismiss", seconds, count)
        expect(details.get("error") == f"{DAEMON_NAME}.Error.{error}", f"the picker was dismissed with {details.get('error')}")

    def join(self, accessory, **options):
        self.interface(accessory, "Accessory").JoinNetwork(sv(options), signature="a{sv}", timeout=JOIN_SECONDS)

    def begin_join(self, accessory, **options):
        """Returns a function that waits for the answer, and fails as the call does."""
        answers = []
        self.interface(accessory, "Accessory").JoinNetwork(
            sv(options), signature="a{sv}", timeout=JOIN_SECONDS, reply_handler=lambda: answers.append(None), error_handler=answers.append)

        def wait():
            self.lab.wait_until(lambda: answers, JOIN_SECONDS, "JoinNetwork to answer")
            if answers[0] is not None:
                raise answers[0]

        return wait

    def leave(self, accessory):
        self.interface(accessory, "Accessory").LeaveNetwork(timeout=JOIN_SECONDS)

    def network_interface(self, accessory):
        return str(self.get(accessory, "Network", "Interface"))

    def expect_join_fails(self, accessory, says, **options):
        try:
            self.join(accessory, **options)
        except dbus.DBusException as error:
            expect(error.get_dbus_name() == f"{DAEMON_NAME}.Error.ConnectionFailed", f"JoinNetwork failed with {error}")
            expect(says in error.get_dbus_message(), f"JoinNetwork says “{error.get_dbus_message()}”, nothing of “{says}”")
            return error.get_dbus_message()
        raise CheckFailed("JoinNetwork does not fail")


class Picker(Client):
    """Follows the picker object that it is shown."""

    PICKER = f"{DAEMON_NAME}.Picker"

    def __init__(self, lab):
        super().__init__(lab)
        self.path, self.state = None, {}
        self.bus.add_signal_receiver(self._added, "InterfacesAdded", bus_name=DAEMON_NAME)
        self.bus.add_signal_receiver(self._removed, "InterfacesRemoved", bus_name=DAEMON_NAME)
        self.bus.add_signal_receiver(self._changed, "PropertiesChanged", bus_name=DAEMON_NAME, path_keyword="path")
        self.interface(ROOT, "Manager").RegisterPicker(sv({}))

    def _added(self, path, interfaces):
        if self.PICKER in interfaces:
            self.path, self.state = str(path), dict(interfaces[self.PICKER])

    def _removed(self, path, _interfaces):
        if path == self.path:
            self.path = None

    def _changed(self, interface, values, _invalidated, path):
        if path == self.path and interface == self.PICKER:
            self.state |= values

    @property
    def offers(self):
        """Name → offer."""
        found = {}
        for offer in self.state.get("Offers", []):
            name = str(offer["advertisedName"])
            expect(name not in found, f"{name} is offered twice")
            found[name] = offer
        return found

    def wait_stage(self, stage, seconds=20):
        self.lab.wait_until(
            lambda: self.path and self.state.get("Stage") == stage, seconds,
            lambda: f"the picker's stage {stage}; it is {self.path and self.state.get('Stage')}")

    def wait_offer(self, name, seconds=40):
        self.lab.wait_until(lambda: name in self.offers, seconds, lambda: f"{name} to be offered; offered are {sorted(self.offers)}")
        return self.offers[name]

    def wait_gone(self, seconds=20):
        self.lab.wait_until(lambda: self.path is None, seconds, "the picker to go")

    def pick(self, name):
        self.interface(self.path, "Picker").Pick(str(self.wait_offer(name)["id"]), signature="s")

    def cancel(self):
        self.interface(self.path, "Picker").Cancel()
        self.wait_gone()


def add(app, picker, name, *items):
    """The way to a grant; returns the accessory's path."""
    before = app.count("accessoryAdded"), app.count("pickerDidDismiss")
    app.show(*(items or [network(ssidPrefix=b"Dice-")]))
    picker.wait_stage("offering", 60)
    picker.pick(name)
    path = str(app.wait_event("accessoryAdded", count=before[0] + 1)["accessory"])
    app.wait_event("pickerDidDismiss", count=before[1] + 1)
    picker.wait_gone()
    return path
