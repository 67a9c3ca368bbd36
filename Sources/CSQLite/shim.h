// SPDX-License-Identifier: Apache-2.0
// SQLite as a Clang module, and two macros that Swift cannot import: a destructor that is a number, and a variadic
// call.
#pragma once
#include <sqlite3.h>

// SQLite copies the bytes: Swift's pointer is valid only during the call.
static inline int csqlite_bind_text(sqlite3_stmt *statement, int index, const char *text, int length) {
    return sqlite3_bind_text(statement, index, text, length, SQLITE_TRANSIENT);
}

static inline int csqlite_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, int length) {
    // A null pointer would bind NULL instead of an empty blob.
    return length == 0 ? sqlite3_bind_zeroblob(statement, index, 0)
                       : sqlite3_bind_blob(statement, index, bytes, length, SQLITE_TRANSIENT);
}

// Whether closing the last connection writes the log into the file and deletes it.
static inline int csqlite_fold_log_on_close(sqlite3 *database, int is_folded) {
    return sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !is_folded, (int *)0);
}

// A damaged file must not be able to call functions or to write the schema: SQLite's advice for files that may be
// hostile.
static inline int csqlite_be_defensive(sqlite3 *database) {
    int status = sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)0);
    if (status == SQLITE_OK) status = sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)0);
    /* A trigger in the file could keep a revoked grant, or enable a disabled one. */
    if (status == SQLITE_OK) status = sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, (int *)0);
    return status == SQLITE_OK ? sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, (int *)0) : status;
}
