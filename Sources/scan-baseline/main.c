// SPDX-License-Identifier: Apache-2.0
// The yardstick of `make bench` for Wi-Fi: the least that a C program on libdbus does to list access points. For every
// line on its standard input it starts a scan of wpa_supplicant, waits for the end, reads every access point and walks
// its properties; then it prints their number.
#include "baseline.h"
#include <dbus/dbus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICE "fi.w1.wpa_supplicant1"
#define INTERFACE SERVICE ".Interface"
#define PATH "/fi/w1/wpa_supplicant1/Interfaces/0"

static DBusMessage *call_to(const char *path, const char *interface, const char *member) {
    DBusMessage *message = dbus_message_new_method_call(SERVICE, path, interface, member);
    if (!message) exit(1);
    return message;
}

static DBusMessage *ask(DBusConnection *connection, DBusMessage *message) {
    DBusError error;
    dbus_error_init(&error);
    DBusMessage *reply = dbus_connection_send_with_reply_and_block(connection, message, 20000, &error);
    dbus_message_unref(message);
    if (!reply) {
        fprintf(stderr, "scan-baseline: %s\n", error.message);
        exit(1);
    }
    return reply;
}

static void scan(DBusConnection *connection) {
    DBusMessage *message = call_to(PATH, INTERFACE, "Scan");
    DBusMessageIter top, entries, entry, value;
    const char *key = "Type", *type = "active";
    dbus_message_iter_init_append(message, &top);
    dbus_message_iter_open_container(&top, DBUS_TYPE_ARRAY, "{sv}", &entries);
    dbus_message_iter_open_container(&entries, DBUS_TYPE_DICT_ENTRY, NULL, &entry);
    dbus_message_iter_append_basic(&entry, DBUS_TYPE_STRING, &key);
    dbus_message_iter_open_container(&entry, DBUS_TYPE_VARIANT, "s", &value);
    dbus_message_iter_append_basic(&value, DBUS_TYPE_STRING, &type);
    dbus_message_iter_close_container(&entry, &value);
    dbus_message_iter_close_container(&entries, &entry);
    dbus_message_iter_close_container(&top, &entries);
    dbus_message_unref(ask(connection, message));
    for (;;) {
        DBusMessage *signal = dbus_connection_pop_message(connection);
        if (!signal) {
            if (!dbus_connection_read_write(connection, -1)) exit(1);
            continue;
        }
        int done = dbus_message_is_signal(signal, INTERFACE, "ScanDone");
        dbus_message_unref(signal);
        if (done) return;
    }
}

static int read_all(DBusConnection *connection) {
    DBusMessage *message = call_to(PATH, "org.freedesktop.DBus.Properties", "Get");
    const char *interface = INTERFACE, *name = "BSSs", *bss = SERVICE ".BSS";
    dbus_message_append_args(message, DBUS_TYPE_STRING, &interface, DBUS_TYPE_STRING, &name, DBUS_TYPE_INVALID);
    DBusMessage *reply = ask(connection, message);
    DBusMessageIter top, variant, paths;
    dbus_message_iter_init(reply, &top);
    dbus_message_iter_recurse(&top, &variant);
    dbus_message_iter_recurse(&variant, &paths);
    DBusPendingCall *pending[1024];
    int count = 0;
    while (count < 1024 && dbus_message_iter_get_arg_type(&paths) == DBUS_TYPE_OBJECT_PATH) {
        const char *path;
        dbus_message_iter_get_basic(&paths, &path);
        DBusMessage *get = call_to(path, "org.freedesktop.DBus.Properties", "GetAll");
        dbus_message_append_args(get, DBUS_TYPE_STRING, &bss, DBUS_TYPE_INVALID);
        if (!dbus_connection_send_with_reply(connection, get, &pending[count], 20000) || !pending[count]) exit(1);
        dbus_message_unref(get);
        count++;
        dbus_message_iter_next(&paths);
    }
    dbus_message_unref(reply);
    for (int index = 0; index < count; index++) {
        dbus_pending_call_block(pending[index]);
        DBusMessage *answer = dbus_pending_call_steal_reply(pending[index]);
        dbus_pending_call_unref(pending[index]);
        DBusMessageIter values;
        if (answer && dbus_message_iter_init(answer, &values)) walk(&values);
        if (answer) dbus_message_unref(answer);
    }
    return count;
}

int main(int count, char **words) {
    if (count < 2) {
        fprintf(stderr, "usage: scan-baseline BUS-ADDRESS\n");
        return 64;
    }
    DBusError error;
    dbus_error_init(&error);
    DBusConnection *connection = dbus_connection_open_private(words[1], &error);
    if (!connection || !dbus_bus_register(connection, &error)) {
        fprintf(stderr, "scan-baseline: %s\n", error.message);
        return 1;
    }
    dbus_bus_add_match(connection, "type='signal',sender='" SERVICE "',interface='" INTERFACE "',member='ScanDone'", &error);
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        scan(connection);
        printf("%d\n", read_all(connection));
        fflush(stdout);
    }
    return 0;
}
