// SPDX-License-Identifier: Apache-2.0
// The keys and texts of Core Bluetooth that stand beside its classes: options of a manager, a scan and a connection,
// advertisement data, restored state, and the UUIDs of the descriptors that Bluetooth itself defines.

// MARK: Options of a manager

/// Whether the system alerts the person that Bluetooth is off. Accepted and ignored: there is no such alert on Linux.
///
/// Source: Apple's documentation of the constant.
public let CBCentralManagerOptionShowPowerAlertKey = "kCBInitOptionShowPowerAlert"
/// A `String` that names the manager for state restoration: see
/// ``CBCentralManagerDelegate/centralManager(_:willRestoreState:)``.
///
/// Source: Apple's documentation of the constant.
public let CBCentralManagerOptionRestoreIdentifierKey = "kCBInitOptionRestoreIdentifier"
/// Accepted and ignored.
public let CBCentralManagerOptionDeviceAccessForMedia = "kCBInitOptionDeviceAccessForMedia"

// MARK: Options of a scan

/// A `Bool`: whether to report each advertisement, rather than each peripheral once.
public let CBCentralManagerScanOptionAllowDuplicatesKey = "kCBScanOptionAllowDuplicates"
/// Accepted and ignored: BlueZ does not report solicited services.
public let CBCentralManagerScanOptionSolicitedServiceUUIDsKey = "kCBScanOptionSolicitedServiceUUIDs"

// MARK: Options of a connection

/// Accepted and ignored.
public let CBConnectPeripheralOptionNotifyOnConnectionKey = "kCBConnectOptionNotifyOnConnection"
/// Accepted and ignored.
public let CBConnectPeripheralOptionNotifyOnDisconnectionKey = "kCBConnectOptionNotifyOnDisconnection"
/// Accepted and ignored.
public let CBConnectPeripheralOptionNotifyOnNotificationKey = "kCBConnectOptionNotifyOnNotification"
/// An `NSNumber`: seconds before the first attempt.
public let CBConnectPeripheralOptionStartDelayKey = "kCBConnectOptionStartDelay"
/// Accepted and ignored.
public let CBConnectPeripheralOptionEnableTransportBridgingKey = "kCBConnectOptionEnableTransportBridging"
/// Accepted and ignored: there is no ANCS on Linux.
public let CBConnectPeripheralOptionRequiresANCS = "kCBConnectOptionRequiresANCS"
/// A `Bool`: whether a link that is lost is made again without the app.
public let CBConnectPeripheralOptionEnableAutoReconnect = "kCBConnectOptionEnableAutoReconnect"

// MARK: Restored state

/// The key of the peripherals whose links still stand, a `[CBPeripheral]`.
public let CBCentralManagerRestoredStatePeripheralsKey = "kCBRestoredPeripherals"
/// Never there: a scan ends with its process.
public let CBCentralManagerRestoredStateScanServicesKey = "kCBRestoredScanServices"
/// Never there: a scan ends with its process.
public let CBCentralManagerRestoredStateScanOptionsKey = "kCBRestoredScanOptions"

// MARK: Advertisement data

/// The key of the advertised name, a `String`.
public let CBAdvertisementDataLocalNameKey = "kCBAdvDataLocalName"
/// The key of the advertised services, a `[CBUUID]`.
public let CBAdvertisementDataServiceUUIDsKey = "kCBAdvDataServiceUUIDs"
/// The key of the advertised service data, a `[CBUUID: Data]`.
public let CBAdvertisementDataServiceDataKey = "kCBAdvDataServiceData"
/// The key of the advertised manufacturer data, a `Data`.
public let CBAdvertisementDataManufacturerDataKey = "kCBAdvDataManufacturerData"
/// The key of the advertised transmission power in dBm, an `NSNumber`.
public let CBAdvertisementDataTxPowerLevelKey = "kCBAdvDataTxPowerLevel"
/// The key of whether the accessory accepts connections, an `NSNumber`. Always true here: BlueZ does not report it.
///
/// Source: Apple's documentation of the constant.
public let CBAdvertisementDataIsConnectable = "kCBAdvDataIsConnectable"
/// Never there: Apple's own way of advertising.
public let CBAdvertisementDataOverflowServiceUUIDsKey = "kCBAdvDataOverflowServiceUUIDs"
/// Never present: BlueZ does not report solicited services.
public let CBAdvertisementDataSolicitedServiceUUIDsKey = "kCBAdvDataSolicitedServiceUUIDs"

// MARK: Descriptors

/// Its value is an `NSNumber`.
public let CBUUIDCharacteristicExtendedPropertiesString = "2900"
/// Its value is a `String`.
public let CBUUIDCharacteristicUserDescriptionString = "2901"
/// Its value is an `NSNumber`.
public let CBUUIDClientCharacteristicConfigurationString = "2902"
/// Its value is an `NSNumber`.
public let CBUUIDServerCharacteristicConfigurationString = "2903"
/// Its value is a `Data`.
public let CBUUIDCharacteristicFormatString = "2904"
/// Its value is a `Data`.
public let CBUUIDCharacteristicAggregateFormatString = "2905"
/// Its value is a `Data`.
public let CBUUIDCharacteristicValidRangeString = "2906"
/// The characteristic that holds an L2CAP channel's PSM.
public let CBUUIDL2CAPPSMCharacteristicString = "ABDD3056-28FA-441D-A470-55A75A52553A"
