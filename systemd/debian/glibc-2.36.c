// SPDX-License-Identifier: Apache-2.0
// Functions of newer versions of glibc than Debian 12's that Swift's runtime for arm64 needs; `cross` links them.
// Debian builds that runtime for unstable, whose headers replace strtol and similar functions by those of C23 (glibc
// 2.38). These differ only for binary numbers ("0b1"), and the runtime uses them to parse environment variables.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(hidden)

long __isoc23_strtol(const char *text, char **end, int base) { return strtol(text, end, base); }

long long __isoc23_strtoll(const char *text, char **end, int base) { return strtoll(text, end, base); }

int __isoc23_sscanf(const char *text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int count = vsscanf(text, format, list);
    va_end(list);
    return count;
}

size_t strlcpy(char *to, const char *from, size_t size) {
    size_t length = strlen(from);
    if (size > 0) {
        size_t copied = length < size ? length : size - 1;
        memcpy(to, from, copied);
        to[copied] = 0;
    }
    return length;
}
