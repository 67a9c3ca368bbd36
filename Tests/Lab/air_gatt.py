# SPDX-License-Identifier: Apache-2.0
"""An accessory's GATT server: the services of its scenario in bumble's server, the values that it notifies, and
another database in the place of the first when its services change."""

import asyncio
import contextlib
import struct

from bumble import att, core, gatt

PROPERTIES = {
    "read": gatt.Characteristic.READ,
    "write": gatt.Characteristic.WRITE,
    "write-without-response": gatt.Characteristic.WRITE_WITHOUT_RESPONSE,
    "notify": gatt.Characteristic.NOTIFY,
    "indicate": gatt.Characteristic.INDICATE,
}
PERMISSIONS = {
    "read": att.Attribute.READABLE,
    "write": att.Attribute.WRITEABLE,
    "write-without-response": att.Attribute.WRITEABLE,
    "encrypt-read": att.Attribute.READ_REQUIRES_ENCRYPTION,
    "encrypt-write": att.Attribute.WRITE_REQUIRES_ENCRYPTION,
    "encrypt-authenticated-read": att.Attribute.READ_REQUIRES_ENCRYPTION | att.Attribute.READ_REQUIRES_AUTHENTICATION,
    "encrypt-authenticated-write":
        att.Attribute.WRITE_REQUIRES_ENCRYPTION | att.Attribute.WRITE_REQUIRES_AUTHENTICATION,
}
# The flag that a request needs, and the error without it.
NEEDED = {
    att.Opcode.ATT_READ_REQUEST: (att.Attribute.READABLE, att.ATT_READ_NOT_PERMITTED_ERROR),
    att.Opcode.ATT_READ_BLOB_REQUEST: (att.Attribute.READABLE, att.ATT_READ_NOT_PERMITTED_ERROR),
    att.Opcode.ATT_WRITE_REQUEST: (att.Attribute.WRITEABLE, att.ATT_WRITE_NOT_PERMITTED_ERROR),
    att.Opcode.ATT_WRITE_COMMAND: (att.Attribute.WRITEABLE, att.ATT_WRITE_NOT_PERMITTED_ERROR),
    att.Opcode.ATT_PREPARE_WRITE_REQUEST: (att.Attribute.WRITEABLE, att.ATT_WRITE_NOT_PERMITTED_ERROR),
}


