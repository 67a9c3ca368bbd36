// SPDX-License-Identifier: Apache-2.0
// The common part of the yardsticks of `make bench`.
#ifndef BASELINE_H
#define BASELINE_H
#include <dbus/dbus.h>

// Looks at every value, as any receiver must; keeps nothing.
void walk(DBusMessageIter *iterator);

#endif
