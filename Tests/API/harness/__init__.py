# SPDX-License-Identifier: Apache-2.0
"""The harness of the tests from outside: a world for each test, with a private bus, simulated radios, the real daemon, and clients with no
knowledge beyond the session API. Nothing here sleeps: all waiting is for messages and output, in GLib's main loop, with a limit."""
