// SPDX-License-Identifier: Apache-2.0
// libdbus-1 as a Clang module. Its API lets a client own the loop, which GDBus and sd-bus do not.
#include <dbus/dbus.h>
