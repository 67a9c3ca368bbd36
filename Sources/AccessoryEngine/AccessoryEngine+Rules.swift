// SPDX-License-Identifier: Apache-2.0
// The engine's requests about the admin's rules: policy, claim lists and manifests, access by them, the reasons why a
// device is not offered, and the audit trail.

public import AccessoryCore
public import AccessoryModel

extension AccessoryEngine {
    /// The admin's policy has changed: denied accessories are neither offered nor reached any more.
    public func setPolicy(_ new: AccessPolicy) {
        services.registry.setPolicy(new)
        pickers.runner?.policyChanged()
    }

    /// The entries of claim lists that are used up.
    public var claims: Claims { services.registry.claims }

    /// Why a claim list approves nothing now; nil when it does.
    public func obstacle(to list: ClaimList) -> String? { claims.obstacle(to: list, now: services.clock.now) }

    /// Manifests have changed: each app may use only accessories that its manifest declares.
    public func setManifests(_ manifests: [AppID: AppManifest]) { services.registry.setManifests(manifests) }

    // MARK: Access

    /// Whether an app may use an accessory now by a technology: its grant is switched on, stands and includes it, its
    /// manifest declares it, and no rule denies the accessory.
    public func mayUse(_ accessory: AccessoryID, _ app: AppID, by technology: Technology) -> Bool {
        services.registry.usable(accessory, to: app, by: technology) != nil
    }

    /// The accessories that an app may use now by Bluetooth.
    public func reachable(for app: AppID) -> [GrantedAccessory] {
        services.registry.ledger.accessories(of: app).compactMap {
            services.registry.usable($0.accessory.id, to: app, by: .bluetooth)
        }
    }

    // MARK: Reasons and the trail

    /// Looks around for some seconds with an app's items: those of its picker when it shows one, else `dryItems`; for
    /// an app with Wi-Fi also without items.
    ///
    /// - Throws: `InvalidRequest` without items, `PickerRestricted` when no radio could find any item.
    public func explain(
        _ app: AppManifest, dryItems: [DisplayItem], seconds: Double,
        completion: @escaping ([DisplayItem], [ExplainedDevice]) -> Void
    ) throws(SetupError) {
        try explanations.explain(app, dryItems: dryItems, seconds: seconds, completion: completion)
    }

    /// Records a line in the audit trail.
    public func record(
        _ event: AuditEntry.Event, app: AppID? = nil, accessory: AccessoryID? = nil, by requester: Requester, why: String
    ) {
        services.audit.record(event, app: app, accessory: accessory, by: requester, why: why)
    }

    /// Writes the lines that wait for the disk: before the daemon ends.
    public func flushAudit() { services.audit.flush() }

    /// The trail's lines, in pages of `count`, 1 or more.
    ///
    /// - Throws: the store's error.
    public func auditPages(_ query: AuditQuery, of count: Int) throws -> AuditPages { try services.audit.pages(query, of: count) }
}
