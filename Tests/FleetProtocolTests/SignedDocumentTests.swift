// SPDX-License-Identifier: Apache-2.0
// Signatures, documents and commands as values: valid ones are accepted, and nothing else is.

@testable import FleetProtocol
import JSONText
import Testing

private let key = PrivateKey.random()
private let stranger = PrivateKey.random()

struct KeyTests {
    /// RFC 8032, 7.1, test 2, and RFC 8037, A.4.
    @Test func publishedVectors() throws {
        let seed = try #require(Base64.decode("TM0Imyj_ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U-4pvs", Base64.url))
        let one = try #require(PrivateKey(base64: Base64.encode(seed, Base64.plain)))
        #expect(one.publicKey == PublicKey(base64: "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="))
        let signature = try #require(
            Base64.decode("kqAJqfDUyrhyDoILX2QlQKKye1QWUD-Ps3YiI-vbadoIWsHkPhWZbkWPNhPQ8R2MOHsurrQwKu6wDSkWErsMAA", Base64.url))
        #expect(one.signature(of: [0x72]) == signature)
        #expect(one.publicKey.verifies(signature, of: [0x72]))
        #expect(!one.publicKey.verifies(signature, of: [0x73]))

        let other = try #require(Base64.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A", Base64.url))
        let signer = try #require(PrivateKey(base64: Base64.encode(other, Base64.plain)))
        let input = Array("eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc".utf8)
        let expected = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
        #expect(Base64.encode(signer.signature(of: input), Base64.url) == expected)
    }

    @Test func secretsAreForTheirOwnerAlone() throws {
        let sealed = try #require(key.publicKey.seal(Array("042913".utf8)))
        #expect(key.open(sealed) == Array("042913".utf8))
        #expect(stranger.open(sealed) == nil)
        #expect(key.open(String(sealed.dropLast(8))) == nil)
        #expect(key.open("") == nil)
        #expect(sealed != key.publicKey.seal(Array("042913".utf8)))
    }

    @Test(arguments: ["", "AAAA", String(repeating: "A", count: 45), String(repeating: "é", count: 44)])
    func textsThatAreNoKeys(text: String) {
        #expect(PublicKey(base64: text) == nil)
        #expect(PrivateKey(base64: text) == nil)
    }
}

struct SignedDocumentTests {
    private let content: JSON = ["a": .integer(1)]

    @Test func opensWithTheKeyThatSigned() throws {
        let text = SignedDocument.sign(content, as: .policy, with: key)
        let keys = [stranger.publicKey, key.publicKey]
        let opened = try SignedDocument.open(text, as: .policy, keys: keys)
        #expect(opened.content == Array(#"{"a":1}"#.utf8) && opened.signer == key.publicKey)
        for type in [DocumentType.manifests, .command] {
            #expect(throws: FleetProblem.self) { try SignedDocument.open(text, as: type, keys: keys) }
        }
        #expect(throws: FleetProblem.self) { try SignedDocument.open(text, as: .policy, keys: [stranger.publicKey]) }
        #expect(throws: FleetProblem.self) { try SignedDocument.open(text, as: .policy, keys: []) }
    }

    @Test func everyChangedByteIsNoticed() {
        let text = SignedDocument.sign(content, as: .policy, with: key)
        for index in text.indices {
            var changed = text
            changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(throws: FleetProblem.self) { try SignedDocument.open(changed, as: .policy, keys: [key.publicKey]) }
        }
        for count in text.indices {
            #expect(throws: FleetProblem.self) {
                try SignedDocument.open(Array(text[..<count]), as: .policy, keys: [key.publicKey])
            }
        }
        #expect(throws: FleetProblem.self) { try SignedDocument.open(text + [0x41], as: .policy, keys: [key.publicKey]) }
    }

    @Test func sizeIsBounded() {
        let text = SignedDocument.sign(["a": JSON(String(repeating: "x", count: SignedDocument.maxSize))], as: .policy, with: key)
        #expect(throws: FleetProblem.self) { try SignedDocument.open(text, as: .policy, keys: [key.publicKey]) }
    }
}

struct SelectorTests {
    @Test(arguments: [
        ("*", "gw-1", true), ("gw-1", "gw-1", true), ("gw-1", "gw-12", false), ("gw-*", "gw-12", true), ("*-12", "gw-12", true),
        ("*1*", "gw-12", true), ("g*2*3", "gw-12-3", true), ("g*2*3", "gw-12-34", false), ("@hall", "x", true),
        ("@hal", "x", false),
        ("**", "x", true), ("*a", "b", false),
    ])
    func fits(element: String, gateway: String, isSelected: Bool) throws {
        #expect(try GatewaySelector([element]).fits(gateway, labels: ["hall", "west"]) == isSelected)
    }

