// SPDX-License-Identifier: Apache-2.0
// Key files: values, and problems with file, line and key.

import KeyFiles
import TestSupport
import Testing

@Suite struct KeyFileTests {
    private let text = """
        # A comment.

        [Application]
        Id=com.example.dice
          Name = Dice
        List=a;b\\;c;
        Empty=
        Number=-7
        Words=seven

        [Other]
        Name=Other
        Idle=1
        """

    private func file(_ text: String) throws -> KeyFile { try KeyFile(contents: text, path: "dice.conf") }

    private func problem(_ body: () throws -> some Any) -> String {
        do {
            return "read: \(try body())"
        } catch { return "\(error)" }
    }

    @Test func whatIsThere() throws {
        let file = try file(text)
        #expect(file.groups == ["Application", "Other"])
        #expect(try file.string("Application", "Id") == "com.example.dice")
        #expect(try file.string("Application", "Name") == "Dice")
        #expect(try file.string("Other", "Name") == "Other")
        #expect(try file.string("Application", "Empty")?.isEmpty == true)
        #expect(try file.list("Application", "List") == ["a", "b;c"])
        #expect(try file.list("Application", "Empty").isEmpty)
        #expect(try file.integer("Application", "Number") == -7)
        #expect(file.has("Application", "Empty") && !file.has("Application", "Idle") && !file.has("Nothing", "Id"))
    }

    @Test func whatIsNotThere() throws {
        let file = try file(text)
        #expect(try file.string("Application", "Absent") == nil)
        #expect(try file.string("Absent", "Id") == nil)
        #expect(try file.list("Application", "Absent").isEmpty)
        #expect(try file.integer("Application", "Absent") == nil)
        #expect(try self.file("").groups.isEmpty)
    }

    @Test func problemsSayWhere() throws {
        let file = try file(text)
        #expect(problem { try file.integer("Application", "Words") } == "dice.conf:9: Words: seven: not a whole number")
        #expect("\(file.problem("Application", "Name", "no"))" == "dice.conf:5: Name: no")
        // The same key of another section, and one that only begins like it.
        #expect("\(file.problem("Other", "Name", "no"))" == "dice.conf:12: Name: no")
        #expect("\(file.problem("Other", "Id", "no"))" == "dice.conf: Id: no")
    }

    @Test func whatNobodyKnowsIsAProblem() throws {
        let file = try file(text)
        let schema: [String: Set<String>] = ["Application": ["Id", "Name", "List", "Empty", "Number"]]
        #expect(
            file.unknown(besides: schema).map(\.description) == [
                "dice.conf:9: Words: unknown key", "dice.conf:11: [Other]: unknown section",
            ])
        #expect(try self.file("[A]\nB=1").unknown(besides: ["A": ["B"]]).isEmpty)
    }

    @Test func whatIsNoKeyFile() {
        #expect(problem { try file("[A]\nB=1\njust words\n") }.hasPrefix("dice.conf:3: "))
        #expect(problem { try file("\n# first\nB=1\n") }.hasPrefix("dice.conf:3: "))
        #expect(problem { try file("[A\n") }.hasPrefix("dice.conf:1: "))
    }

    @Test func filesThatCannotBeRead() throws {
        let directory = try TemporaryDirectory()
        let path = try directory.write("dice.conf", text)
        #expect(try KeyFile(path: path).groups == ["Application", "Other"])
        let absent = directory.path + "/absent.conf"
        #expect(problem { try KeyFile(path: absent) }.hasPrefix("\(absent): "))
        #expect(problem { try KeyFile(path: directory.path) }.hasPrefix("\(directory.path): "))
    }
}
