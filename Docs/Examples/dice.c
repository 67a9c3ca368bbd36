// SPDX-License-Identifier: Apache-2.0
/* Sets up a die through accessorysetupd and prints its first rolls. Build: cc -o dice dice.c $(pkg-config --cflags --libs gio-2.0) */
#include <gio/gio.h>
#include <string.h>

#define SETUP "org.accessorysetup1"
#define PINK "E56A082E-C49B-47CA-A2AB-389127B8ABE3"
#define BLUE "0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7"
#define ROLLS "0000ff3f-0000-1000-8000-00805f9b34fb"

static GDBusConnection *bus;
static GMainLoop *loop;
static char *accessory;
static int rolls;

static GVariant *call(const char *service, const char *path, const char *interface, const char *method, GVariant *arguments,
                      GError **error) {
    return g_dbus_connection_call_sync(bus, service, path, interface, method, arguments, NULL, G_DBUS_CALL_FLAGS_NONE, 40000, NULL, error);
}

static void item(GVariantBuilder *items, const char *name, const char *service) {
    const char *options[] = {"bluetoothPairingLE", NULL};
    GVariantBuilder descriptor;
    g_variant_builder_init(&descriptor, G_VARIANT_TYPE_VARDICT);
    g_variant_builder_add(&descriptor, "{sv}", "bluetoothServiceUUID", g_variant_new_string(service));
    g_variant_builder_add(&descriptor, "{sv}", "supportedOptions", g_variant_new_strv(options, -1));
    g_variant_builder_open(items, G_VARIANT_TYPE_VARDICT);
    g_variant_builder_add(items, "{sv}", "name", g_variant_new_string(name));
    g_variant_builder_add(items, "{sv}", "descriptor", g_variant_builder_end(&descriptor));
    g_variant_builder_close(items);
}

static void on_roll(GDBusConnection *connection, const char *sender, const char *path, const char *interface, const char *signal,
                    GVariant *arguments, gpointer data) {
    (void)connection, (void)sender, (void)path, (void)interface, (void)signal, (void)data;
    g_autoptr(GVariant) changed = g_variant_get_child_value(arguments, 1);
    g_autoptr(GVariant) value = g_variant_lookup_value(changed, "Value", G_VARIANT_TYPE_BYTESTRING);
    gsize length;
    const guint8 *bytes = value ? g_variant_get_fixed_array(value, &length, 1) : NULL;
    if (!bytes || !length) return;
    g_print("rolled %d\n", bytes[0]);
    if (++rolls == 3) g_main_loop_quit(loop);
}

/* Services appear some time after the connection does: called until the rolls are found. */
static gboolean find_rolls(gpointer device) {
    g_autoptr(GVariant) reply = call("org.bluez", "/", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", NULL, NULL);
    if (!reply) return G_SOURCE_CONTINUE;
    GVariantIter *objects, *interfaces, *properties;
    const char *path, *interface, *name;
    GVariant *value;
    char *found = NULL;
    g_variant_get(reply, "(a{oa{sa{sv}}})", &objects);
    while (g_variant_iter_loop(objects, "{&oa{sa{sv}}}", &path, &interfaces))
        while (g_variant_iter_loop(interfaces, "{&sa{sv}}", &interface, &properties))
            while (g_variant_iter_loop(properties, "{&sv}", &name, &value))
                if (g_str_has_prefix(path, device) && !strcmp(interface, "org.bluez.GattCharacteristic1") && !strcmp(name, "UUID") &&
                    !strcmp(g_variant_get_string(value, NULL), ROLLS) && !found)
                    found = g_strdup(path);
    g_variant_iter_free(objects);
    if (!found) return G_SOURCE_CONTINUE;
    g_dbus_connection_signal_subscribe(bus, "org.bluez", "org.freedesktop.DBus.Properties", "PropertiesChanged", found, NULL,
                                       G_DBUS_SIGNAL_FLAGS_NONE, on_roll, NULL, NULL);
    g_autoptr(GVariant) started = call("org.bluez", found, "org.bluez.GattCharacteristic1", "StartNotify", NULL, NULL);
    g_free(found);
    return started ? G_SOURCE_REMOVE : G_SOURCE_CONTINUE;
}

static void connect_device(void) {
    g_autoptr(GVariant) reply = call(SETUP, accessory, "org.freedesktop.DBus.Properties", "Get",
                                     g_variant_new("(ss)", SETUP ".Accessory", "Device"), NULL);
    if (!reply) return g_main_loop_quit(loop);
    g_autoptr(GVariant) device = NULL;
    g_variant_get(reply, "(v)", &device);
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) connected = call("org.bluez", g_variant_get_string(device, NULL), "org.bluez.Device1", "Connect", NULL, &error);
    if (!connected) {
        g_printerr("%s\n", error->message);
        return g_main_loop_quit(loop);
    }
    g_timeout_add_full(G_PRIORITY_DEFAULT, 200, find_rolls, g_variant_dup_string(device, NULL), g_free);
}

static void on_event(GDBusConnection *connection, const char *sender, const char *path, const char *interface, const char *signal,
                     GVariant *arguments, gpointer data) {
    (void)connection, (void)sender, (void)path, (void)interface, (void)signal, (void)data;
    const char *type, *text = "";
    g_autoptr(GVariant) details = NULL;
    g_variant_get(arguments, "(&s@a{sv})", &type, &details);
    g_variant_lookup(details, "message", "&s", &text);
    g_print("event %s %s\n", type, text);
    if (!strcmp(type, "accessoryAdded")) g_variant_lookup(details, "accessory", "o", &accessory);
    /* Only now may the app show another picker. */
    if (!strcmp(type, "pickerDidDismiss")) {
        if (accessory) connect_device();
        else g_main_loop_quit(loop);
    }
}

int main(void) {
    g_autoptr(GError) error = NULL;
    loop = g_main_loop_new(NULL, FALSE);
    bus = g_bus_get_sync(G_BUS_TYPE_SYSTEM, NULL, &error);
    g_autoptr(GVariant) created =
        bus ? call(SETUP, "/org/accessorysetup1", SETUP ".Manager", "CreateSession", g_variant_new("(a{sv})", NULL), &error) : NULL;
    if (!created) {
        g_printerr("%s\n", error->message);
        return 1;
    }
    const char *session;
    g_variant_get(created, "(&o)", &session);
    g_dbus_connection_signal_subscribe(bus, SETUP, SETUP ".Session", "Event", session, NULL, G_DBUS_SIGNAL_FLAGS_NONE, on_event, NULL, NULL);
    GVariantBuilder items, settings;
    g_variant_builder_init(&items, G_VARIANT_TYPE("aa{sv}"));
    item(&items, "Pink Dice", PINK);
    item(&items, "Blue Dice", BLUE);
    g_variant_builder_init(&settings, G_VARIANT_TYPE_VARDICT);
    g_variant_builder_add(&settings, "{sv}", "discoveryTimeout", g_variant_new_double(30));
    g_autoptr(GVariant) active = call(SETUP, session, SETUP ".Session", "Activate", NULL, &error);
    g_autoptr(GVariant) shown =
        active ? call(SETUP, session, SETUP ".Session", "ShowPicker", g_variant_new("(aa{sv}a{sv})", &items, &settings), &error) : NULL;
    if (!shown) {
        g_printerr("%s\n", error->message);
        return 1;
    }
    g_main_loop_run(loop);
    return rolls == 3 ? 0 : 1;
}
