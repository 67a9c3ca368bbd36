// SPDX-License-Identifier: Apache-2.0
// What the yardsticks of `make bench` have in common.
#ifndef BASELINE_H
#define BASELINE_H
#include <dbus/dbus.h>

// Looks at every value, as any receiver must; keeps nothing.
void walk(DBusMessageIter *iterator);

#endif
