// SPDX-License-Identifier: Apache-2.0
// A connection to an SQLite file: statements, transactions and errors. SQLite itself checks the types (STRICT tables),
// keeps the write-ahead log and syncs (sqlite.org/c3ref).

internal import CSQLite
internal import Effects

/// A failed call of SQLite.
struct DatabaseError: Error, CustomStringConvertible {
    /// SQLite's primary result code: `SQLITE_CORRUPT`, `SQLITE_FULL`, ….
    let code: Int32
    let message: String

    var description: String { "SQLite: \(message) (\(code))" }

    /// Damage that SQLite does not detect.
    static func damage(_ message: String) -> DatabaseError { DatabaseError(code: SQLITE_CORRUPT, message: message) }

    /// Whether the file is damaged.
    var isDamage: Bool { code == SQLITE_CORRUPT || code == SQLITE_NOTADB }
}

/// A value of a column, or an argument of a statement (sqlite.org/datatype3.html).
enum SQLValue: Hashable {
    case null
    case integer(Int64)
    case real(Double)
    case text(String)
    case blob([UInt8])

    init(_ integer: (some BinaryInteger)?) { self = integer.map { .integer(Int64($0)) } ?? .null }
    init(_ text: String?) { self = text.map { .text($0) } ?? .null }
    init(_ bytes: [UInt8]?) { self = bytes.map { .blob($0) } ?? .null }
    init(_ truth: Bool) { self = .integer(truth ? 1 : 0) }
}

extension SQLValue: CustomStringConvertible {
    /// As SQL writes it.
    var description: String { prefix(.max) }

    /// As SQL writes it, with at most `count` bytes of a text or blob, and then its length.
    func prefix(_ count: Int) -> String {
        func cut(_ start: String, of length: Int) -> String { length > count ? "\(start)… (\(length) bytes)" : start }
        return switch self {
        case .null: "NULL"
        case .integer(let number): "\(number)"
        case .real(let number): "\(number)"
        case .text(let text): cut(String(decoding: text.utf8.prefix(count), as: UTF8.self), of: text.utf8.count)
        case .blob(let bytes):
            cut("x'\(bytes.prefix(count).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())'", of: bytes.count)
        }
    }
}

/// A row of a result, with the statement's column names.
struct SQLRow {
    let columns: [String]
    let values: [SQLValue]

    /// NULL for an unknown column.
    subscript(_ column: String) -> SQLValue { columns.firstIndex(of: column).map { values[$0] } ?? .null }
}

/// An open file, used by one thread and closed with its last reference.
final class Database {
    /// The path of a database in memory.
    static let inMemory = ":memory:"

    private let handle: OpaquePointer
    /// Compiled statements by their text: there are some thirty.
    private var statements: [String: OpaquePointer] = [:]

