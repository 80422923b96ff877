# SPDX-License-Identifier: GPL-2.0
"""What netlink clients do, replayed message by message: one datagram is read at a time."""

import contextlib
import struct

import ktap
import nbd_netlink as nl
import nbd_server
import waiting
from block_device import BlockDevice

SIZE_BYTES = 8 << 20
NETLINK_GET_STRICT_CHK = 12

SCALARS = {
    "size": nl.ATTR_SIZE_BYTES,
    "block_size": nl.ATTR_BLOCK_SIZE_BYTES,
    "timeout": nl.ATTR_TIMEOUT,
    "server_flags": nl.ATTR_SERVER_FLAGS,
    "client_flags": nl.ATTR_CLIENT_FLAGS,
    "dead": nl.ATTR_DEAD_CONN_TIMEOUT,
}


class Client:
    """A netlink client: its header version, whether it flags nests and asks for ACKs."""

    def __init__(self, version=0, flagged=False, ack=True, strict=False):
        self.netlink = nl.Netlink()
        self.version, self.flagged, self.ack = version, flagged, ack
        if strict:
            self.netlink.sock.setsockopt(nl.SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1)
        self.server = nbd_server.Server()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        """Leave nothing attached, also after a failure."""
        if kind:
            for index, connected in self.netlink.status().items():
                if connected:
                    with contextlib.suppress(OSError):
                        self.netlink.disconnect(index)
        self.server.hang_up()
        self.netlink.close()

    def attributes(self, **settings):
        """Attributes in the order given; sockets=N takes new connections of the server."""
        payload = b""
        for name, value in settings.items():
            if name == "index":
                payload += nl.u32(nl.ATTR_INDEX, value)
            elif name == "backend":
                payload += nl.attribute(nl.ATTR_BACKEND_IDENTIFIER, value.encode() + b"\0")
            elif name == "sockets":
                numbers = [sock.fileno() for sock in value]
                payload += nl.socket_list(numbers, flagged=self.flagged)
            else:
                payload += nl.u64(SCALARS[name], value)
        return payload

    def send(self, command, ack=None, **settings):
        """Send one request; the client's descriptors are closed right after."""
        sockets = [self.server.unix_connection() for _ in range(settings.get("sockets", 0))]
        if sockets:
            settings["sockets"] = sockets
        flags = nl.NLM_F_ACK if (self.ack if ack is None else ack) else 0
        payload = self.attributes(**settings)
        self.netlink.send(self.netlink.family, command, payload, flags, self.version)
        for sock in sockets:
            sock.close()

    def datagram(self):
        """The next datagram: an errno (0 for an ACK), or (command, {attribute: bytes})."""
        (kind, _, _, body), = self.netlink.receive()
        if kind == nl.NLMSG_ERROR:
            return -struct.unpack_from("=i", body)[0]
        return body[0], dict(nl.parse(body[4:]))

    def ask(self, command, ack=None, **settings):
        """Send, and read one datagram."""
        self.send(command, ack, **settings)
        return self.datagram()

    def connect(self, **settings):
        """CONNECT of a client that reads the index from the first datagram; gives the device."""
        answer = self.ask(nl.CONNECT, **settings)
        ktap.true(isinstance(answer, tuple), f"a reply comes first, not errno {answer}")
        command, attributes = answer
        ktap.equal((command, list(attributes)), (nl.CONNECT, [nl.ATTR_INDEX]), "reply")
        if self.ack:
            ktap.equal(self.datagram(), 0, "the ACK")
        return BlockDevice(struct.unpack("=I", attributes[nl.ATTR_INDEX])[0])

    def acknowledged(self, command, **settings):
        """A request that is answered by its ACK alone."""
        ktap.equal(self.ask(command, ack=True, **settings), 0, "the ACK")

    def refused(self, number, command, **settings):
        ktap.equal(self.ask(command, **settings), number, "errno")

    def status(self, **settings):
        """STATUS as {index: connected}, read inside DEVICE_LIST; the ACK is read too."""
        command, attributes = self.ask(nl.STATUS, **settings)
        ktap.equal(command, nl.STATUS, "command of the reply")
        if self.ack:
            ktap.equal(self.datagram(), 0, "the ACK")
        items = [dict(nl.parse(item)) for _, item in nl.parse(attributes[nl.ATTR_DEVICE_LIST])]
        return {struct.unpack("=I", item[1])[0]: item[2][0] for item in items}

    def hang_up(self):
        self.server.hang_up()
        ends = self.server.connections
        waiting.until(lambda: all(end.ended_by_peer.is_set() for end in ends), "hung up")

    def disconnect(self, device, **settings):
        self.acknowledged(nl.DISCONNECT, index=device.index, **settings)
        device.wait_free()
