# SPDX-License-Identifier: Apache-2.0
"""The factor by which waiting is extended. A machine may stand still for many seconds, while its disk is written for example; so
limits that only end hangs are multiplied, and each of the harnesses says by how much in one place."""

import dbus.bus

# The default of libdbus.
CALL_SECONDS = 25


class PatientBus(dbus.bus.BusConnection):
    """A bus on which a call may take `times` as long as it says, or as calls usually may."""

    times = 1

    def _patiently(self, timeout):
        return self.times * (CALL_SECONDS if timeout < 0 else timeout)

    def call_blocking(self, *call, timeout=-1.0, **more):
        return super().call_blocking(*call, timeout=self._patiently(timeout), **more)

    def call_async(self, *call, timeout=-1.0, **more):
        return super().call_async(*call, timeout=self._patiently(timeout), **more)
