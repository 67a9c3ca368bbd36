# SPDX-License-Identifier: Apache-2.0
"""A fleet of gateways: inventory, documents, commands, trails and pickers, over a real broker with certificates."""

from harness.fleet import Fleet
from harness.values import item
from harness.waiting import wait
from harness.world import APITest


class FleetTest(APITest):
    gateways = ("gw-1", "gw-2")

    def setUp(self):
        super().setUp()
        self.fleet = Fleet(*self.gateways)
        self.addCleanup(self.fleet.close)

    def gateway(self, name="gw-1", **more):
        """An agent on the world's daemon, connected."""
        agent = self.fleet.agent(self.world, name, **more)
        agent.wait_connected()
        return agent

    def topic(self, end, gateway="gw-1"):
        return self.fleet.topic(gateway, end)

    def set_up(self, name="Dice 4F"):
        app, picker = self.app(), self.picker()
        path = self.add(app, picker, name)
        picker.unregister()
        return app, path


class Inventory(FleetTest):
    def test_the_operator_sees_accessories_and_grants_as_they_change(self):
        self.gateway()
        watch = self.fleet.listen("operators", self.topic("reported/#"), self.topic("status"))
        self.set_up()
        watch.wait(lambda: any("/reported/grant/" in topic for topic in watch.retained()), what="the grant")
        grants = self.fleet.json("grants")
        self.assertEqual([(each["gateway"], each["App"], each["State"]) for each in grants], [("gw-1", "com.example.dice", "authorized")])
        accessories = self.fleet.json("accessories")
        self.assertEqual([each["DisplayName"] for each in accessories], ["Pink Dice"])
        gateways = {each["gateway"]: each for each in self.fleet.json("list")}
        self.assertEqual(gateways["gw-1"]["status"]["state"], "online")
        self.assertIsNone(gateways["gw-2"]["status"])
