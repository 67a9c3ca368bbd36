// SPDX-License-Identifier: Apache-2.0
// Whose turn it is to show a picker, as there is one at a time. Requests that wait (`waitForPicker`), such as those of
// services that start with the machine, before a person has opened a picker program, are asked again whenever one may
// succeed: users in turn, and of each user its apps. Apps that do not wait and were refused because of another's picker
// come before apps that had one since, for a few seconds. An app whose picker the person has cancelled waits before
// its next one, whether it wants to or not. (Docs/Decisions/0031, 0037)

internal import AccessoryCore
internal import AccessoryModel
internal import Logging

final class PickerQueue {
    /// The answer to a request.
    typealias Answer = (Result<PickerRun, SetupError>) -> Void

    /// Opens a picker.
    typealias Opening = (_ accepted: (PickerRun) -> Void) throws(SetupError) -> Void

    private struct Request {
        let session: Session
        /// The method's name.
        let name: String
        let open: Opening
        let answer: Answer
        /// It has waited as long as the app lets it; only a pause holds it up.
        var isDue: Bool
        var deadline: (any EngineTimer)?
    }

    /// Counts of pickers at the time of the last one; none for never.
    private var shown = 0
    private var shownOfParty: [Party: Int] = [:]
    private var shownOfSeat: [Seat: Int] = [:]
    /// Refusals because of another's picker of apps that do not wait, in monotonic seconds.
    private var claims: [Seat: Double] = [:]

    /// Pickers whose apps and users are remembered.
    private static let remembered = 256

    private let services: EngineServices
    private let pickers: PickerCoordinator
    private var waiting: [Request] = []
    private var isAskingAgain = false
    /// Asks again when the first claim or pause ends.
    private var turn: (any EngineTimer)?

    init(_ services: EngineServices, _ pickers: PickerCoordinator) {
        self.services = services
        self.pickers = pickers
        services.publisher.listen { [weak self] in self?.react(to: $0) }
    }

    /// Shows a picker, now or as soon as one can be shown. `answer` is called exactly once.
    ///
    /// - Parameters:
    ///   - name: of the method.
    ///   - wait: seconds that the app lets it wait.
    func request(_ session: Session, _ name: String, wait: Double = 0, answer: @escaping Answer, open: @escaping Opening) {
        var request = Request(session: session, name: name, open: open, answer: answer, isDue: wait <= 0)
        let seat = Seat(session)
        // Requests that wait and whose turn is before it.
        if pickers.run == nil { serveWaiting { !self.precedes(seat, $0) } }
        guard let obstacle = attempt(request) else { return }
        guard mayWait(request, for: obstacle) else {
            recordRefusal(obstacle, session)
            return answer(.failure(obstacle))
        }
        guard !waiting.contains(where: { Seat($0.session) == seat }) else {
            return answer(.failure(SetupError(.pickerAlreadyActive, "\(name): the app is already waiting for a picker")))
        }
        let others = waiting.count(where: { $0.session.party == seat.party })
        guard waiting.count < Limits.waitingRequests, others < Limits.waitingRequestsPerUser else {
            return answer(
                .failure(
                    SetupError(
                        .pickerRestricted,
                        "\(name): \(waiting.count) requests are already waiting for a picker, \(others) from \(seat.party)")))
        }
        services.log.info("picker request queued", metadata: ["app": "\(session.app.id)", "reason": "\(obstacle.message)"])
        if !request.isDue, wait < .infinity {
            request.deadline = services.clock.after(wait) { [weak self] in
                guard let self, let index = self.waiting.firstIndex(where: { $0.session === session }) else { return }
                self.waiting[index].isDue = true
                self.serveWaiting { $0 == seat }
            }
        }
        waiting.append(request)
        askAgainInTurn()
    }

    /// The app calls off its request that waits.
    ///
    /// - Returns: whether one did.
    func callOff(_ session: Session, accepted: () -> Void) -> Bool {
        guard let request = dequeue(session) else { return false }
        accepted()
        request.answer(.failure(SetupError(.userCancelled, "\(request.name): the app cancelled it")))
        return true
    }

    private func dequeue(_ session: Session) -> Request? {
        guard let index = waiting.firstIndex(where: { $0.session === session }) else { return nil }
        let request = waiting.remove(at: index)
        request.deadline?.cancel()
        return request
    }

    /// - Returns: why no picker can be shown; nil when it is shown, and answered.
    private func attempt(_ request: Request) -> SetupError? {
        do throws(SetupError) {
            if let reason = reasonToWait(request.session, request.name) { throw reason }
            try request.open { request.answer(.success($0)) }
            return nil
        } catch {
            return error
        }
    }

