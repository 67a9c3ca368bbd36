// SPDX-License-Identifier: Apache-2.0
// The simulator as a program of its own, for those who build it here. A package has it inside accessoryctl, under this
// name: each program has the Swift runtime in it again (Docs/Decisions/0017-without-foundation.md).

internal import ArgumentParser
internal import SimulatorProgram

@main
enum Main {
    static func main() { SimulatorProgram.main() }
}
