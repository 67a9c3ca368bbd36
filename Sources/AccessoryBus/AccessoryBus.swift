// SPDX-License-Identifier: Apache-2.0
// Our interface as both sides see it: names, paths, and the one table from errors to bus names.

public import AccessoryModel
public import DBusKit

/// The daemon's names on the bus (Docs/Interfaces).
public enum AccessoryBus {
    /// The well-known name.
    public static let name = "org.accessorysetup1"
    /// The object that carries the manager and lists all others (ObjectManager).
    public static let root: ObjectPath = "/org/accessorysetup1"

    /// The interface of the root: sessions begin here, and picker programs register.
    public static let manager = "org.accessorysetup1.Manager"
    /// The interface of an app's session.
    public static let session = "org.accessorysetup1.Session"
    /// The interface of an accessory, for the apps that have it.
    public static let accessory = "org.accessorysetup1.Accessory"
    /// The interface of an accessory's Wi-Fi network, on the accessory's object.
    public static let network = "org.accessorysetup1.Network"
    /// The interface of a picker, for the program that shows it.
    public static let picker = "org.accessorysetup1.Picker"
    /// The interface of a grant, for admins.
    public static let grant = "org.accessorysetup1.Grant"
    /// The interface of an app's manifest, for admins.
    public static let app = "org.accessorysetup1.App"
    /// The interface of everything else that admins ask for.
    public static let admin = "org.accessorysetup1.Admin"

    /// The interface of an app's discovery extension, on its own socket.
    public static let discoveryExtension = "org.accessorysetup1.Extension"
    /// The object that has it.
    public static let extensionPath: ObjectPath = "/org/accessorysetup1/extension"
    /// The XML of that object.
    public static var extensionXML: String {
        String(decoding: PackageResources.org_accessorysetup1_Extension_xml, as: UTF8.self)
    }

    /// The interface of the list of peripherals, on the scoped view's socket.
    public static let view = "org.accessorysetup1.View"
    /// The XML of the object that has `view`.
    public static var viewXML: String { String(decoding: PackageResources.org_accessorysetup1_View_xml, as: UTF8.self) }

    /// The interface as its XML file describes it.
    ///
    /// - Throws: when a file that was built in is not valid: a broken build.
    public static func description(of interface: String) throws(BusError) -> InterfaceDescription {
        let bytes: [UInt8] =
            switch interface {
            case manager: PackageResources.org_accessorysetup1_Manager_xml
            case session: PackageResources.org_accessorysetup1_Session_xml
            case accessory: PackageResources.org_accessorysetup1_Accessory_xml
            case network: PackageResources.org_accessorysetup1_Network_xml
            case picker: PackageResources.org_accessorysetup1_Picker_xml
            case grant: PackageResources.org_accessorysetup1_Grant_xml
            case app: PackageResources.org_accessorysetup1_App_xml
            case admin: PackageResources.org_accessorysetup1_Admin_xml
            case discoveryExtension: PackageResources.org_accessorysetup1_Extension_xml
            case view: PackageResources.org_accessorysetup1_View_xml
            default: []
            }
        guard
            let description = try InterfaceDescription.parse(xml: String(decoding: bytes, as: UTF8.self))
                .first(where: { $0.name == interface })
        else { throw .failed("no description of \(interface)") }
        return description
    }

    // MARK: Paths

    /// The object of the admins' interface.
    public static let adminPath: ObjectPath = "/org/accessorysetup1/admin"
    /// - Parameter id: `Session.id`.
    public static func sessionPath(_ id: Int) -> ObjectPath { path("session", "\(id)") }
    /// - Parameter id: `PickerRun.id`.
    public static func pickerPath(_ id: Int) -> ObjectPath { path("picker", "\(id)") }
    /// - Parameter id: `Grant.id`.
    public static func grantPath(_ id: Int64) -> ObjectPath { path("grant", "\(id)") }

    /// A character that a path may not contain (dots, hyphens) becomes `_` and two hexadecimal digits, the underscore
    /// itself too.
    public static func appPath(_ id: String) -> ObjectPath {
        let letters = id.utf8.map { byte in
            let character = Character(UnicodeScalar(byte))
            return byte < 0x80 && (character.isLetter || character.isNumber) ? String(character) : "_" + Hex.text([byte])
        }
        return path("app", letters.isEmpty ? "_" : letters.joined())
    }

    /// A UUID's hyphens may not stand in a path; underscores take their place.
    public static func accessoryPath(_ id: AccessoryID) -> ObjectPath {
        path("accessory", exchange("-", by: "_", in: id.rawValue))
    }

    /// The identifier that an accessory's path was made from; nil for another path.
    public static func accessoryID(at path: ObjectPath) -> AccessoryID? {
        let prefix = "\(root)/accessory/"
        guard path.rawValue.hasPrefix(prefix) else { return nil }
        return AccessoryID(exchange("_", by: "-", in: String(path.rawValue.dropFirst(prefix.count))))
    }

    private static func exchange(_ old: Unicode.Scalar, by new: Unicode.Scalar, in text: String) -> String {
        let (old, new) = (UInt8(ascii: old), UInt8(ascii: new))
        return String(decoding: text.utf8.map { $0 == old ? new : $0 }, as: UTF8.self)
    }

    private static func path(_ kind: String, _ element: String) -> ObjectPath {
        // Built from letters, digits and underscores only.
        ObjectPath("\(root)/\(kind)/\(element)")!
    }
}

extension SetupError.Code {
    /// The name after `org.accessorysetup1.Error.`.
    public var busName: String {
        switch self {
        case .unknown: "Unknown"
        case .activationFailed: "ActivationFailed"
        case .connectionFailed: "ConnectionFailed"
        case .discoveryTimeout: "DiscoveryTimeout"
        case .extensionNotFound: "ExtensionNotFound"
        case .invalidated: "Invalidated"
        case .invalidRequest: "InvalidRequest"
        case .pickerAlreadyActive: "PickerAlreadyActive"
        case .pickerRestricted: "PickerRestricted"
        case .userCancelled: "UserCancelled"
        case .userRestricted: "UserRestricted"
        }
    }
}

extension BusError {
    /// The prefix of the session API's errors.
    public static let accessorySetupPrefix = "org.accessorysetup1.Error."

    /// An error of the session API, on the bus.
    public init(_ error: SetupError) {
        self.init(name: Self.accessorySetupPrefix + error.code.busName, message: error.message)
    }

    /// The session API's code; nil for other errors.
    public var setupCode: SetupError.Code? {
        guard name.hasPrefix(Self.accessorySetupPrefix) else { return nil }
        let short = name.dropFirst(Self.accessorySetupPrefix.count)
        return SetupError.Code.allCases.first { $0.busName == short }
    }
}
