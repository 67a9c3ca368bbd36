# SPDX-License-Identifier: Apache-2.0
"""Signals and ObjectManager agree: a client that reads everything once and then only listens has the same state as
one that asks again. Played through a whole life of accessories, for the admin and for an app."""

from harness.mirror import Mirror
from harness.names import ACCESSORY, BLUE, GRANT, MANAGER, PROPERTIES, ROOT, SOMEBODY_ELSE
from harness.values import item
from harness.waiting import wait
from harness.world import APITest


class Signals(APITest):
    apps = ("dice", "board")

    def setUp(self):
        super().setUp()
        self.person = self.picker()
        self.dice, self.board = self.app("dice"), self.app("board", SOMEBODY_ELSE)
        self.mirrors = [Mirror(each) for each in (self.world.admin, self.dice, self.board)]

    def compare(self, what):
        for mirror, who in zip(self.mirrors, ("admin", "dice", "board")):
            with self.subTest(what, who=who):
                self.assertEqual(mirror.differences(), [])

    def disconnect(self):
        """The accessory advertises again, for the next app."""
        self.world.admin.call("/org/bluez/hci0/dev_C0_FF_EE_00_00_01", "org.bluez.Device1", "Disconnect", to="org.bluez")

    def test_a_whole_life(self):
        self.compare("nothing has happened")
        self.dice.show_picker(item(), discoveryTimeout=3600.0)
        self.person.wait_offer("Dice 4F")
        self.compare("a picker offers")
        self.person.pick("Dice 4F")
        self.dice.wait_event("pickerDidDismiss")
        self.compare("an accessory was added")
        [accessory] = self.dice.accessories
        [grant] = self.world.grants()
        self.disconnect()
        self.add(self.board, self.person, "Dice 4F")
        self.compare("it was shared")
        self.world.admin.call(grant, PROPERTIES, "Set", "ssv", GRANT, "Enabled", False)
        self.compare("a grant was switched off")
        self.world.admin.call(grant, PROPERTIES, "Set", "ssv", GRANT, "Enabled", True)
        self.compare("a grant was switched on")
        self.simulator.do("serviceStopped")
        self.world.wait_bluetooth("absent")
        self.compare("the radio went")
        self.simulator.do("serviceStarted")
        self.world.wait_bluetooth("ready")
        self.compare("the radio came back")
        self.board.remove(accessory)
        self.board.wait_event("accessoryRemoved")
        self.compare("one app removed it")
        self.world.admin.call(accessory, ACCESSORY, "Remove")
        self.dice.wait_event("accessoryRemoved")
        self.compare("the admin removed it")
        self.dice.show_picker(item())
        self.dice.request("Invalidate")
        self.compare("a session was invalidated")
        self.board.close()
        self.mirrors.pop()
        wait(lambda: self.world.admin.paths("session") == [], 5, "the session to go", also_every=0.1)
        self.compare("an app went away")

    def test_the_manager(self):
        # Each receives signals for all that it sees, and sees all that was signalled.
        clients = (self.dice, self.world.admin)
        known = [dict(each.get_all(ROOT, MANAGER)) for each in clients]
        for client in clients:
            client.signals.clear()
        for change in (self.person.unregister, self.person.register, lambda: self.simulator.do("adapterPowerOff", "hci0")):
            change()
            wait(lambda: dict(self.dice.get_all(ROOT, MANAGER)) != known[0], 5, "a change", also_every=0.05)
            for client, values in zip(clients, known):
                client.settle()
                for signal in client.signals:
                    if signal.path == ROOT and signal.member == "PropertiesChanged":
                        values.update(signal.arguments[1])
                client.signals.clear()
                self.assertEqual(values, dict(client.get_all(ROOT, MANAGER)))

    def test_nothing_is_told_when_nothing_changed(self):
        accessory = self.add(self.dice, self.person, "Dice 4F")
        self.dice.settle()
        self.dice.signals.clear()
        self.board.show_picker(item("Blue Dice", BLUE))
        self.person.wait_offer("Dice A2")
        self.person.cancel()
        self.person.wait_gone()
        self.dice.settle()
        self.assertEqual([(each.member, each.arguments) for each in self.dice.signals if each.path == accessory], [])