    /// Opens a file, or makes it. Until `foldLogOnClose()`, neither the file nor an existing log changes by reading.
    ///
    /// - Throws: `DatabaseError`. Most damage shows only when something is read.
    init(path: String) throws(DatabaseError) {
        var handle: OpaquePointer?
        let status = sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nil)
        guard status == SQLITE_OK, let handle else {
            let message = handle.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
            sqlite3_close_v2(handle)
            throw DatabaseError(code: status & 0xFF, message: message)
        }
        self.handle = handle
        try check(csqlite_be_defensive(handle))
        try check(csqlite_fold_log_on_close(handle, 0))
        try execute("PRAGMA foreign_keys = ON")
    }

    /// Lets the close fold the log into the file, as is SQLite's default.
    func foldLogOnClose() throws(DatabaseError) { try check(csqlite_fold_log_on_close(handle, 1)) }

    deinit {
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close_v2(handle)
    }

    private func check(_ status: Int32) throws(DatabaseError) {
        guard status != SQLITE_OK else { return }
        throw DatabaseError(code: status & 0xFF, message: String(cString: sqlite3_errmsg(handle)))
    }

    // MARK: Statements

    /// Runs statements without arguments and results.
    func run(script: String) throws(DatabaseError) {
        try check(sqlite3_exec(handle, script, nil, nil, nil))
    }

    /// Runs a statement to its end and discards its results.
    func execute(_ sql: String, _ arguments: SQLValue...) throws(DatabaseError) {
        let statement = try prepared(sql, arguments)
        defer { sqlite3_reset(statement) }
        while try step(statement) {}
    }

    /// All rows of a result.
    func rows(_ sql: String, _ arguments: SQLValue...) throws(DatabaseError) -> [SQLRow] {
        let statement = try prepared(sql, arguments)
        defer { sqlite3_reset(statement) }
        let columns = Self.columns(statement)
        var rows: [SQLRow] = []
        while try step(statement) { rows.append(SQLRow(columns: columns, values: Self.values(statement))) }
        return rows
    }

    /// Calls `body` with one row of a result after the other: only one is in memory.
    func forEachRow(_ sql: String, _ body: (SQLRow) throws -> Void) throws {
        let statement = try prepared(sql, [])
        defer { sqlite3_reset(statement) }
        let columns = Self.columns(statement)
        while try step(statement) { try body(SQLRow(columns: columns, values: Self.values(statement))) }
    }

    private static func columns(_ statement: OpaquePointer) -> [String] {
        (0..<sqlite3_column_count(statement)).map { String(cString: sqlite3_column_name(statement, $0)) }
    }

    private static func values(_ statement: OpaquePointer) -> [SQLValue] {
        (0..<sqlite3_column_count(statement)).map { value(statement, $0) }
    }

    /// The first column of the first row; NULL without one.
    func value(_ sql: String, _ arguments: SQLValue...) throws(DatabaseError) -> SQLValue {
        let statement = try prepared(sql, arguments)
        defer { sqlite3_reset(statement) }
        return try step(statement) ? Self.value(statement, 0) : .null
    }

    /// The integer in the first column of the first row; nil without one.
    func integer(_ sql: String, _ arguments: SQLValue...) throws(DatabaseError) -> Int64? {
        let statement = try prepared(sql, arguments)
        defer { sqlite3_reset(statement) }
        guard try step(statement), case .integer(let number) = Self.value(statement, 0) else { return nil }
        return number
    }

    private func prepared(_ sql: String, _ arguments: [SQLValue]) throws(DatabaseError) -> OpaquePointer {
        let statement: OpaquePointer
        if let compiled = statements[sql] {
            statement = compiled
        } else {
            var new: OpaquePointer?
            try check(sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &new, nil))
            guard let new else { throw DatabaseError(code: SQLITE_MISUSE, message: "no statement: \(sql)") }
            statements[sql] = new
            statement = new
        }
        guard Int(sqlite3_bind_parameter_count(statement)) == arguments.count else {
            throw DatabaseError(code: SQLITE_RANGE, message: "\(arguments.count) arguments for: \(sql)")
        }
        for (index, argument) in arguments.enumerated() { try check(Self.bind(statement, Int32(index) + 1, argument)) }
        return statement
    }

    private static func bind(_ statement: OpaquePointer, _ index: Int32, _ value: SQLValue) -> Int32 {
        switch value {
        case .null: return sqlite3_bind_null(statement, index)
        case .integer(let number): return sqlite3_bind_int64(statement, index, number)
        case .real(let number): return sqlite3_bind_double(statement, index, number)
        case .text(var text):
            return text.withUTF8 { bytes in
                bytes.withMemoryRebound(to: CChar.self) { csqlite_bind_text(statement, index, $0.baseAddress, Int32($0.count)) }
            }
        case .blob(let bytes):
            return bytes.withUnsafeBytes { csqlite_bind_blob(statement, index, $0.baseAddress, Int32($0.count)) }
        }
    }

    /// - Returns: whether the statement gave a row.
    private func step(_ statement: OpaquePointer) throws(DatabaseError) -> Bool {
        switch sqlite3_step(statement) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let status:
            try check(status)
            return false
        }
    }

    private static func value(_ statement: OpaquePointer, _ column: Int32) -> SQLValue {
        let count = Int(sqlite3_column_bytes(statement, column))
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER: return .integer(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT: return .real(sqlite3_column_double(statement, column))
        case SQLITE_TEXT:
            // A damaged file may have any bytes in a text.
            let bytes = UnsafeBufferPointer(start: sqlite3_column_text(statement, column), count: count)
            return String(validating: bytes, as: UTF8.self).map { .text($0) } ?? .blob(Array(bytes))
        case SQLITE_BLOB:
            return .blob(Array(UnsafeRawBufferPointer(start: sqlite3_column_blob(statement, column), count: count)))
        default: return .null
        }
    }

    // MARK: Transactions

    /// Runs `body` in a transaction. One that SQLite has ended itself (the disk is full) is not rolled back again.
    ///
    /// - Parameter name: of the effect.
    func transaction<Result>(of name: StaticString = #function, _ body: () throws -> Result) throws -> Result {
        try execute("BEGIN IMMEDIATE")
        do {
            let result = try body()
            let effect = Effect(.commit, "\("\(name)".prefix { $0 != "(" })")
            try execute("COMMIT")
            effect.done()
            return result
        } catch {
            if sqlite3_get_autocommit(handle) == 0 { try? execute("ROLLBACK") }
            throw error
        }
    }

    /// Folds the log into the file and empties it.
    func checkpoint() throws(DatabaseError) {
        let effect = Effect(.commit, "checkpoint")
        try check(sqlite3_wal_checkpoint_v2(handle, nil, SQLITE_CHECKPOINT_TRUNCATE, nil, nil))
        effect.done()
    }

    /// The bytes of the file that this database is, or would be.
    func serialized() throws(DatabaseError) -> [UInt8] {
        var size: sqlite3_int64 = 0
        guard let bytes = sqlite3_serialize(handle, "main", &size, 0) else {
            throw DatabaseError(code: SQLITE_NOMEM, message: "out of memory")
        }
        defer { sqlite3_free(bytes) }
        return Array(UnsafeBufferPointer(start: bytes, count: Int(size)))
    }
}