    @Test(arguments: ["", "@", "@*", "@Hall", "GW", "gw/1", "a b", "é"])
    func elementsThatFitNothing(element: String) {
        #expect(throws: FleetProblem.self) { try GatewaySelector([element]) }
    }

    @Test func listsThatFitNothing() {
        #expect(throws: FleetProblem.self) { try GatewaySelector([]) }
        #expect(throws: FleetProblem.self) { try GatewaySelector(Array(repeating: "a", count: 257)) }
    }
}

struct FleetCommandTests {
    static let actions: [FleetCommand.Action] = [
        .revoke(.init(3, app: "com.example.dice", accessory: "x")), .enable(.init(0)), .disable(.init(7)), .remove(accessory: "x"),
        .rename(accessory: "x", name: "Gate"), .lockDown(true), .showPickers(seconds: 60),
        .pick(picker: 1, offer: "o", end: "8h", access: "read"), .pick(picker: 1, offer: "o", end: "", access: ""),
        .respond(picker: 1, .accept(false)), .respond(picker: 1, .passkey(42_913)), .respond(picker: 1, .pin("0000")),
        .name(picker: 1, "Gate"), .cancel(picker: 1), .mute(picker: 1),
    ]

    @Test(arguments: actions)
    func eachActionComesBack(action: FleetCommand.Action) throws {
        let own = PrivateKey.random()
        let id = Digest.newIdentifier()
        let text = try FleetCommand.sign(
            action, id: id, fleet: "hall", gateways: GatewaySelector(["gw-1"]), now: 1000, for: own.publicKey, with: key)
        let command = try FleetCommand(text, verb: action.verb, keys: [key.publicKey], own: own)
        #expect(command.action == action && command.id == id && command.validity == 1000..<1060)
        // Nothing on the way has the secret.
        if case .respond(_, .passkey) = action { #expect(!String(decoding: text, as: UTF8.self).contains("42913")) }
        for verb in Self.actions.map(\.verb) where verb != action.verb {
            #expect(throws: FleetProblem.self) { try FleetCommand(text, verb: verb, keys: [key.publicKey], own: own) }
        }
    }

    @Test func secretsNeedTheGatewaysKey() throws {
        let selector = try GatewaySelector(["gw-1"])
        #expect(throws: FleetProblem.self) {
            try FleetCommand.sign(
                .respond(picker: 1, .passkey(1)), id: Digest.newIdentifier(), fleet: "hall", gateways: selector, now: 1, with: key)
        }
        let text = try FleetCommand.sign(
            .respond(picker: 1, .passkey(1)), id: Digest.newIdentifier(), fleet: "hall", gateways: selector, now: 1,
            for: stranger.publicKey, with: key)
        #expect(throws: FleetProblem.self) { try FleetCommand(text, verb: "respond", keys: [key.publicKey], own: nil) }
        #expect(throws: FleetProblem.self) { try FleetCommand(text, verb: "respond", keys: [key.publicKey], own: key) }
    }
}

struct FleetTopicsTests {
    @Test(arguments: ["", "-a", "A", "a/b", "a+b", "#", "a b", "é", String(repeating: "a", count: 64)])
    func namesThatTopicsCannotHave(name: String) {
        #expect(FleetTopics(fleet: name, gateway: "a") == nil)
        #expect(FleetTopics(fleet: "a", gateway: name) == nil)
    }

    @Test func theOperatorsLevelIsNoGateways() {
        #expect(FleetTopics(fleet: "a", gateway: "operators") == nil)
    }

    @Test func topicsAreTakenApart() throws {
        let topics = try #require(FleetTopics(fleet: "hall", gateway: "gw-1"))
        #expect(topics.topic("reported/grant/1") == "as/1/hall/gw-1/reported/grant/1")
        #expect(topics.end(of: "as/1/hall/gw-1/status") == "status")
        #expect(topics.end(of: "as/1/hall/gw-12/status") == nil)
        let parsed = try #require(FleetTopics.parse("as/1/hall/gw-1/reported/grant/1", fleet: "hall"))
        #expect(parsed == ("gw-1", "reported/grant/1"))
        #expect(FleetTopics.parse("as/1/other/gw-1/status", fleet: "hall") == nil)
        #expect(FleetTopics.parse("as/1/hall/gw-1", fleet: "hall") == nil)
    }
}
