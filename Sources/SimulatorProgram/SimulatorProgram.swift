// SPDX-License-Identifier: Apache-2.0
// The command line of the simulator.

public import ArgumentParser
internal import Logging

/// The command `accessory-sim`.
public struct SimulatorProgram: ParsableCommand {
    public static let configuration = CommandConfiguration(
        commandName: "accessory-sim",
        abstract: "Simulated Bluetooth and Wi-Fi accessories, served as org.bluez and Wi-Fi services on a private bus.",
        subcommands: [Serve.self, Run.self], defaultSubcommand: Serve.self)

    public init() {}
}

extension Logger.Level: @retroactive ExpressibleByArgument {}
