# SPDX-License-Identifier: Apache-2.0
"""What the tests from outside stand on: a world for each test, with a private bus, simulated radios, the real daemon, and clients that know no
more than the session API says. Nothing here sleeps: all waiting is for messages and output, in GLib's main loop, with a limit."""
