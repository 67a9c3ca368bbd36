# SPDX-License-Identifier: Apache-2.0
"""The lab's radio: controllers of bumble's on one simulated link, and /dev/vhci, through which the guest's kernel sees
one as its adapter. This module changes bumble's controller where a real kernel fails on it."""

import asyncio
import os
import struct

from bumble import att, controller, core, hci, l2cap, link, smp

CONNECTION_TIMEOUT = hci.HCI_ErrorCode.CONNECTION_TIMEOUT_ERROR

# Event types of an advertising report, Core Specification 5.4, Vol 4, Part E, 7.7.65.2.
CONNECTABLE, SCANNABLE, NOT_CONNECTABLE, SCAN_RESPONSE = 0x00, 0x02, 0x03, 0x04


def _leave_unwritten(kind):
    """bumble writes each packet as text at each layer, for a log that is never kept, which is most of its work with one."""
    kind.__str__ = object.__repr__
    for each in kind.__subclasses__():
        _leave_unwritten(each)


for _packet in (hci.HCI_Packet, l2cap.L2CAP_PDU, l2cap.L2CAP_Control_Frame, att.ATT_PDU, smp.SMP_Command):
    _leave_unwritten(_packet)


class AirLink(link.LocalLink):
    """The ether. A packet to an absent receiver is lost, as on a real radio, instead of an exception."""

    def send_acl_data(self, sender_controller, destination_address, transport, data):
        # bumble takes the sender's current random address for the source, which is wrong for a public one and for
        # an address that has rotated since the connection was made.
        connection = sender_controller.le_connections.get(destination_address)
        receiver = self.find_le_controller(destination_address)
        if connection is not None and receiver is not None:
            asyncio.get_running_loop().call_soon(
                receiver.on_link_acl_data, connection.self_address, transport, data)

    def send_ll_control_pdu(self, sender_address, receiver_address, packet):
        try:
            super().send_ll_control_pdu(sender_address, receiver_address, packet)
        except core.InvalidArgumentError:
            pass


class AirController(controller.Controller):
    """A Bluetooth LE controller without features that bumble announces but does not implement: with link-layer privacy the kernel
    waits for an event that never comes and stalls; extended and periodic advertising would change its commands."""

    le_features = controller.Controller.le_features & ~(
        hci.LeFeatureMask.LL_PRIVACY
        | hci.LeFeatureMask.LE_EXTENDED_ADVERTISING
        | hci.LeFeatureMask.LE_PERIODIC_ADVERTISING
    )

    def drop_links(self, reason=CONNECTION_TIMEOUT):
        """Ends all connections the way a radio does: both sides notice that the other is silent."""
        for connection in list(self.le_connections.values()):
            peer = self.link.find_le_controller(connection.peer_address)
            for side, address in ((self, connection.peer_address), (peer, connection.self_address)):
                if side is not None and (half := side.le_connections.get(address)):
                    side.on_le_disconnected(half, reason)

    def on_link_acl_data(self, sender_address, transport, data):
        if sender_address in self.le_connections:  # else the link has just gone
            super().on_link_acl_data(sender_address, transport, data)


