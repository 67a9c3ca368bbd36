// SPDX-License-Identifier: Apache-2.0
// The common part of the yardsticks of `make bench`.
#include "baseline.h"

void walk(DBusMessageIter *iterator) {
    int type;
    while ((type = dbus_message_iter_get_arg_type(iterator)) != DBUS_TYPE_INVALID) {
        if (dbus_type_is_container(type)) {
            DBusMessageIter inner;
            dbus_message_iter_recurse(iterator, &inner);
            if (type == DBUS_TYPE_ARRAY && dbus_type_is_fixed(dbus_message_iter_get_element_type(iterator))) {
                const void *bytes;
                int count;
                dbus_message_iter_get_fixed_array(&inner, &bytes, &count);
            } else {
                walk(&inner);
            }
        } else {
            DBusBasicValue value;
            dbus_message_iter_get_basic(iterator, &value);
        }
        dbus_message_iter_next(iterator);
    }
}
