// SPDX-License-Identifier: Apache-2.0
// A connection to an SQLite file: statements, transactions and errors, and nothing of what is stored. SQLite itself
// checks the types (STRICT tables), keeps the log and syncs (sqlite.org/c3ref).

internal import CSQLite
internal import Effects

/// What SQLite says when it cannot do something.
struct DatabaseError: Error, CustomStringConvertible {
    /// SQLite's primary result code: `SQLITE_CORRUPT`, `SQLITE_FULL`, ….
    let code: Int32
    let message: String

    var description: String { "SQLite: \(message) (\(code))" }

    /// A file that is damaged in a way that SQLite does not name.
    static func damage(_ message: String) -> DatabaseError { DatabaseError(code: SQLITE_CORRUPT, message: message) }

    /// Whether the file is damaged.
    var isDamage: Bool { code == SQLITE_CORRUPT || code == SQLITE_NOTADB || isTooLong }

    /// Whether a value is longer than any that we write.
    var isTooLong: Bool { code == SQLITE_TOOBIG }

    /// Whether a statement does not fit the tables.
    var isContradiction: Bool { code == SQLITE_ERROR || code == SQLITE_CONSTRAINT }
}

/// A value of a column, or one that a statement is given (sqlite.org/datatype3.html).
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
    var description: String { start(.max) }

    /// As SQL writes it, but of a text or of bytes no more than so many, and then how many there are.
    func start(_ count: Int) -> String {
        func cut(_ start: String, of all: Int) -> String { all > count ? "\(start)… (\(all) bytes)" : start }
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

/// A row of a result. Its columns' names are those of the statement.
struct SQLRow {
    let columns: [String]
    let values: [SQLValue]

    /// NULL for a column that the result has not.
    subscript(_ column: String) -> SQLValue { columns.firstIndex(of: column).map { values[$0] } ?? .null }
}

/// A file that is open. One thread uses it; it closes with its last reference.
final class Database {
    /// The path of one that is in memory, and in no file.
    static let inMemory = ":memory:"
    /// In bytes, of a value: several times what any column of ours may hold. What is longer is not read, but said to be
    /// too long: a file that somebody has damaged must not take all the memory there is.
    static let longestValue: Int32 = 16 << 20

    private let handle: OpaquePointer
    /// What is in memory is no effect on the world.
    private let isLasting: Bool
    /// Statements that were compiled once, by their text: there are some thirty.
    private var statements: [String: OpaquePointer] = [:]

    /// How a file is opened.
    enum Mode {
        /// Made when it is not there.
        case readWrite
        /// Nobody writes it meanwhile: no lock is taken, and no other file made.
        case immutable
    }

    /// - Throws: `DatabaseError`. Most damage is noticed only when something is read.
    init(path: String, _ mode: Mode = .readWrite) throws(DatabaseError) {
        var handle: OpaquePointer?
        let status =
            switch mode {
            case .readWrite:
                sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nil)
            case .immutable:
                sqlite3_open_v2(
                    "file:\(Self.percentEncoded(path))?immutable=1", &handle,
                    SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nil)
            }
        guard status == SQLITE_OK, let handle else {
            let message = handle.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
            sqlite3_close_v2(handle)
            throw DatabaseError(code: status & 0xFF, message: message)
        }
        self.handle = handle
        isLasting = path != Self.inMemory
        limitValues(to: Self.longestValue)
        try check(csqlite_be_defensive(handle))
        try execute("PRAGMA foreign_keys = ON")
    }

    deinit {
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close_v2(handle)
    }

    private static func percentEncoded(_ path: String) -> String {
        path.map { character in
            switch character {
            case "%": "%25"
            case "?": "%3f"
            case "#": "%23"
            default: String(character)
            }
        }.joined()
    }

    private func check(_ status: Int32) throws(DatabaseError) {
        guard status != SQLITE_OK else { return }
        throw DatabaseError(code: status & 0xFF, message: String(cString: sqlite3_errmsg(handle)))
    }

    private func limitValues(to bytes: Int32) { sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, bytes) }

    /// With values as long as they are: a row cannot be deleted without what its indexes are made of.
    func withLongValues<Result>(_ body: () throws -> Result) rethrows -> Result {
        // More than SQLite can hold: as much as it can.
        limitValues(to: .max)
        defer { limitValues(to: Self.longestValue) }
        return try body()
    }

    // MARK: Statements

    /// Runs statements that take and give nothing, one after the other.
    func run(script: String) throws(DatabaseError) {
        try check(sqlite3_exec(handle, script, nil, nil, nil))
    }

    /// Runs a statement to its end and drops what it gives.
    func execute(_ sql: String, _ arguments: SQLValue...) throws(DatabaseError) {
        try execute(sql, arguments)
    }

    func execute(_ sql: String, _ arguments: [SQLValue]) throws(DatabaseError) {
        let statement = try prepared(sql, arguments)
        defer { sqlite3_reset(statement) }
        while try step(statement) {}
    }

    /// All rows that a statement gives.
    func rows(_ sql: String, _ arguments: SQLValue...) throws(DatabaseError) -> [SQLRow] { try rows(sql, arguments) }

    func rows(_ sql: String, _ arguments: [SQLValue]) throws(DatabaseError) -> [SQLRow] {
        let statement = try prepared(sql, arguments)
        defer { sqlite3_reset(statement) }
        let columns = (0..<sqlite3_column_count(statement)).map { String(cString: sqlite3_column_name(statement, $0)) }
        var rows: [SQLRow] = []
        while try step(statement) {
            rows.append(SQLRow(columns: columns, values: columns.indices.map { Self.value(statement, Int32($0)) }))
        }
        return rows
    }

    /// The numbers in the first column of all rows.
    func integers(_ sql: String, _ arguments: [SQLValue]) throws(DatabaseError) -> [Int64] {
        try rows(sql, arguments).compactMap { row in
            if case .integer(let number) = row.values[0] { number } else { nil }
        }
    }

    /// Reads rows of a table one at a time, with their `rowid` as `rowNumber`; nil is in the place of one that has a
    /// value longer than `longestValue`.
    func forEachRow(of table: String, _ numbers: [Int64], _ body: (Int64, SQLRow?) throws -> Void) throws {
        for number in numbers {
            var row: SQLRow?
            do throws(DatabaseError) {
                row = try rows("SELECT rowid AS rowNumber, * FROM \(table) WHERE rowid = ?1", .integer(number)).first
            } catch {
                guard error.isTooLong else { throw error }
            }
            try body(number, row)
        }
    }

    /// The first column of the first row; NULL when there is none.
    func value(_ sql: String, _ arguments: SQLValue...) throws(DatabaseError) -> SQLValue {
        let statement = try prepared(sql, arguments)
        defer { sqlite3_reset(statement) }
        return try step(statement) ? Self.value(statement, 0) : .null
    }

    /// The number in the first column of the first row; nil when there is none.
    func integer(_ sql: String, _ arguments: SQLValue...) throws(DatabaseError) -> Int64? {
        let statement = try prepared(sql, arguments)
        defer { sqlite3_reset(statement) }
        guard try step(statement), case .integer(let number) = Self.value(statement, 0) else { return nil }
        return number
    }

    private func prepared(_ sql: String, _ arguments: [SQLValue]) throws(DatabaseError) -> OpaquePointer {
        let statement: OpaquePointer
        if let known = statements[sql] {
            statement = known
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

    /// Whether there is a row.
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
            // What is no UTF-8 is no text: a file that has been damaged.
            let bytes = UnsafeBufferPointer(start: sqlite3_column_text(statement, column), count: count)
            return String(validating: bytes, as: UTF8.self).map { .text($0) } ?? .blob(Array(bytes))
        case SQLITE_BLOB:
            return .blob(Array(UnsafeRawBufferPointer(start: sqlite3_column_blob(statement, column), count: count)))
        default: return .null
        }
    }

    // MARK: Transactions

    /// All of it or nothing. A transaction that SQLite has ended itself (the disk is full) is not ended again.
    ///
    /// - Parameter name: whose it is, for who lists what is changed.
    func transaction<Result>(of name: StaticString = #function, _ body: () throws -> Result) throws -> Result {
        try execute("BEGIN IMMEDIATE")
        do {
            let result = try body()
            let effect = isLasting ? Effect(.commit, "\("\(name)".prefix { $0 != "(" })") : nil
            try execute("COMMIT")
            effect?.done()
            return result
        } catch {
            if sqlite3_get_autocommit(handle) == 0 { try? execute("ROLLBACK") }
            throw error
        }
    }

    /// Folds the log into the file and empties it.
    func checkpoint() throws(DatabaseError) {
        guard isLasting else { return }
        let effect = Effect(.commit, "checkpoint")
        try check(sqlite3_wal_checkpoint_v2(handle, nil, SQLITE_CHECKPOINT_TRUNCATE, nil, nil))
        effect.done()
    }
}