class AdapterController(AirController):
    """An adapter of the machine under test."""

    def __init__(self, air_link, address, gain, on_discovery):
        super().__init__("adapter", link=air_link, public_address=hci.Address(address, hci.Address.PUBLIC_DEVICE_ADDRESS))
        self._gain = gain
        self._on_discovery = on_discovery
        self._connecting = None
        self._reported = set()

    @property
    def listening(self):
        return self.le_scan_enable or self.pending_le_connection is not None

    def on_hci_le_set_scan_enable_command(self, command):
        starts = bool(command.le_scan_enable) and not self.le_scan_enable
        result = super().on_hci_le_set_scan_enable_command(command)
        self._reported.clear()
        if starts and self.le_scan_type == 1:
            self._on_discovery()
        return result

    def on_hci_le_create_connection_cancel_command(self, _command):
        """bumble answers but neither cancels nor says so, and the kernel then waits for ever."""
        pending, self.pending_le_connection = self.pending_le_connection, None
        if pending is None:
            return hci.HCI_StatusReturnParameters(hci.HCI_ErrorCode.COMMAND_DISALLOWED_ERROR)
        self.send_soon(hci.HCI_LE_Connection_Complete_Event(
            status=hci.HCI_ErrorCode.UNKNOWN_CONNECTION_IDENTIFIER_ERROR, connection_handle=0, role=hci.Role.CENTRAL,
            peer_address_type=pending.peer_address_type, peer_address=pending.peer_address, connection_interval=0,
            peripheral_latency=0, supervision_timeout=0, central_clock_accuracy=0))
        return hci.HCI_StatusReturnParameters(hci.HCI_ErrorCode.SUCCESS)

    def send_soon(self, packet):
        """Sends an event after the answer to the command that is being handled."""
        asyncio.get_running_loop().call_soon(self.send_hci_packet, packet)

    def hear(self, address, rssi, connectable, data, scan_response, prepare):
        """An advert is on the air. `prepare` readies its sender for a connection, if the kernel wants one."""
        # 127 says that the signal strength is unknown.
        rssi = rssi if rssi == 127 else min(max(rssi + self._gain, -127), 20)
        if self.le_scan_enable and not self._is_duplicate(address, rssi, data, scan_response):
            kind = CONNECTABLE if connectable else NOT_CONNECTABLE if scan_response is None else SCANNABLE
            self._report(kind, address, rssi, data)
            # The kernel holds a scannable advert back until the scan response is there: send even an empty one.
            if self.le_scan_type == 1 and kind != NOT_CONNECTABLE:
                self._report(SCAN_RESPONSE, address, rssi, scan_response or b"")
        pending = self.pending_le_connection
        if connectable and pending is not None and self._connecting is None and pending.peer_address == address:
            self._connecting = asyncio.ensure_future(self._connect(pending, address, prepare))

    def forget(self, address):
        """Its sender falls silent, or sends other adverts: its adverts after that are new."""
        self._reported = {each for each in self._reported if each[0] != address}

    def _is_duplicate(self, *advert):
        """Whether the kernel asked not to hear it again, as it does in a discovery. Controllers differ in the definition of
        a duplicate; here it is an unchanged advert with an unchanged signal strength. Without that ten adverts a second from each of
        sixteen accessories are more than an emulated bluetoothd reads, and it answers calls only when it has read all."""
        if not self.filter_duplicates:
            return False
        known = advert in self._reported
        self._reported.add(advert)
        return known

    async def _connect(self, pending, address, prepare):
        try:
            await prepare()
            if self.pending_le_connection is pending:  # not cancelled meanwhile
                self.create_le_connection(address)
        finally:
            self._connecting = None

    def _report(self, kind, address, rssi, data):
        # Built by hand: bumble's own carries a fixed signal strength and repeats the advert as the scan response.
        body = struct.pack("<BBBB", 0x02, 1, kind, address.address_type) + bytes(address)
        body += bytes([len(data)]) + data + struct.pack("<b", rssi)
        self.hci_sink.on_packet(bytes([0x04, 0x3E, len(body)]) + body)


class Vhci:
    """The kernel's end of the adapter. Opening it plugs the adapter in, closing it pulls it out."""

    def __init__(self):
        self._descriptor = os.open("/dev/vhci", os.O_RDWR | os.O_NONBLOCK)
        os.write(self._descriptor, b"\xff\x00")  # vendor packet: create a primary controller
        self._controller = None

    def connect(self, adapter):
        self._controller = adapter
        adapter.set_packet_sink(self)
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def _read(self):
        packet = os.read(self._descriptor, 4096)
        if packet and packet[0] != 0xFF:  # the answer to the vendor packet needs no handling
            self._controller.on_packet(packet)

    def on_packet(self, packet):
        if self._descriptor is not None:
            os.write(self._descriptor, packet)

    def close(self):
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = None
