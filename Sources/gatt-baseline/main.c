// SPDX-License-Identifier: Apache-2.0
// An app of the plainest kind, for `make bench`: C on libdbus, against org.bluez on any bus, so that the same program
// runs on the system's own bus and on the scoped view. It connects a device, then reads a value, hears notifications,
// or takes them from a descriptor, or writes to one, so many times; it says how long one took (nanoseconds) when it is
// done, and waits on its standard input in between.
#include <dbus/dbus.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static DBusConnection *bus;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "gatt-baseline: %s: %s\n", what, why);
    exit(1);
}

// Calls a method of org.bluez, with empty options where it takes them.
static DBusMessage *call(const char *path, const char *interface, const char *member, int takes_options) {
    DBusMessage *message = dbus_message_new_method_call("org.bluez", path, interface, member);
    if (takes_options) {
        DBusMessageIter arguments, options;
        dbus_message_iter_init_append(message, &arguments);
        dbus_message_iter_open_container(&arguments, DBUS_TYPE_ARRAY, "{sv}", &options);
        dbus_message_iter_close_container(&arguments, &options);
    }
    DBusError error;
    dbus_error_init(&error);
    double end = now() + 20e9;
    DBusMessage *reply;
    while ((reply = dbus_connection_send_with_reply_and_block(bus, message, 20000, &error)) == NULL) {
        // The descriptor of a program that has just ended may still be on its way back.
        if (!dbus_error_has_name(&error, "org.bluez.Error.NotPermitted") || now() > end) fail(member, error.message);
        dbus_error_free(&error);
        DBusMessage *again = dbus_message_copy(message);
        dbus_message_unref(message);
        message = again;
    }
    dbus_message_unref(message);
    return reply;
}

static void hear(int count) {
    int heard = 0;
    while (heard < count && dbus_connection_read_write(bus, 20000)) {
        DBusMessage *message;
        while ((message = dbus_connection_pop_message(bus)) != NULL) {
            if (dbus_message_is_signal(message, "org.freedesktop.DBus.Properties", "PropertiesChanged")) heard++;
            dbus_message_unref(message);
        }
    }
}

int main(int number, char **words) {
    if (number != 6) fail("usage", "gatt-baseline BUS-ADDRESS DEVICE CHARACTERISTIC read|notify|acquire|write COUNT");
    const char *device = words[2], *characteristic = words[3], *what = words[4];
    int count = atoi(words[5]);
    DBusError error;
    dbus_error_init(&error);
    bus = dbus_connection_open_private(words[1], &error);
    if (bus == NULL || !dbus_bus_register(bus, &error)) fail(words[1], error.message);
    dbus_message_unref(call(device, "org.bluez.Device1", "Connect", 0));
    int descriptor = -1;
    if (strcmp(what, "notify") == 0) {
        char rule[512];
        snprintf(rule, sizeof rule, "type='signal',sender='org.bluez',path='%s',interface='org.freedesktop.DBus.Properties'", characteristic);
        dbus_bus_add_match(bus, rule, &error);
        dbus_message_unref(call(characteristic, "org.bluez.GattCharacteristic1", "StartNotify", 0));
        hear(10);
    } else if (strcmp(what, "acquire") == 0 || strcmp(what, "write") == 0) {
        const char *member = strcmp(what, "write") == 0 ? "AcquireWrite" : "AcquireNotify";
        DBusMessage *reply = call(characteristic, "org.bluez.GattCharacteristic1", member, 1);
        dbus_uint16_t mtu;
        if (!dbus_message_get_args(reply, &error, DBUS_TYPE_UNIX_FD, &descriptor, DBUS_TYPE_UINT16, &mtu, DBUS_TYPE_INVALID)) {
            fail(member, error.message);
        }
        dbus_message_unref(reply);
    }
    puts("ready");
    fflush(stdout);
    if (getchar() == EOF) return 1;
    double begin = now();
    if (strcmp(what, "read") == 0) {
        for (int done = 0; done < count; done++) dbus_message_unref(call(characteristic, "org.bluez.GattCharacteristic1", "ReadValue", 1));
    } else if (strcmp(what, "write") == 0) {
        char packet[20] = "01234567890123456789";
        for (int done = 0; done < count;) {
            struct pollfd entry = {.fd = descriptor, .events = POLLOUT};
            poll(&entry, 1, 20000);
            if (write(descriptor, packet, sizeof packet) == sizeof packet) done++;
        }
    } else if (descriptor >= 0) {
        for (int done = 0; done < count;) {
            char packet[512];
            struct pollfd entry = {.fd = descriptor, .events = POLLIN};
            poll(&entry, 1, 20000);
            ssize_t length = read(descriptor, packet, sizeof packet);
            if (length <= 0) fail("read", "the descriptor has ended");
            done++;
        }
    } else {
        hear(count);
    }
    printf("%.0f\n", (now() - begin) / count);
    fflush(stdout);
    // Its CPU is read while it is still there.
    (void)getchar();
    return 0;
}
