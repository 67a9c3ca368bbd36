// SPDX-License-Identifier: Apache-2.0
// Files that people write: manifests, the Info.plist of an app, policy, the daemon's configuration, and the simulator's
// scenarios. Whatever is in a file, it is taken or refused with its reasons; a refused one changes nothing, and one
// that is read again says the same.

import AccessoryCore
import AccessoryModel
import DBusKit
import Foundation
import KeyFiles
@testable import RadioSimulator
import SystemFiles

@testable import AdminFiles

/// A directory in memory, for readers that want a path; it goes with the process.
let scratch: String = {
    var template = Array("\(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp")/accessory-fuzz-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { found("no directory: errno \(errno)") }
    let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    scratchPath = strdup(path)
    atexit {
        if let scratchPath { try? FileManager.default.removeItem(atPath: String(cString: scratchPath)) }
    }
    return path
}()

// nonisolated(unsafe): written once, and read when the process ends.
nonisolated(unsafe) private var scratchPath: UnsafeMutablePointer<CChar>?

/// Puts the input into a file.
private func file(_ name: String, _ bytes: UnsafeRawBufferPointer) -> String {
    let path = "\(scratch)/\(name)"
    do { try SystemFile.write(Array(bytes), to: path) } catch { found("\(error)") }
    return path
}

func readManifest(_ bytes: UnsafeRawBufferPointer) {
    let path = file("com.example.dice.conf", bytes)
    let first = ManifestReader.read(path: path)
    expect(first == ManifestReader.read(path: path), "a manifest reads differently again")
    switch first {
    case .success(let manifest):
        expect(manifest.id.rawValue == "com.example.dice", "a manifest of another app: \(manifest.id)")
        expect(ShownName.problem(with: manifest.name) == nil, "a name that may not be shown: \(manifest.name)")
        expect(manifest.identities.executables.allSatisfy { $0.hasPrefix("/") }, "an executable without its path")
    case .failure(let problems):
        expect(!problems.list.isEmpty, "refused without a reason")
        for problem in problems.list { expect(problem.file == path && !"\(problem)".isEmpty, "a problem without its file") }
    }
}

func readPropertyList(_ bytes: UnsafeRawBufferPointer) {
    let path = file("Info.plist", bytes)
    func read() -> (AppManifest, [String]) {
        var manifest = AppManifest(id: AppID("com.example.dice")!, name: "Dice", source: path)
        var notes: [String] = []
        var files = RememberedFiles()
        InfoPlist.read(path, into: &manifest, &files) { notes.append($0) }
        return (manifest, notes)
    }
    let (manifest, notes) = read()
    let (again, notesAgain) = read()
    expect(manifest == again && notes == notesAgain, "a property list reads differently again")
    let isList = (try? PropertyList.read(Array(bytes))) != nil
    expect(isList || !notes.isEmpty, "what is no property list is taken")
}

func readPolicy(_ bytes: UnsafeRawBufferPointer) {
    let path = file("10-fuzz.conf", bytes)
    var policy = AccessPolicy()
    policy.refused = [AppID("com.example.before")!]
    let before = policy
    var files = RememberedFiles()
    let problems = PolicyReader.read(path: path, into: &policy, &files)
    if !problems.isEmpty { expect(policy == before, "a refused file has changed the policy") }
    expect(policy.refused.contains(AppID("com.example.before")!), "a file takes back what another says")
    var again = before
    expect(
        PolicyReader.read(path: path, into: &again, &files) == problems && again == policy,
        "a policy reads differently again")
    let (list, mistakes) = ClaimListReader.read(path: path, &files)
    expect((list == nil) != mistakes.isEmpty, "a claim list is neither taken nor refused")
    // Rules that were taken can be asked.
    guard problems.isEmpty else { return }
    for approval in policy.approvals {
        expect((-127...20).contains(approval.minimumRSSI), "a strength that no radio has: \(approval.minimumRSSI)")
    }
}

func readConfiguration(_ bytes: UnsafeRawBufferPointer) {
    let path = file("accessorysetupd.conf", bytes)
    do throws(KeyFileProblem) {
        let configuration = try Configuration(path: path)
        expect((0...3600).contains(configuration.linger), "linger \(configuration.linger)")
        expect((-100...0).contains(configuration.immediateRSSI), "strength \(configuration.immediateRSSI)")
        expect((1...15).contains(configuration.wifiInterface?.utf8.count ?? 1), "an interface's name that is none")
    } catch {
        expect(error.file == path && !error.reason.isEmpty, "refused without a reason")
    }
}

func readScenario(_ bytes: UnsafeRawBufferPointer) {
    do {
        let scenario = try Scenario(json: Array(bytes))
        let again = try Scenario(json: Array(bytes))
        expect(scenario == again, "a scenario reads differently again")
        let ids = scenario.accessories.map(\.id) + scenario.accessPoints.map(\.id) + scenario.awareServices.map(\.id)
        expect(Set(ids).count == ids.count, "an id that comes twice")
    } catch {
        expect(error is ScenarioProblem, "refused without its place: \(error)")
    }
}
