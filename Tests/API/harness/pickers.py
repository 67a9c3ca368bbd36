# SPDX-License-Identifier: Apache-2.0
"""A picker program: its offers and prompts, and the person's answers."""

from harness.clients import Client
from harness.names import MANAGER, PICKER, ROOT
from harness.values import sv
from harness.waiting import wait


class PickerProgram(Client):
    """A picker program: follows the picker objects that it is shown."""

    def __init__(self, world, identity=None):
        self.path = None
        self.state = {}
        self.stages = []
        super().__init__(world, identity)

    def register(self):
        self.call(ROOT, MANAGER, "RegisterPicker", "a{sv}", sv({}))
        return self

    def unregister(self):
        self.call(ROOT, MANAGER, "UnregisterPicker")

    def received(self, signal):
        super().received(signal)
        if signal.member == "InterfacesAdded" and PICKER in signal.arguments[1]:
            self.path = str(signal.arguments[0])
            self.state, self.stages = {}, []
            self._take(signal.arguments[1][PICKER])
        elif signal.member == "PropertiesChanged" and signal.path == self.path and signal.arguments[0] == PICKER:
            self._take(signal.arguments[1])
        elif signal.member == "InterfacesRemoved" and signal.arguments[0] == self.path:
            self.path = None

    def _take(self, properties):
        self.state |= {str(key): value for key, value in properties.items()}
        stage = str(self.state["Stage"])
        if stage not in self.stages[-1:]:
            self.stages.append(stage)

    def wait_stage(self, stage, seconds=10):
        wait(lambda: self.state.get("Stage") == stage and self.path, seconds,
             lambda: f"stage {stage}; the picker is {self.path}, stages were {self.stages}")

    def wait_shown(self):
        wait(lambda: self.path, 5, "a picker")

    def wait_gone(self, seconds=10):
        wait(lambda: self.path is None, seconds, "the picker to go")

    @property
    def offers(self):
        return list(self.state.get("Offers", []))

    def wait_offer(self, name, seconds=10):
        """The offer of an accessory that advertises this name."""
        return wait(
            lambda: next((each for each in self.offers if each["advertisedName"] == name), None), seconds,
            lambda: f"{name} to be offered; offered are {[str(each['advertisedName']) for each in self.offers]}")

    def wait_prompt(self, kind, seconds=10):
        return wait(
            lambda: self.state.get("Prompt", {}).get("kind") == kind and self.state["Prompt"], seconds,
            lambda: f"the prompt {kind}; it is {self.state.get('Prompt')}")

    def ask(self, member, signature="", *arguments):
        self.wait_shown()
        return self.call(self.path, PICKER, member, signature, *arguments)

    def pick(self, name):
        self.ask("Pick", "s", self.wait_offer(name)["id"])

    def respond(self, **answer):
        self.ask("Respond", "a{sv}", sv(answer))

    def cancel(self):
        self.ask("Cancel")
