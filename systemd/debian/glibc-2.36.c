// SPDX-License-Identifier: Apache-2.0
// What Swift's runtime for arm64 asks of a newer glibc than Debian 12 has: `cross` links this in. Debian builds that
// runtime for its unstable release, whose headers turn strtol and its kin into the functions of C23, there since glibc
// 2.38. Those differ in binary numbers ("0b1") alone, and the runtime reads its settings with them, in environment
// variables.
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
