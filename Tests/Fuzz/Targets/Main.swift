// SPDX-License-Identifier: Apache-2.0
// The entry of the fuzzers: all targets are one program, which is built once, and FUZZ_TARGET says which one runs.
// libFuzzer brings main, and the inputs (Tests/Fuzz/README.md).

import Glibc

/// The effect of each target on an input.
private let targets: [String: @Sendable (UnsafeRawBufferPointer) -> Void] = [
    "adverts": readAdvert,
    "bluez": sendToRadio,
    "aware": hearAware,
    "central": sendToCentral,
    "configuration": readConfiguration,
    "daemon": callDaemon,
    "door": talkToDoor,
    "fleet": listenToBroker,
    "items": decodeItems,
    "manifests": readManifest,
    "module": sendToModule,
    "names": matchNames,
    "plists": readPropertyList,
    "policies": readPolicy,
    "rules": readMatchRule,
    "scenarios": readScenario,
    "store": openStore,
    "view": sendToView,
    "wifi": sendToWiFi,
]

private let target: @Sendable (UnsafeRawBufferPointer) -> Void = {
    let name = getenv("FUZZ_TARGET").map { String(cString: $0) } ?? ""
    guard let target = targets[name] else {
        say("FUZZ_TARGET is to be one of: \(targets.keys.sorted().joined(separator: " "))")
        exit(2)
    }
    return target
}()

/// Swift's package manager wants a program's entry to be the module's own; libFuzzer's is not asked.
@_cdecl("fuzz_main")
public func start(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> CInt {
    var (count, arguments) = (count, arguments)
    return runDriver(&count, &arguments, testOneInput)
}

@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ count: UnsafeMutablePointer<CInt>, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ test: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// An input.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    target(UnsafeRawBufferPointer(start: start, count: count))
    expectNoDescriptors()
    return 0
}

/// The lowest free descriptor after the first input.
///
/// nonisolated(unsafe): libFuzzer calls its entry from one thread, and no other thread has it.
nonisolated(unsafe) private var firstFree: CInt?

/// Nothing that an input has opened stays open. The other end's threads may still be closing theirs.
private func expectNoDescriptors() {
    let free = dup(2)
    close(free)
    let first = firstFree ?? free
    firstFree = first
    expect(
        free >= 0 && free < first + 128,
        "\(free) descriptors are open, and \(first) were after the first input: \((free - 8..<free).map(file).joined(separator: " "))"
    )
}

/// The file of a descriptor, as the kernel names it.
private func file(_ descriptor: CInt) -> String {
    var text = [UInt8](repeating: 0, count: 256)
    let count = readlink("/proc/self/fd/\(descriptor)", &text, text.count)
    return "\(descriptor):" + String(decoding: text.prefix(max(count, 0)), as: UTF8.self)
}

private func say(_ text: String) {
    let line = Array((text + "\n").utf8)
    _ = write(2, line, line.count)
}

/// A property does not hold. Ends the process on purpose: libFuzzer keeps the input that did it.
func found(_ what: String) -> Never {
    say("FOUND: \(what)")
    abort()
}

/// Reports `what` as a finding unless the condition holds.
func expect(_ holds: Bool, _ what: @autoclosure () -> String) {
    if !holds { found(what()) }
}
