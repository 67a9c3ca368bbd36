// SPDX-License-Identifier: Apache-2.0
// A fleet in one process: gateways with the agent's core and real connections, one operator, one broker, and faults
// from a seed. The driver, `run`, starts it (README.md).

import DBusKit
import FleetProtocol
import Glibc
import MQTTClient

guard let options = Options(CommandLine.arguments.dropFirst()) else {
    say("use the driver: Tests/FleetSimulation/run")
    exit(2)
}
var limit = rlimit()
getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
let needed = options.gateways * descriptorsOfClient + 100
guard limit.rlim_cur >= needed else {
    say("\(options.gateways) gateways need \(needed) open files: the limit is \(limit.rlim_cur) (ulimit -Hn)")
    exit(2)
}
// Lines of the driver may come to a closed pipe, and writes to closed sockets are errors.
signal(SIGPIPE, SIG_IGN)
let simulation = Simulation(options)
exit(simulation.run() ? 0 : 1)
