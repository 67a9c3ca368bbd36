# SPDX-License-Identifier: Apache-2.0
"""Damage to the store's files while no daemon runs: bytes, pages, whole files, tables and rows. The same seed does the same."""

import contextlib
import os
import sqlite3

PAGE = 4096
# SQLite's errors, and names that are not UTF-8.
REFUSED = (sqlite3.Error, UnicodeDecodeError)
TABLES = ("accessory", "accessGrant", "bondIntent", "joinRecord", "counter", "audit", "setAside")


def _change(path, change):
    data = bytearray(path.read_bytes())
    if data:
        change(data)
        path.write_bytes(data)


def _bytes(chance, path, count):
    def strike(data):
        for _ in range(count):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)

    _change(path, strike)


def _pages(chance, path, way):
    def strike(data):
        one, other = (chance.randrange((len(data) + PAGE - 1) // PAGE) * PAGE for _ in range(2))
        if way == "swap":
            data[one:one + PAGE], data[other:other + PAGE] = data[other:other + PAGE], data[one:one + PAGE]
        elif way == "zero":
            data[one:one + PAGE] = bytes(len(data[one:one + PAGE]))
        elif way == "noise":
            data[one:one + PAGE] = chance.randbytes(len(data[one:one + PAGE]))
        elif way == "cut":
            del data[chance.randrange(len(data)):]
        else:
            data += chance.randbytes(chance.randrange(1, 3 * PAGE))

    _change(path, strike)


def _script(path, *statements):
    """As an admin with SQLite's shell, which refuses some statements."""
    with contextlib.suppress(*REFUSED), contextlib.closing(sqlite3.connect(path, isolation_level=None)) as store:
        store.execute("PRAGMA foreign_keys = OFF")
        for each in statements:
            with contextlib.suppress(*REFUSED):
                store.execute(each)


def _columns(path, table):
    with contextlib.suppress(*REFUSED), contextlib.closing(sqlite3.connect(path)) as store:
        return [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
    return []


def _row(chance, path):
    table = chance.choice(TABLES)
    columns = _columns(path, table)
    if columns:
        value = chance.choice((
            "NULL", "-1", "9223372036854775807", "1e300", "''", "'nonsense'", "x'00FF'", "zeroblob(3000000)", "'{'", "CAST(x'FFFE' AS TEXT)"))
        _script(path, f"UPDATE {table} SET {chance.choice(columns)} = {value}")


def _loose(chance, path):
    """A table without its types and keys, with rows twice."""
    table = chance.choice(TABLES)
    columns = _columns(path, table)
    if columns:
        _script(
            path, f"CREATE TABLE loose ({', '.join(columns)})", f"INSERT INTO loose SELECT * FROM {table}", f"INSERT INTO loose SELECT * FROM {table}",
            f"UPDATE loose SET {chance.choice(columns)} = x'C0' WHERE rowid = 1", "PRAGMA legacy_alter_table = ON", f"DROP TABLE {table}",
            f"ALTER TABLE loose RENAME TO {table}")


def _schema(chance, path):
    table, other = chance.sample(TABLES, 2)
    _script(path, chance.choice((
        f"DROP TABLE {table}", f"ALTER TABLE {table} RENAME TO another", f"PRAGMA user_version = {chance.choice((-1, 0, 1, 8))}",
        "CREATE TRIGGER more AFTER INSERT ON accessGrant BEGIN DELETE FROM audit; END",
        "CREATE TRIGGER never BEFORE DELETE ON accessGrant BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TRIGGER gift AFTER INSERT ON audit BEGIN UPDATE accessGrant SET isEnabled = 1; END",
        f"CREATE VIEW {other}View AS SELECT * FROM {other}", f"CREATE TABLE more AS SELECT * FROM {table}", "PRAGMA journal_mode = DELETE",
        f"CREATE UNIQUE INDEX odd ON {table} (1)", "DROP INDEX auditByEvent")))


def _view(chance, path):
    """A view in the place of a table."""
    table = chance.choice(TABLES)
    _script(path, "PRAGMA legacy_alter_table = ON", f"ALTER TABLE {table} RENAME TO real", f"CREATE VIEW {table} AS SELECT * FROM real")


def _log(chance, path):
    """Of another store, or of none."""
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    way = chance.randrange(4)
    if way == 0:
        log.write_bytes(chance.randbytes(chance.randrange(1, 3 * PAGE)))
    elif way == 1:
        index.write_bytes(chance.randbytes(32768))
    elif way == 2 and log.exists():
        _bytes(chance, log, 9)
    else:
        foreign = path.with_name("foreign.sqlite")
        with contextlib.closing(sqlite3.connect(foreign)) as store:
            store.execute("PRAGMA journal_mode = WAL")
            store.execute("CREATE TABLE accessGrant (id, app, accessory)")
            store.commit()
            log.write_bytes(foreign.with_name("foreign.sqlite-wal").read_bytes())
        foreign.unlink()


def _alone(chance, path):
    """A log, and no file."""
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}-wal").write_bytes(chance.randbytes(100))


def _mode(chance, path):
    if chance.randrange(2):
        path.chmod(chance.choice((0, 0o400, 0o666, 0o777)))
    else:
        os.chown(path, 1234, 1234)


WAYS = {
    "bits": lambda chance, path: _bytes(chance, path, chance.randrange(1, 30)),
    "header": lambda chance, path: _change(path, lambda data: data.__setitem__(chance.randrange(min(100, len(data))), chance.randrange(256))),
    "swapped pages": lambda chance, path: _pages(chance, path, "swap"),
    "a page of zeros": lambda chance, path: _pages(chance, path, "zero"),
    "a page of noise": lambda chance, path: _pages(chance, path, "noise"),
    "cut": lambda chance, path: _pages(chance, path, "cut"),
    "longer": lambda chance, path: _pages(chance, path, "longer"),
    "a row": _row,
    "loose tables": _loose,
    "schema": _schema,
    "a view for a table": _view,
    "the log": _log,
    "a log alone": _alone,
    "mode and owner": _mode,
}


def strike(chance, path):
    """One to three of the ways; their names."""
    names = chance.choices(list(WAYS), k=chance.randint(1, 3))
    for name in names:
        if path.exists():
            WAYS[name](chance, path)
    return names
