// SPDX-License-Identifier: Apache-2.0
// The properties of the exported objects by the tables of the face (AccessoryBus/Properties.swift): one value for each
// object gives all its properties, and the comparison of two values gives the signal.

internal import AccessoryBus
internal import DBusKit

extension AccessRule where Object: ServiceObject {
    fileprivate init(_ reader: WireReader) {
        self =
            switch reader {
            case .whoeverSeesIt: .whoeverSeesIt
            case .admins: .admins
            case .pickerPrograms: .pickerProgramsAlone
            case .persons: .persons
            }
    }
}

extension MemberTable where Object: ServiceObject {
    /// Answers every property of the interface.
    ///
    /// - Parameter make: the object's value for a caller; nil for an object that has gone.
    mutating func properties<Record: WireRecord>(_ make: @escaping (_ object: Object, _ caller: String) -> Record?) {
        let rules = Record.table.rows.map { ($0.name, AccessRule<Object>($0.reader)) }
        properties(Dictionary(uniqueKeysWithValues: rules)) { object, caller in
            let record = make(object, caller)
            return { name in record.flatMap { Record.table.encode(name, of: $0) } }
        }
    }
}

extension AccessoryService {
    /// Signals the properties in which an object differs from its last value.
    func publish<Record: WireRecord>(
        _ object: any ServiceObject, from old: Record, to new: Record, to audience: @autoclosure () -> Audience
    ) {
        let names = Record.table.changes(from: old, to: new)
        guard !names.isEmpty else { return }
        server.propertiesChanged(object, "\(AccessoryBus.name).\(Record.recordName)", names, to: audience())
    }
}
