// SPDX-License-Identifier: Apache-2.0
// The one thread of the Swift modules in an app's process. A process without a manager and without a session has no
// thread and no connection, and one at rest has no wakeups.

package import DBusKit

/// Owns the main loop, and the parts of the modules that live on it.
package final class AppRuntime {
    /// Started by the first manager or session; lives as long as the process.
    fileprivate static let thread = Result { () throws(BusError) in
        try LoopThread(name: "accessorysetup") { AppRuntime($0) }
    }

    private let loop: MainLoop
    private var parts: [ObjectIdentifier: any AppRuntimePart] = [:]

    private init(_ loop: MainLoop) {
        self.loop = loop
    }

    fileprivate func part<Part: AppRuntimePart>() -> Part {
        if let part = parts[ObjectIdentifier(Part.self)] as? Part { return part }
        let part = Part(loop)
        parts[ObjectIdentifier(Part.self)] = part
        return part
    }
}

/// A module's one object on the runtime's thread.
package protocol AppRuntimePart: AnyObject, SendableMetatype {
    /// Called on the thread, before the first job.
    init(_ loop: MainLoop)
}

extension AppRuntimePart {
    /// Runs `job` on the thread, after all jobs before it.
    ///
    /// - Throws: when the system has no thread or descriptor left.
    package static func perform(_ job: @escaping @Sendable (Self) -> Void) throws(BusError) {
        try AppRuntime.thread.get().perform { job($0.part()) }
    }
}
