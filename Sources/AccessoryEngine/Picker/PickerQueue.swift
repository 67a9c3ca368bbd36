// SPDX-License-Identifier: Apache-2.0
// Requests for a picker that wait (`waitForPicker`), such as those of services that start with the machine, before a
// person has opened a picker program: asked again whenever one may succeed, in the order in which they came.

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class PickerQueue {
    /// The answer to a request.
    typealias Answer = (Result<PickerRun, SetupError>) -> Void

    private struct Request {
        let session: Session
        let items: [DisplayItem]
        let settings: PickerSettings
        let answer: Answer
        var deadline: (any EngineTimer)?
    }

    private let pickers: Pickers
    private let clock: any EngineClock
    private let log: Logger
    private var waiting: [Request] = []
    private var isAskingAgain = false

    init(_ pickers: Pickers, _ news: News, _ clock: any EngineClock, _ log: Logger) {
        self.pickers = pickers
        self.clock = clock
        self.log = log
        news.listen { [weak self] in self?.heard($0) }
    }

    /// Shows a picker, now or as soon as one can be shown. `answer` is called exactly once.
    func show(_ session: Session, items: [DisplayItem], settings: PickerSettings, answer: @escaping Answer) {
        var request = Request(session: session, items: items, settings: settings, answer: answer)
        guard let obstacle = attempt(request) else { return }
        guard settings.waitForPicker > 0, mayPass(obstacle, session) else { return answer(.failure(obstacle)) }
        guard !waiting.contains(where: { $0.session.app.id == session.app.id }) else {
            return answer(.failure(SetupError(.pickerAlreadyActive, "ShowPicker: the app waits for a picker already")))
        }
        guard waiting.count < Limits.waitingRequests else {
            return answer(.failure(SetupError(.pickerRestricted, "ShowPicker: \(waiting.count) apps wait for a picker already")))
        }
        log.info("picker request waits", metadata: ["app": "\(session.app.id)", "reason": "\(obstacle.message)"])
        if settings.waitForPicker < .infinity {
            request.deadline = clock.after(settings.waitForPicker) { [weak self] in
                guard let self, let request = self.take(session) else { return }
                if let obstacle = self.attempt(request) { answer(.failure(obstacle)) }
            }
        }
        waiting.append(request)
    }

    /// The app calls off its request that waits.
    ///
    /// - Returns: whether one did.
    func callOff(_ session: Session, accepted: () -> Void) -> Bool {
        guard let request = take(session) else { return false }
        accepted()
        request.answer(.failure(SetupError(.userCancelled, "ShowPicker: the app called it off")))
        return true
    }

    private func take(_ session: Session) -> Request? {
        guard let index = waiting.firstIndex(where: { $0.session === session }) else { return nil }
        let request = waiting.remove(at: index)
        request.deadline?.cancel()
        return request
    }

    /// - Returns: why no picker can be shown; nil when it is shown, and answered.
    private func attempt(_ request: Request) -> SetupError? {
        do throws(SetupError) {
            try pickers.show(request.session, items: request.items, settings: request.settings) { request.answer(.success($0)) }
            return nil
        } catch {
            return error
        }
    }

    private func mayPass(_ obstacle: SetupError, _ session: Session) -> Bool {
        switch obstacle.code {
        case .pickerRestricted: true
        case .pickerAlreadyActive: pickers.run?.session !== session
        default: false
        }
    }

    private func heard(_ news: EngineNews) {
        guard !waiting.isEmpty else { return }
        switch news {
        case .sessionClosed(let session):
            take(session)?.answer(.failure(SetupError(.invalidated, "ShowPicker: the session was invalidated")))
        case .pickerAvailability, .pickerClosed, .bluetooth(.ready), .wifi(.ready), .policy: askAgain()
        default: break
        }
    }

    /// In the next turn of the loop: news comes in the middle of the change that it is about.
    private func askAgain() {
        guard !isAskingAgain else { return }
        isAskingAgain = true
        _ = clock.after(0) { [weak self] in
            guard let self else { return }
            self.isAskingAgain = false
            for request in self.waiting {
                let obstacle = self.attempt(request)
                if let obstacle, self.mayPass(obstacle, request.session) { continue }
                if self.take(request.session) != nil, let obstacle { request.answer(.failure(obstacle)) }
            }
        }
    }
}
