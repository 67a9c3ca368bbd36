// SPDX-License-Identifier: Apache-2.0
// GLib as a Clang module: main loop, key files, markup parser, Unicode and regular expressions.
#include <glib.h>
#include <glib-unix.h>
