// SPDX-License-Identifier: Apache-2.0
// The yardstick of `make bench`: the least that a C program on libdbus does with BlueZ' adverts. It subscribes to the
// same signals as the daemon, walks every argument of each, and counts. With a name as second argument it also owns
// that name.
#include "baseline.h"
#include <dbus/dbus.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned long adverts;

static DBusHandlerResult receive(DBusConnection *connection, DBusMessage *message, void *data) {
    (void)connection;
    (void)data;
    if (!dbus_message_is_signal(message, "org.freedesktop.DBus.Properties", "PropertiesChanged")) {
        return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
    }
    DBusMessageIter iterator;
    if (dbus_message_iter_init(message, &iterator)) walk(&iterator);
    adverts++;
    return DBUS_HANDLER_RESULT_HANDLED;
}

// Says how many there were so far; asked for by a signal, so that counting costs nothing.
static void report(int number) {
    (void)number;
    char text[32];
    int length = snprintf(text, sizeof text, "%lu\n", adverts);
    if (write(1, text, (size_t)length) < 0) _exit(1);
}

int main(int count, char **words) {
    if (count < 2) {
        fprintf(stderr, "usage: advert-baseline BUS-ADDRESS [NAME]\n");
        return 64;
    }
    DBusError error;
    dbus_error_init(&error);
    DBusConnection *connection = dbus_connection_open_private(words[1], &error);
    if (!connection || !dbus_bus_register(connection, &error)) {
        fprintf(stderr, "advert-baseline: %s\n", error.message);
        return 1;
    }
    dbus_connection_add_filter(connection, receive, NULL, NULL);
    dbus_bus_add_match(
        connection,
        "type='signal',sender='org.bluez',interface='org.freedesktop.DBus.Properties',"
        "member='PropertiesChanged',path_namespace='/org/bluez',arg0='org.bluez.Device1'",
        &error);
    if (count > 2) dbus_bus_request_name(connection, words[2], 0, &error);
    struct sigaction action = {.sa_handler = report, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    while (dbus_connection_read_write_dispatch(connection, -1)) {
    }
    return 0;
}
