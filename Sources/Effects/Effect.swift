// SPDX-License-Identifier: Apache-2.0
// The daemon's effects on the world: every call out, every commit and every change of a file goes through here. In a
// debug build a test may list the effects, and may end the process, without any cleanup, before or after a given effect
// (Tests/Kills). In a release build all this is absent.

#if DEBUG
    internal import Glibc
    internal import Synchronization
#endif

/// One effect on the world, from just before it happens.
///
/// `ACCESSORY_EFFECTS=FILE` has a line for each appended to a file: its kind and its name.
/// `ACCESSORY_END="before 2 commit access"` ends the process before the second effect of that kind and name; `after`,
/// once it has happened, and for calls `answered`, when the answer has arrived and is not handled yet.
public struct Effect: Sendable {
    /// The kind of an effect.
    public enum Kind: String, Sendable {
        /// A call of a method of another program.
        case call
        /// A transaction of the store.
        case commit
        /// A file or a directory that is made, written, renamed or removed.
        case file
    }

    #if DEBUG
        private let kind: Kind
        private let name: String
        private let number: Int

        private struct End {
            let moment: Substring
            let number: Int
            let effect: Substring
        }

        private static let list: Int32? = getenv("ACCESSORY_EFFECTS").map {
            open($0, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        }

        private static let end: End? = getenv("ACCESSORY_END").flatMap {
            let parts = String(cString: $0).split(separator: " ", maxSplits: 2)
            guard parts.count == 3, let number = Int(parts[1]) else { return nil }
            return End(moment: parts[0], number: number, effect: parts[2])
        }

        private static let counts = Mutex<[String: Int]>([:])

        /// - Parameter name: the same in every run: the method or the file, without numbers that vary.
        public init(_ kind: Kind, _ name: @autoclosure () -> String) {
            self.kind = kind
            guard Self.list != nil || Self.end != nil else {
                self.name = ""
                number = 0
                return
            }
            let text = "\(kind.rawValue) \(name())"
            self.name = text
            number = Self.counts.withLock { counts in
                counts[text, default: 0] += 1
                return counts[text] ?? 0
            }
            if let list = Self.list {
                let line = text + "\n"
                _ = line.withCString { write(list, $0, strlen($0)) }
            }
            happens("before") {}
        }

        /// It has happened.
        ///
        /// - Parameter complete: ensures that before the process ends.
        public func done(_ complete: () -> Void = {}) { happens("after", complete) }

        /// The completion, or one that ends the process when the answer arrives.
        public func answering<Answer>(_ completion: @escaping (Answer) -> Void) -> (Answer) -> Void {
            guard Self.end?.moment == "answered", number > 0 else { return completion }
            return { answer in
                self.happens("answered") {}
                completion(answer)
            }
        }

        private func happens(_ moment: Substring, _ complete: () -> Void) {
            guard let end = Self.end, end.moment == moment, end.number == number, end.effect == name else { return }
            complete()
            kill(getpid(), SIGKILL)
        }
    #else
        /// Nothing.
        @inlinable @inline(__always)
        public init(_ kind: Kind, _ name: @autoclosure () -> String) {}

        /// Nothing.
        @inlinable @inline(__always)
        public func done(_ complete: () -> Void = {}) {}

        /// The completion.
        @inlinable @inline(__always)
        public func answering<Answer>(_ completion: @escaping (Answer) -> Void) -> (Answer) -> Void { completion }
    #endif
}
