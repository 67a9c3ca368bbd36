// SPDX-License-Identifier: Apache-2.0
// Which names look like which, and that the table of Unicode's says so.

import AccessoryModel
import Testing

@testable import AccessoryCore

@Suite struct LookAlikesTests {
    private let one = AccessoryID("10B13483-8BEC-46AF-AC02-435758069F83")!
    private let other = AccessoryID("93DFB917-A589-4126-B67C-F50580C0AF4A")!

    @Test(arguments: [
        // Cyrillic, Greek, Armenian, Cherokee; whole words, and single letters.
        ("Front Door", "Frоnt Dооr"), ("Front Door", "Front Dοor"), ("cocoa", "сосоа"), ("Oven", "Օven"), ("Alarm", "Ꭺlarm"),
        // Full width, mathematics, ligatures, letters in circles.
        ("Dice", "Ｄｉｃｅ"), ("Dice", "𝐃𝐢𝐜𝐞"), ("Office", "Oﬃce"), ("Dice", "Ⓓice"),
        // Digits and letters, and letters that are two.
        ("Lock 1", "Lock l"), ("LOCK", "L0CK"), ("Lamp", "Larnp"), ("Bell", "Be||"),
        // Not seen, or hardly.
        ("Front Door", "Front\u{A0}Door"), ("Front Door", " Front  Door "), ("Dice", "Di\u{AD}ce"), ("Dice", "Di\u{200D}ce"),
        ("it’s", "it's"), ("a–b", "a-b"),
        // Other scripts among themselves.
        ("Замок", "3амок"), ("Ηλεκτρο", "Hλεκτρο"),
    ]) func looksLike(name: String, alike: String) {
        #expect(Skeleton.of(name) == Skeleton.of(alike))
        var names = LookAlikes()
        names.rename(one, from: nil, to: name)
        #expect(names.resembled(by: [alike], of: other) == name)
        #expect(names.resembled(by: ["Kettle", alike], of: other) == name)
        // Its own name, and the same name, need no mark.
        #expect(names.resembled(by: [alike], of: one) == nil)
        #expect(names.resembled(by: [name], of: other) == nil)
    }

    @Test(arguments: [
        ("Dice", "dice"), ("Dice", "Díce"), ("Dice 2", "Dice 3"), ("Лампа", "Lampa"), ("Küche", "Kuche"),
        ("Front Door", "FrontDoor"),
        ("Lock", "L0ck"), ("灯", "灯1"), ("🎲", "🎯"),
    ]) func looksDifferent(name: String, another: String) {
        var names = LookAlikes()
        names.rename(one, from: nil, to: name)
        #expect(names.resembled(by: [another], of: other) == nil)
    }

    @Test func aNameInEitherFormOfUnicodeIsOne() {
        var names = LookAlikes()
        names.rename(one, from: nil, to: "Ku\u{308}che")
        #expect(names.resembled(by: ["K\u{FC}che"], of: other) == nil)
    }

    @Test func namesComeAndGo() {
        var names = LookAlikes()
        #expect(names.resembled(by: ["Diсe"], of: other) == nil)
        names.rename(one, from: nil, to: "Dice")
        names.rename(other, from: nil, to: "Dice")
        #expect(names.resembled(by: ["Diсe"], of: other) == "Dice")
        names.rename(one, from: "Dice", to: "Lamp")
        #expect(names.resembled(by: ["Diсe"], of: other) == nil)
        #expect(names.resembled(by: ["Larnp"], of: other) == "Lamp")
        names.rename(one, from: "Lamp", to: nil)
        #expect(names.resembled(by: ["Larnp"], of: other) == nil)
    }

    /// The table is consistent: a skeleton is its own skeleton.
    @Test func aSkeletonIsItsOwn() {
        for value: UInt32 in 0x20..<0x20000 {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let skeleton = Skeleton.of(String(scalar))
            #expect(Skeleton.of(skeleton) == skeleton, "U+\(String(value, radix: 16))")
        }
    }

    /// Thousands of accessories, and more texts than are kept: each is found.
    @Test func manyNames() {
        var names = LookAlikes()
        for number in 0..<5_000 {
            names.rename(.random(), from: nil, to: "Lamp \(number)")
        }
        for number in 0..<1_000 { #expect(names.resembled(by: ["Lаmp \(number)"], of: other)?.hasPrefix("Lamp ") == true) }
    }
}
