# SPDX-License-Identifier: Apache-2.0
"""The messages of Tests/ESPHomeAPITests/messages.json, which the door writes and reads, in the words of aioesphomeapi: numbers, names and
types of fields, and the same bytes."""

import json
import sys
import unittest

from clients import HERE, PACKAGES

MESSAGES = HERE.parent / "ESPHomeAPITests" / "messages.json"


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Not before: other classes are listed in the same process, and may want other versions.
        sys.path.insert(0, str(PACKAGES / "bleak-esphome"))
        cls.messages = json.loads(MESSAGES.read_text())

    def rows(self):
        yield from ((side, row) for side in ("server", "client") for row in self.messages[side])

    def test_fields_have_their_bytes(self):
        from aioesphomeapi.core import MESSAGE_TYPE_TO_PROTO
        from google.protobuf.json_format import MessageToDict, ParseDict

        for side, row in self.rows():
            with self.subTest(side=side, case=row["case"]):
                kind = MESSAGE_TYPE_TO_PROTO[row["type"]]
                self.assertEqual(kind.DESCRIPTOR.name, row["message"])
                read = kind.FromString(bytes.fromhex(row["bytes"]))
                self.assertEqual(MessageToDict(read, preserving_proto_field_name=True), row["fields"])
                # Nothing was skipped as unknown.
                written = ParseDict(row["fields"], kind()).SerializeToString(deterministic=True)
                self.assertEqual(written.hex(), row["bytes"])

    def test_each_side_says_its_own(self):
        """The description marks by whom a message is sent: 0 by both, 1 by the server, 2 by the client."""
        from aioesphomeapi import api_options_pb2
        from aioesphomeapi.core import MESSAGE_TYPE_TO_PROTO

        for side, row in self.rows():
            options = MESSAGE_TYPE_TO_PROTO[row["type"]].DESCRIPTOR.GetOptions()
            with self.subTest(side=side, case=row["case"]):
                self.assertEqual(options.Extensions[api_options_pb2.id], row["type"])
                self.assertIn(options.Extensions[api_options_pb2.source], (0, 1 if side == "server" else 2))

    def test_the_features_are_those_that_work(self):
        from aioesphomeapi.model import BluetoothProxyFeature as Feature

        info = next(row for row in self.messages["server"] if row["case"] == "deviceInfo")
        self.assertEqual(
            Feature(info["fields"]["bluetooth_proxy_feature_flags"]),
            Feature.PASSIVE_SCAN | Feature.ACTIVE_CONNECTIONS | Feature.REMOTE_CACHING | Feature.RAW_ADVERTISEMENTS
            | Feature.FEATURE_STATE_AND_MODE)
