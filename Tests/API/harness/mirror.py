# SPDX-License-Identifier: Apache-2.0
"""The objects of a client that reads everything once and then only listens, for comparison with a new reading."""

from harness.names import ROOT

# Properties whose changes are not signalled, as introspection says.
SILENT = {"Lockdown", "Problems"}


class Mirror:
    """All that a client sees, kept up to date by signals alone."""

    def __init__(self, client):
        self.client = client
        client.settle()
        client.signals.clear()
        self.objects = client.objects()
        # Properties that were invalidated, and whose new value must be asked for.
        self.unknown = set()

    def follow(self):
        self.client.settle()
        for signal in self.client.signals:
            # Tests send forged signals to every connection.
            if not signal.path.startswith(ROOT):
                continue
            if signal.member == "InterfacesAdded":
                path, interfaces = signal.arguments
                self.objects[str(path)] = {str(name): values for name, values in interfaces.items()}
            elif signal.member == "InterfacesRemoved":
                path, interfaces = signal.arguments
                for interface in interfaces:
                    del self.objects[str(path)][str(interface)]
                if not self.objects[str(path)]:
                    del self.objects[str(path)]
            elif signal.member == "PropertiesChanged" and signal.path in self.objects:
                interface, values, invalidated = signal.arguments
                self.objects[signal.path][str(interface)].update(values)
                self.unknown |= {(signal.path, str(interface), str(name)) for name in invalidated}
        self.client.signals.clear()
        return self.objects

    def differences(self):
        """Properties whose signalled value is not the present one: each (path, interface, property, signalled, present)."""
        self.client.settle()
        asked, followed = self.client.objects(), self.follow()
        found = [(path, "", "", path in followed, path in asked) for path in sorted(followed.keys() ^ asked.keys())]
        for path in followed.keys() & asked.keys():
            for interface in followed[path].keys() | asked[path].keys():
                signalled, there = (each[path].get(interface, {}) for each in (followed, asked))
                found += [(path, interface, name, signalled.get(name), there.get(name))
                          for name in (signalled.keys() | there.keys()) - SILENT if signalled.get(name) != there.get(name)]
        return found + [(*each, "invalidated", "") for each in sorted(self.unknown)]
