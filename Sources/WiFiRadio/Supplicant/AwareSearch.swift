// Wi-Fi Aware by wpa_supplicant's unsynchronized service discovery (USD), where it was built with it: the methods are looked for on
// the interface's object, and subscriptions live while somebody looks for services.

internal import AccessoryModel
internal import DBusKit
internal import Logging

final class AwareSearch {
    var onServices: (([AwareService]) -> Void)?
    var onChange: (() -> Void)?
    var isSettled: Bool { true }

    init(_ supplicant: Supplicant, log: Logger) {}

    func obstacle(on interface: String?) -> String? {
        "the Wi-Fi service of this machine does not offer Wi-Fi Aware (wpa_supplicant has no NANSubscribe)"
    }
    func use(_ interface: String?) {}
    func look(for services: [WiFiAware]) {}
}
