// SPDX-License-Identifier: Apache-2.0
// A layer between SQLite and its own access to files (sqlite.org/vfs.html): operations on the watched directory are
// recorded and passed on, all others only passed on.
#include "powercut.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *watched;
static struct powercut_operation *operations;
static int count, capacity;
static int left = -1, failure;
static sqlite3_vfs *base;
static sqlite3_vfs layer;

struct file {
    sqlite3_file file;
    char *name; // NULL for files that are not watched
    // The base's file follows.
};

static sqlite3_file *under(sqlite3_file *file) { return (sqlite3_file *)((struct file *)file + 1); }

// Notes an operation that changes the disk, or says why it fails.
static int note(int kind, const char *name, long long offset, int length, const void *bytes) {
    pthread_mutex_lock(&lock);
    int status = SQLITE_OK;
    if (left == 0) {
        status = failure;
    } else if (watched) {
        if (left > 0) left--;
        if (count == capacity) {
            capacity = capacity ? capacity * 2 : 1024;
            operations = realloc(operations, sizeof *operations * (size_t)capacity);
        }
        unsigned char *copy = NULL;
        if (length > 0) memcpy(copy = malloc((size_t)length), bytes, (size_t)length);
        operations[count++] = (struct powercut_operation){kind, name ? strdup(name) : NULL, offset, length, copy};
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static int close_(sqlite3_file *file) {
    int status = under(file)->pMethods ? under(file)->pMethods->xClose(under(file)) : SQLITE_OK;
    free(((struct file *)file)->name);
    ((struct file *)file)->name = NULL;
    return status;
}
static int read_(sqlite3_file *file, void *bytes, int length, sqlite3_int64 offset) {
    return under(file)->pMethods->xRead(under(file), bytes, length, offset);
}
static int write_(sqlite3_file *file, const void *bytes, int length, sqlite3_int64 offset) {
    int status = note(powercut_write, ((struct file *)file)->name, offset, length, bytes);
    return status ? status : under(file)->pMethods->xWrite(under(file), bytes, length, offset);
}
static int truncate_(sqlite3_file *file, sqlite3_int64 size) {
    int status = note(powercut_truncate, ((struct file *)file)->name, size, 0, NULL);
    return status ? status : under(file)->pMethods->xTruncate(under(file), size);
}
static int sync_(sqlite3_file *file, int flags) {
    int status = note(powercut_sync, ((struct file *)file)->name, 0, 0, NULL);
    return status ? status : under(file)->pMethods->xSync(under(file), flags);
}
static int size_(sqlite3_file *file, sqlite3_int64 *size) { return under(file)->pMethods->xFileSize(under(file), size); }
static int lock_(sqlite3_file *file, int kind) { return under(file)->pMethods->xLock(under(file), kind); }
static int unlock_(sqlite3_file *file, int kind) { return under(file)->pMethods->xUnlock(under(file), kind); }
static int reserved(sqlite3_file *file, int *is) { return under(file)->pMethods->xCheckReservedLock(under(file), is); }
static int control(sqlite3_file *file, int what, void *value) {
    return under(file)->pMethods->xFileControl(under(file), what, value);
}
static int sector(sqlite3_file *file) { return under(file)->pMethods->xSectorSize(under(file)); }
// Nothing is promised: the base's guarantees for its disk (whole sectors, writes in order) do not hold for this one.
static int characteristics(sqlite3_file *file) { (void)file; return 0; }
static int shm_map(sqlite3_file *file, int region, int size, int extend, void volatile **memory) {
    return under(file)->pMethods->xShmMap(under(file), region, size, extend, memory);
}
static int shm_lock(sqlite3_file *file, int offset, int n, int flags) {
    return under(file)->pMethods->xShmLock(under(file), offset, n, flags);
}
static void shm_barrier(sqlite3_file *file) { under(file)->pMethods->xShmBarrier(under(file)); }
static int shm_unmap(sqlite3_file *file, int delete) { return under(file)->pMethods->xShmUnmap(under(file), delete); }

static const sqlite3_io_methods methods = {
    2,       close_,  read_,  write_,          truncate_, sync_,    size_,       lock_,    unlock_, reserved,
    control, sector,  characteristics, shm_map, shm_lock,  shm_barrier, shm_unmap, NULL, NULL,
};

// The name in the watched directory; NULL for a file elsewhere.
static char *name_of(const char *path) {
    pthread_mutex_lock(&lock);
    char *name = NULL;
    size_t length = watched ? strlen(watched) : 0;
    if (path && length && strncmp(path, watched, length) == 0 && path[length] == '/') name = strdup(path + length + 1);
    pthread_mutex_unlock(&lock);
    return name;
}

static int open_(sqlite3_vfs *vfs, sqlite3_filename path, sqlite3_file *file, int flags, int *out) {
    (void)vfs;
    char *name = name_of(path);
    // A file elsewhere is the base's from the first byte on.
    if (!name) return base->xOpen(base, path, file, flags, out);
    struct file *own = (struct file *)file;
    memset(own, 0, sizeof *own);
    int status = base->xOpen(base, path, under(file), flags, out);
    own->name = name;
    if (status == SQLITE_OK || under(file)->pMethods) own->file.pMethods = &methods;
    else free(name);
    return status;
}

static int delete_(sqlite3_vfs *vfs, const char *path, int sync) {
    (void)vfs;
    char *name = name_of(path);
    int status = name ? note(powercut_delete, name, 0, 0, NULL) : SQLITE_OK;
    free(name);
    return status ? status : base->xDelete(base, path, sync);
}

static void install(void) {
    base = sqlite3_vfs_find(NULL);
    layer = *base;
    layer.zName = "powercut";
    layer.pNext = NULL;
    layer.szOsFile = (int)sizeof(struct file) + base->szOsFile;
    layer.xOpen = open_;
    layer.xDelete = delete_;
    sqlite3_vfs_register(&layer, 1);
}

void powercut_watch(const char *directory) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++) {
        free((void *)operations[i].name);
        free((void *)operations[i].bytes);
    }
    count = 0;
    left = -1;
    free(watched);
    watched = directory ? strdup(directory) : NULL;
    pthread_mutex_unlock(&lock);
}

void powercut_note(void) { note(powercut_mark, NULL, 0, 0, NULL); }
int powercut_count(void) { return count; }
struct powercut_operation powercut_get(int number) { return operations[number]; }

void powercut_fail_after(int operations_, int code) {
    pthread_mutex_lock(&lock);
    left = operations_;
    failure = code;
    pthread_mutex_unlock(&lock);
}