class Database:
    """The services of one accessory, in the server of `device`, after those that every server has."""

    def __init__(self, services, device, log):
        self._device = device
        self._server = device.gatt_server
        self._log = log
        self._common = len(self._server.attributes), len(self._server.services)
        self._shift = 0  # by how much handles are further than attributes before them
        self._server.next_handle = lambda: 1 + self._shift + len(self._server.attributes)
        self._pause = 0  # before each answer, in seconds
        self._answer, self._server.on_gatt_pdu = self._server.on_gatt_pdu, self._on_request
        self._services = [self._service(each) for each in services]
        for made, service in zip(self._services, services):
            made.included_services = [self._services[place] for place in service.includes]
        self._add()

    def _add(self):
        # As if they were there: bumble would put a service that another includes into the middle of that one.
        self._server.services += self._services
        for service in self._services:
            self._server.add_service(service)
        del self._server.services[-len(self._services):]
        for each in self._server.attributes:
            if isinstance(each, gatt.IncludedServiceDeclaration):
                each.value = self._include(each.service)

    @staticmethod
    def _include(service):
        """Core Specification 5.4, Vol 3, Part G, 3.2: only a short UUID is included; bumble cuts a long one off."""
        uuid = service.uuid.to_pdu_bytes()
        return struct.pack("<HH", service.handle, service.end_group_handle) + (uuid if len(uuid) == 2 else b"")

    def _on_request(self, connection, request):
        if (refusal := self._refusal(request)) and request.op_code == att.Opcode.ATT_WRITE_COMMAND:
            return
        if refusal:
            self._server.send_response(connection, att.ATT_Error_Response(
                request_opcode_in_error=request.op_code, attribute_handle_in_error=request.attribute_handle,
                error_code=refusal))
            return
        if request.op_code == att.Opcode.ATT_EXECUTE_WRITE_REQUEST:
            self._complete_parts(connection)
        if self._pause and request.op_code in att.ATT_REQUESTS:
            connection.cancel_on_disconnection(self._answer_later(connection, request))
        else:
            self._answer(connection, request)

    def _refusal(self, request):
        """Why the scenario's flags do not allow it: bumble does not look at its own permissions."""
        needed, refusal = NEEDED.get(request.op_code, (None, None))
        attribute = needed and self._server.get_attribute(request.attribute_handle)
        if isinstance(attribute, gatt.Characteristic) and not attribute.permissions & needed:
            return refusal
        return None

    def _complete_parts(self, connection):
        """A write at an offset keeps the bytes before the offset; bumble passes on the written bytes only."""
        parts = self._server.prepared_writes.get(connection, [])
        firsts = {}
        for handle, offset, _ in parts:
            firsts.setdefault(handle, offset)
        for handle, offset in firsts.items():
            if offset:
                parts.insert(0, (handle, 0, self._server.get_attribute(handle).value[:offset]))

    async def _answer_later(self, connection, request):
        await asyncio.sleep(self._pause)
        self._answer(connection, request)

    def change(self, pause):
        """The same services with other handles, which makes them others, and notifies the connected device. From now
        on it takes `pause` seconds to answer."""
        self._pause = pause
        attributes, services = self._common
        first, last = attributes + self._shift + 1, self._server.attributes[-1].handle
        del self._server.attributes[attributes:]
        del self._server.services[services:]
        self._server.attributes_by_handle.clear()
        self._shift = last - attributes
        self._add()
        changed = self._device.gatt_service.service_changed_characteristic
        handles = struct.pack("<HH", first, self._server.attributes[-1].handle)
        for connection in self._device.connections.values():
            connection.cancel_on_disconnection(self._device.indicate_subscriber(connection, changed, handles))

    def _service(self, service):
        return gatt.Service(service.uuid, [self._characteristic(each) for each in service.characteristics])

    def _characteristic(self, described):
        properties, permissions = gatt.Characteristic.Properties(0), att.Attribute.Permissions(0)
        for flag in described.flags:
            properties |= PROPERTIES.get(flag, gatt.Characteristic.Properties(0))
            permissions |= PERMISSIONS.get(flag, att.Attribute.Permissions(0))
            if flag.startswith("encrypt"):  # “encrypt-read” says “read” as well
                plain = "read" if flag.endswith("read") else "write"
                properties |= PROPERTIES[plain]
                permissions |= PERMISSIONS[plain]
        descriptors = [self._descriptor(each, described.uuid) for each in described.descriptors]
        made = gatt.Characteristic(described.uuid, properties, permissions, described.value, descriptors)
        self._log_writes(made, described.uuid)
        notifying = {}

        def on_subscription(connection, notify, indicate):
            if task := notifying.pop(connection, None):
                task.cancel()
            self._log(f"{described.uuid} {'subscribed' if notify or indicate else 'unsubscribed'}")
            if (notify or indicate) and described.notify_values:
                notifying[connection] = connection.cancel_on_disconnection(
                    self._notify(connection, made, described, notify))

        made.on(made.EVENT_SUBSCRIPTION, on_subscription)
        return made

    def _descriptor(self, described, characteristic):
        made = gatt.Descriptor(described.uuid, att.Attribute.READABLE | att.Attribute.WRITEABLE, described.value)
        self._log_writes(made, f"{characteristic}/{described.uuid}")
        return made

    def _log_writes(self, attribute, name):
        attribute.on(attribute.EVENT_WRITE, lambda _connection, value: self._log(f"{name} written: {value.hex()}"))

    async def _notify(self, connection, characteristic, described, notify):
        send = self._device.notify_subscriber if notify else self._device.indicate_subscriber
        with contextlib.suppress(core.BaseBumbleError):  # the link may end between two values
            while True:
                for value in described.notify_values:
                    await send(connection, characteristic, value)
                    await asyncio.sleep(described.notify_interval)
