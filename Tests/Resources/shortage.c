// SPDX-License-Identifier: Apache-2.0
// Takes resources from a program under test, and counts its allocations, without code for it in the program: loaded
// into it (LD_PRELOAD), it stands between the program and the C library. A file that both map says which calls on files
// fail or wait, and by how much the clocks are off; in it are counted those calls, and the bytes that malloc has given
// out (shortage.py).

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WRITING = 1, SYNCING = 2, NAMING = 4, OPENING = 8, READING = 16 };

// The same fields in the same order as in shortage.py.
struct control {
    // Of files: whose paths begin like this, which kinds of calls, and the numbers and the error of failing ones.
    char path[256];
    int64_t kinds, seen, from, until, error, failed, pause_ms;
    // Nanoseconds by which the clocks are ahead.
    int64_t wall, uptime, boottime;
    // Bytes and blocks that malloc has given out and not got back.
    int64_t bytes, blocks;
    int64_t blocks_by_size[257];
};

static struct control nobody;
static struct control *control = &nobody;

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("SHORTAGE");
    if (!path) return;
    int file = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (file < 0) abort();
    void *shared = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (shared == MAP_FAILED) abort();
    struct control *new = shared;
    // No other thread has begun.
    new->bytes = nobody.bytes;
    new->blocks = nobody.blocks;
    memcpy(new->blocks_by_size, nobody.blocks_by_size, sizeof nobody.blocks_by_size);
    control = new;
}

// Files

static int fails_at(int kind, const char *path) {
    struct control *now = control;
    if (!(now->kinds & kind) || !now->path[0] || strncmp(path, now->path, strlen(now->path))) return 0;
    int64_t number = __atomic_fetch_add(&now->seen, 1, __ATOMIC_SEQ_CST);
    if (now->pause_ms) {
        struct timespec pause = {now->pause_ms / 1000, now->pause_ms % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
    if (number < now->from || number >= now->until) return 0;
    __atomic_fetch_add(&now->failed, 1, __ATOMIC_SEQ_CST);
    errno = (int)now->error;
    return 1;
}

static int fails(int kind, int file) {
    if (!(control->kinds & kind)) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    int before = errno;
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length <= 0) return 0;
    path[length] = 0;
    return fails_at(kind, path);
}

static int fails_to_open(const char *path, int flags) {
    return fails_at((flags & O_CREAT) || (flags & O_ACCMODE) != O_RDONLY ? NAMING : OPENING, path);
}

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list list; \
        va_start(list, flags); \
        mode = va_arg(list, mode_t); \
        va_end(list); \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags);
    REAL(open);
    return fails_to_open(path, flags) ? -1 : real(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE_OF(flags);
    REAL(open64);
    return fails_to_open(path, flags) ? -1 : real(path, flags, mode);
}

DIR *opendir(const char *path) {
    REAL(opendir);
    return fails_at(OPENING, path) ? NULL : real(path);
}

ssize_t read(int file, void *bytes, size_t count) {
    REAL(read);
    return fails(READING, file) ? -1 : real(file, bytes, count);
}

ssize_t write(int file, const void *bytes, size_t count) {
    REAL(write);
    return fails(WRITING, file) ? -1 : real(file, bytes, count);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) {
    REAL(pwrite);
    return fails(WRITING, file) ? -1 : real(file, bytes, count, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    REAL(pwrite64);
    return fails(WRITING, file) ? -1 : real(file, bytes, count, at);
}

int ftruncate(int file, off_t size) {
    REAL(ftruncate);
    return fails(WRITING, file) ? -1 : real(file, size);
}

int ftruncate64(int file, off64_t size) {
    REAL(ftruncate64);
    return fails(WRITING, file) ? -1 : real(file, size);
}

int fsync(int file) {
    REAL(fsync);
    return fails(SYNCING, file) ? -1 : real(file);
}

int fdatasync(int file) {
    REAL(fdatasync);
    return fails(SYNCING, file) ? -1 : real(file);
}

int rename(const char *from, const char *to) {
    REAL(rename);
    return fails_at(NAMING, from) ? -1 : real(from, to);
}

int unlink(const char *path) {
    REAL(unlink);
    return fails_at(NAMING, path) ? -1 : real(path);
}

int remove(const char *path) {
    REAL(remove);
    return fails_at(NAMING, path) ? -1 : real(path);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return fails_at(NAMING, path) ? -1 : real(path, mode);
}

// Clocks

int clock_gettime(clockid_t clock, struct timespec *time) {
    REAL(clock_gettime);
    int result = real(clock, time);
    int64_t ahead = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE    ? control->wall
                    : clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ? control->uptime
                    : clock == CLOCK_BOOTTIME                                     ? control->boottime
                                                                                  : 0;
    if (result == 0 && ahead) {
        int64_t now = time->tv_sec * INT64_C(1000000000) + time->tv_nsec + ahead;
        time->tv_sec = now / 1000000000;
        time->tv_nsec = now % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return result;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}

// Memory

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static void count(void *block, int one) {
    if (!block) return;
    size_t size = malloc_usable_size(block);
    struct control *now = control;
    __atomic_fetch_add(&now->bytes, one * (int64_t)size, __ATOMIC_RELAXED);
    __atomic_fetch_add(&now->blocks, one, __ATOMIC_RELAXED);
    __atomic_fetch_add(&now->blocks_by_size[size / 16 < 256 ? size / 16 : 256], one, __ATOMIC_RELAXED);
}

void *malloc(size_t size) {
    void *block = __libc_malloc(size);
    count(block, 1);
    return block;
}

void *calloc(size_t number, size_t size) {
    void *block = __libc_calloc(number, size);
    count(block, 1);
    return block;
}

void *realloc(void *block, size_t size) {
    count(block, -1);
    void *new = __libc_realloc(block, size);
    count(new ? new : size ? block : NULL, 1);
    return new;
}

void free(void *block) {
    count(block, -1);
    __libc_free(block);
}

void *memalign(size_t alignment, size_t size) {
    void *block = __libc_memalign(alignment, size);
    count(block, 1);
    return block;
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **place, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) || alignment & (alignment - 1) || !alignment) return EINVAL;
    void *block = memalign(alignment, size);
    if (!block) return ENOMEM;
    *place = block;
    return 0;
}