    private func mayWait(_ request: Request, for obstacle: SetupError) -> Bool {
        let pause = pickers.pauses.reasonToWait(request.session, request.name, now: services.clock.uptime)
        if obstacle == pause { return true }
        switch obstacle.code {
        case .pickerRestricted: return !request.isDue
        case .pickerAlreadyActive: return !request.isDue && pickers.run?.session !== request.session
        default: return false
        }
    }

    // MARK: Turns

    /// Whether an app comes before another: its user had a picker less lately, or of one user the app had.
    private func precedes(_ one: Seat, _ other: Seat) -> Bool {
        let (users, others) = (shownOfParty[one.party, default: 0], shownOfParty[other.party, default: 0])
        guard one.party == other.party else { return users < others }
        return shownOfSeat[one, default: 0] < shownOfSeat[other, default: 0]
    }

    /// Why an app cannot have the picker although none is shown: others were refused because of its last one.
    private func reasonToWait(_ session: Session, _ request: String) -> SetupError? {
        guard pickers.run == nil else { return nil }
        let (seat, now) = (Seat(session), services.clock.uptime)
        claims = claims.filter { now < $0.value + Limits.pickerClaim }
        guard claims.keys.contains(where: { precedes($0, seat) }) else { return nil }
        return SetupError(.pickerAlreadyActive, "\(request): it is another app's turn after its earlier refusal")
    }

    private func recordRefusal(_ obstacle: SetupError, _ session: Session) {
        guard obstacle.code == .pickerAlreadyActive, pickers.run?.session !== session else { return }
        claims[Seat(session)] = services.clock.uptime
    }

    /// Asks again for requests that wait, in their turns.
    private func serveWaiting(where isMeant: (Seat) -> Bool = { _ in true }) {
        // Again and again the first in turn: a picker that is shown changes the order.
        var left = waiting.filter { isMeant(Seat($0.session)) }
        while let index = left.indices.min(by: { self.precedes(Seat(left[$0].session), Seat(left[$1].session)) }) {
            let request = left.remove(at: index)
            let obstacle = attempt(request)
            if let obstacle, mayWait(request, for: obstacle) { continue }
            if dequeue(request.session) != nil, let obstacle { request.answer(.failure(obstacle)) }
        }
        askAgainInTurn()
    }

    /// Requests wait for another's turn a few seconds at most, and for the end of their pause.
    private func askAgainInTurn() {
        turn?.cancel()
        turn = nil
        let now = services.clock.uptime
        var ends = waiting.compactMap { pickers.pauses.end(for: Seat($0.session)) } + claims.values.map { $0 + Limits.pickerClaim }
        // A claim list opens by a clock that may be set meanwhile.
        if let opening = waiting.compactMap({ services.registry.unattended(for: $0.session.app.id).opening }).min() {
            ends.append(now + min(Limits.claimListReview, Double(opening - services.clock.now)))
        }
        guard !waiting.isEmpty, let end = ends.filter({ $0 > now }).min() else { return }
        turn = services.clock.after(end - now) { [weak self] in self?.serveWaiting() }
    }

    private func react(to event: EngineEvent) {
        if case .pickerOpened(let run) = event { recordShown(run) }
        guard !waiting.isEmpty else { return }
        switch event {
        case .sessionClosed(let session):
            guard let request = dequeue(session) else { return }
            request.answer(.failure(SetupError(.invalidated, "\(request.name): the session was invalidated")))
        case .pickerAvailability, .pickerClosed, .bluetooth(.ready), .wifi(.ready), .policy, .mutedApps: askAgain()
        default: break
        }
    }

    private func recordShown(_ run: PickerRun) {
        let seat = Seat(run.session)
        shown += 1
        (shownOfParty[seat.party], shownOfSeat[seat], claims[seat]) = (shown, shown, nil)
        // A picker as long ago as this counts as none.
        let oldest = shown - Self.remembered
        shownOfParty = shownOfParty.filter { $0.value > oldest }
        shownOfSeat = shownOfSeat.filter { $0.value > oldest }
    }

    /// In the next turn of the loop: an event comes in the middle of the change that it is about.
    private func askAgain() {
        guard !isAskingAgain else { return }
        isAskingAgain = true
        _ = services.clock.after(0) { [weak self] in
            guard let self else { return }
            self.isAskingAgain = false
            self.serveWaiting()
        }
    }
}
