// SPDX-License-Identifier: Apache-2.0
// The operator's commands, and a gateway's answers. A command has an identifier by which a gateway performs it at most
// once, and lives for at most a minute.

internal import CSodium
public import JSONText

/// A command for some gateways.
public struct FleetCommand: Hashable, Sendable {
    /// An action, with its arguments.
    public enum Action: Hashable, Sendable {
        /// The app and the accessory are checked, because numbers of grants begin anew with a new store.
        public struct GrantName: Hashable, Sendable {
            public let number: Int
            /// Empty for any.
            public let app: String
            /// Empty for any.
            public let accessory: String

            public init(_ number: Int, app: String = "", accessory: String = "") {
                self.number = number
                self.app = app
                self.accessory = accessory
            }
        }

        /// An answer to a picker's question.
        public enum Response: Hashable, Sendable {
            case accept(Bool)
            case passkey(Int)
            case pin(String)
        }

        case revoke(GrantName)
        case enable(GrantName)
        case disable(GrantName)
        /// An accessory, for all apps, by its identifier.
        case remove(accessory: String)
        case rename(accessory: String, name: String)
        case lockDown(Bool)
        /// Shows pickers of the gateway's apps in the fleet for so many seconds; 0 ends that.
        case showPickers(seconds: Int)
        /// The empty texts stand for the offer's own end and access.
        case pick(picker: Int, offer: String, end: String, access: String)
        /// The response, encrypted for the gateway's key where it is a secret.
        case respond(picker: Int, Response)
        case name(picker: Int, String)
        case cancel(picker: Int)
        /// Cancels, and mutes the app (`Picker.Mute`).
        case mute(picker: Int)

        /// The last level of the topic.
        public var verb: String {
            switch self {
            case .revoke: "revoke"
            case .enable: "enable"
            case .disable: "disable"
            case .remove: "remove"
            case .rename: "rename"
            case .lockDown: "lock-down"
            case .showPickers: "show-pickers"
            case .pick: "pick"
            case .respond: "respond"
            case .name: "name"
            case .cancel: "cancel"
            case .mute: "mute"
            }
        }
    }

    /// Identifies the command for ever: 16 to 64 letters, digits and hyphens.
    public let id: String
    public let fleet: String
    public let gateways: GatewaySelector
    public let action: Action
    /// Names the operator's key (`PublicKey.id`).
    public let signer: String
    /// Seconds since 1970, from the signing to the end of the command's life.
    public let validity: Range<Int>

    /// Seconds that a command lives at most.
    public static let maxLife = 60
    /// Seconds for which pickers may be shown without another command.
    public static let maxLease = 300

    /// Reads a command.
    ///
    /// - Parameters:
    ///   - text: with signature.
    ///   - verb: of the topic, which must be the command's.
    ///   - keys: of the operators.
    ///   - own: the gateway's key, for encrypted answers.
    /// - Throws: for a command that is not signed, or is not valid at any time on any gateway.
    public init(_ text: [UInt8], verb: String, keys: [PublicKey], own: PrivateKey?) throws(FleetProblem) {
        let opened = try SignedDocument.open(text, as: .command, keys: keys)
        signer = opened.signer.id
        let claims = try Claims(opened.content, allowed: ["id", "fleet", "gateways", "verb", "args", "iat", "exp"])
        id = try claims.text("id", atMost: 64)
        guard Self.isIdentifier(id) else { throw FleetProblem("id: \(id): must be 16 to 64 letters, digits and hyphens") }
        fleet = try claims.text("fleet")
        gateways = try GatewaySelector(claims.required("gateways"))
        let begin = try claims.integer("iat", times)
        let end = try claims.integer("exp", times)
        guard begin < end, end - begin <= Self.maxLife else {
            throw FleetProblem("exp: \(end): must be 1 to \(Self.maxLife) seconds after iat")
        }
        validity = begin..<end
        let signedVerb = try claims.text("verb")
        guard signedVerb == verb else { throw FleetProblem("verb: \(signedVerb): the topic says \(verb)") }
        action = try Self.action(verb, claims.required("args"), own)
    }

    private static func isIdentifier(_ text: String) -> Bool {
        (16...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), 0x30...0x39, UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }

    /// The signed text of a command.
    ///
    /// - Parameters:
    ///   - life: seconds, 1 to `maxLife`.
    ///   - recipient: the gateway's key, for secrets in the arguments. Without it they can be read by the broker, and
    ///     gateways refuse them.
    /// - Throws: for a command that a gateway would refuse, or a secret without a recipient.
    public static func sign(
        _ action: Action, id: String, fleet: String, gateways: GatewaySelector, now: Int, life: Int = maxLife,
        for recipient: PublicKey? = nil, with key: PrivateKey
    ) throws(FleetProblem) -> [UInt8] {
        let content: JSON = [
            "id": JSON(id), "fleet": JSON(fleet), "gateways": JSON(gateways.elements), "verb": JSON(action.verb),
            "args": .object(try arguments(of: action, recipient)), "iat": JSON(now), "exp": JSON(now + life),
        ]
        return SignedDocument.sign(content, as: .command, with: key)
    }

    // MARK: Arguments

