// SPDX-License-Identifier: Apache-2.0
// The probe's entry: lines of standard input go to the main queue, in order; with their end the app ends.

import Dispatch
import Foundation

let probe = CentralProbe()
probe.start()
Thread.detachNewThread {
    while let line = readLine() {
        DispatchQueue.main.async { probe.obey(line) }
    }
    DispatchQueue.main.async { exit(0) }
}
dispatchMain()
