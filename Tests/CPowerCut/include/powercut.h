// SPDX-License-Identifier: Apache-2.0
// Records SQLite's operations on the files of one directory, in order, so that a test can lay out the disk as a
// power cut at any moment would have left it; and a disk that stops taking anything at a moment of the test's choice.
#pragma once

enum powercut_kind { powercut_write = 1, powercut_truncate, powercut_sync, powercut_delete, powercut_mark };

struct powercut_operation {
    int kind;
    const char *name;           // the file's, without the directory; NULL for a mark
    long long offset;           // of a write; of a truncation the new size
    int length;                 // of a write
    const unsigned char *bytes; // of a write
};

// Records operations in `directory` from now on, on files that are opened from now on; discards earlier
// records. NULL ends the recording. One directory at a time.
void powercut_watch(const char *directory);

// Records that an operation is complete from the caller's point of view.
void powercut_note(void);

int powercut_count(void);
struct powercut_operation powercut_get(int number);

// After so many more operations, each that would change the disk fails with `code` (SQLITE_FULL, SQLITE_IOERR_FSYNC,
// …); a negative number is never.
void powercut_fail_after(int operations, int code);
