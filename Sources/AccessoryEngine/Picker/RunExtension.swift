// SPDX-License-Identifier: Apache-2.0
// The app's extension in one picker run: its connection, from the start of the search until it is to stop, and the time
// that it has to begin.

internal import AccessoryModel

final class RunExtension {
    private enum State {
        /// Not started, or a run without an extension.
        case idle((any ExtensionLink)?)
        case running(any ExtensionLink, deadline: any EngineTimer)
        case stopped
    }

    private var state: State
    private let clock: any EngineClock

    /// - Parameter link: nil for a run without an extension.
    init(_ link: (any ExtensionLink)?, _ clock: any EngineClock) {
        state = .idle(link)
        self.clock = clock
    }

    /// - Parameter onReport: gets its reports, and its end.
    func start(_ settings: PickerSettings, onReport: @escaping (ExtensionReport) -> Void) {
        guard case .idle(let link?) = state else { return }
        let deadline = clock.after(Limits.extensionAnswer) {
            onReport(
                .ended(
                    SetupError(
                        .connectionFailed, "extension: no answer to StartDiscovery within \(Int(Limits.extensionAnswer)) s")))
        }
        state = .running(link, deadline: deadline)
        link.start(settings) { [weak self] report in
            if report == .started { self?.started() }
            onReport(report)
        }
    }

    private func started() { if case .running(_, let deadline) = state { deadline.cancel() } }

    /// - Returns: whether it had not been stopped before.
    @discardableResult func stop() -> Bool {
        defer { state = .stopped }
        switch state {
        case .idle(let link):
            link?.stop()
            return link != nil
        case .running(let link, let deadline):
            deadline.cancel()
            link.stop()
            return true
        case .stopped: return false
        }
    }
}