    private static func arguments(of action: Action, _ recipient: PublicKey?) throws(FleetProblem) -> [String: JSON] {
        switch action {
        case .revoke(let grant), .enable(let grant), .disable(let grant):
            var arguments: [String: JSON] = ["grant": JSON(grant.number)]
            if !grant.app.isEmpty { arguments["app"] = JSON(grant.app) }
            if !grant.accessory.isEmpty { arguments["accessory"] = JSON(grant.accessory) }
            return arguments
        case .remove(let accessory): return ["accessory": JSON(accessory)]
        case .rename(let accessory, let name): return ["accessory": JSON(accessory), "name": JSON(name)]
        case .lockDown(let isOn): return ["on": JSON(isOn)]
        case .showPickers(let seconds): return ["seconds": JSON(seconds)]
        case .pick(let picker, let offer, let end, let access):
            var arguments: [String: JSON] = ["picker": JSON(picker), "offer": JSON(offer)]
            if !end.isEmpty { arguments["end"] = JSON(end) }
            if !access.isEmpty { arguments["access"] = JSON(access) }
            return arguments
        case .respond(let picker, .accept(let isAccepted)): return ["picker": JSON(picker), "accept": JSON(isAccepted)]
        case .respond(let picker, .passkey(let passkey)):
            return ["picker": JSON(picker), "sealed": JSON(try seal(["passkey": JSON(passkey)], recipient))]
        case .respond(let picker, .pin(let pin)):
            return ["picker": JSON(picker), "sealed": JSON(try seal(["pin": JSON(pin)], recipient))]
        case .name(let picker, let name): return ["picker": JSON(picker), "name": JSON(name)]
        case .cancel(let picker), .mute(let picker): return ["picker": JSON(picker)]
        }
    }

    private static func seal(_ secret: JSON, _ recipient: PublicKey?) throws(FleetProblem) -> String {
        guard let sealed = recipient?.seal(Array(secret.writtenInOneLine.utf8)) else {
            throw FleetProblem("the gateway's key is needed to encrypt a passkey or PIN")
        }
        return sealed
    }

    private static func action(_ verb: String, _ value: JSON, _ own: PrivateKey?) throws(FleetProblem) -> Action {
        let numbers = 0...(1 << 52)
        func read(_ keys: Set<String>) throws(FleetProblem) -> Claims { try Claims(value, allowed: keys) }
        func grant() throws(FleetProblem) -> Action.GrantName {
            let claims = try read(["grant", "app", "accessory"])
            return Action.GrantName(
                try claims.integer("grant", numbers), app: try claims.optional("app") ?? "",
                accessory: try claims.optional("accessory") ?? "")
        }
        switch verb {
        case "revoke": return .revoke(try grant())
        case "enable": return .enable(try grant())
        case "disable": return .disable(try grant())
        case "remove": return .remove(accessory: try read(["accessory"]).text("accessory"))
        case "rename":
            let claims = try read(["accessory", "name"])
            return .rename(accessory: try claims.text("accessory"), name: try claims.text("name"))
        case "lock-down": return .lockDown(try read(["on"]).truth("on"))
        case "show-pickers": return .showPickers(seconds: try read(["seconds"]).integer("seconds", 0...maxLease))
        case "pick":
            let claims = try read(["picker", "offer", "end", "access"])
            return .pick(
                picker: try claims.integer("picker", numbers), offer: try claims.text("offer"),
                end: try claims.optional("end") ?? "", access: try claims.optional("access", atMost: 4096) ?? "")
        case "respond":
            let claims = try read(["picker", "accept", "sealed"])
            let picker = try claims.integer("picker", numbers)
            guard claims.has("sealed") else { return .respond(picker: picker, .accept(try claims.truth("accept"))) }
            guard !claims.has("accept") else { throw FleetProblem("sealed: cannot be combined with accept") }
            return .respond(picker: picker, try secret(try claims.text("sealed", atMost: 1024), own))
        case "name":
            let claims = try read(["picker", "name"])
            return .name(picker: try claims.integer("picker", numbers), try claims.text("name"))
        case "mute": return .mute(picker: try read(["picker"]).integer("picker", numbers))
        case "cancel": return .cancel(picker: try read(["picker"]).integer("picker", numbers))
        default: throw FleetProblem("verb: \(verb): unknown")
        }
    }

    private static func secret(_ sealed: String, _ own: PrivateKey?) throws(FleetProblem) -> Action.Response {
        guard let content = own?.open(sealed) else { throw FleetProblem("sealed: not encrypted for this gateway's key") }
        let claims = try Claims(content, allowed: ["passkey", "pin"])
        if claims.has("passkey") { return .passkey(try claims.integer("passkey", 0...999_999)) }
        return .pin(try claims.text("pin", atMost: 16))
    }
}

/// A gateway's answer to a command.
public struct CommandAnswer: Hashable, Sendable {
    public enum Outcome: String, Hashable, Sendable, CaseIterable {
        /// The daemon has performed it.
        case done
        /// The daemon has refused it, or could not perform it; nothing has changed.
        case failed
        /// The gateway has refused it before it reached the daemon; nothing has changed.
        case refused
        /// It was begun, and its end was lost: it may have happened, once.
        case unknown
    }

    public let id: String
    public let outcome: Outcome
    /// For people; empty with `done`.
    public let reason: String

    public init(_ id: String, _ outcome: Outcome, _ reason: String = "") {
        self.id = id
        self.outcome = outcome
        self.reason = reason
    }

    /// As it is sent.
    public var json: JSON { ["id": JSON(id), "outcome": JSON(outcome.rawValue), "reason": JSON(reason)] }

    /// As it was sent; nil for another value.
    public init?(_ json: JSON) {
        guard let id = json["id"]?.string, let outcome = json["outcome"]?.string.flatMap({ Outcome(rawValue: $0) }) else {
            return nil
        }
        self.init(id, outcome, json["reason"]?.string ?? "")
    }
}
