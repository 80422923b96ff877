# SPDX-License-Identifier: GPL-2.0
"""The nbd generic netlink family, bare: own encoder, so that broken messages can be made too.

Numbers from include/uapi/linux/{netlink,genetlink,nbd-netlink}.h.
"""

import errno
import os
import socket
import struct

NETLINK_GENERIC = 16
SOL_NETLINK = 270
NETLINK_ADD_MEMBERSHIP = 1
NETLINK_CAP_ACK = 10
NETLINK_EXT_ACK = 11

NLMSG_ERROR = 2
NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_DUMP = 0x300
NLM_F_CAPPED = 0x100
NLM_F_ACK_TLVS = 0x200
NLA_F_NESTED = 0x8000
NLA_TYPE_MASK = 0x3FFF
NLMSGERR_ATTR_MSG = 1
NLMSGERR_ATTR_OFFS = 2
NLMSGERR_ATTR_MISS_TYPE = 5

GENL_ID_CTRL = 0x10
CTRL_CMD_GETFAMILY = 3
CTRL_ATTR_FAMILY_ID = 1
CTRL_ATTR_FAMILY_NAME = 2
CTRL_ATTR_VERSION = 3
CTRL_ATTR_MCAST_GROUPS = 7

CONNECT = 1
DISCONNECT = 2
RECONFIGURE = 3
LINK_DEAD = 4
STATUS = 5

ATTR_INDEX = 1
ATTR_SIZE_BYTES = 2
ATTR_BLOCK_SIZE_BYTES = 3
ATTR_TIMEOUT = 4
ATTR_SERVER_FLAGS = 5
ATTR_CLIENT_FLAGS = 6
ATTR_SOCKETS = 7
ATTR_DEAD_CONN_TIMEOUT = 8
ATTR_DEVICE_LIST = 9
ATTR_BACKEND_IDENTIFIER = 10

CFLAG_DESTROY_ON_DISCONNECT = 1 << 0
CFLAG_DISCONNECT_ON_CLOSE = 1 << 1


def attribute(kind, payload):
    """One attribute, padded to four bytes."""
    head = struct.pack("=HH", 4 + len(payload), kind)
    return head + payload + bytes(-len(payload) % 4)


def u32(kind, value):
    return attribute(kind, struct.pack("=I", value))


def u64(kind, value):
    return attribute(kind, struct.pack("=Q", value))


def nest(kind, *children, flagged=True):
    return attribute(kind | (NLA_F_NESTED if flagged else 0), b"".join(children))


def socket_list(descriptors, flagged=True):
    """ATTR_SOCKETS with one item for each file descriptor."""
    items = [nest(1, u32(1, number), flagged=flagged) for number in descriptors]
    return nest(ATTR_SOCKETS, *items, flagged=flagged)


def parse(data):
    """The attributes of a message as a list of (type, payload), in order."""
    found = []
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found.append((kind & NLA_TYPE_MASK, data[4:length]))
        data = data[(length + 3) & ~3 :]
    return found


class NetlinkError(OSError):
    """A refusal by the kernel, with what its extended acknowledgement says."""

    def __init__(self, number, extended):
        super().__init__(number, os.strerror(number))
        self.message = _text(extended)
        missing = extended.get(NLMSGERR_ATTR_MISS_TYPE)
        self.missing_attribute = struct.unpack("=I", missing)[0] if missing else None
        offset = extended.get(NLMSGERR_ATTR_OFFS)
        self.offset_bytes = struct.unpack("=I", offset)[0] if offset else None


class Netlink:
    """A generic netlink socket bound to the nbd family. Not for use by two threads."""

    def __init__(self):
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        self.sock.bind((0, 0))
        for option in (NETLINK_CAP_ACK, NETLINK_EXT_ACK):
            self.sock.setsockopt(SOL_NETLINK, option, 1)
        self.sequence = 0
        self.warning = ""  # what the last acknowledgement had to say
        self._resolve()

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _resolve(self):
        name = attribute(CTRL_ATTR_FAMILY_NAME, b"nbd\0")
        replies = self.transact(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, name)
        attributes = dict(parse(replies[0][1]))
        self.family = struct.unpack("=H", attributes[CTRL_ATTR_FAMILY_ID])[0]
        self.version = struct.unpack("=I", attributes[CTRL_ATTR_VERSION])[0]
        self.groups = {}
        for _, entry in parse(attributes.get(CTRL_ATTR_MCAST_GROUPS, b"")):
            group = dict(parse(entry))
            self.groups[group[1].rstrip(b"\0").decode()] = struct.unpack("=I", group[2])[0]

    def transact(self, family, command, payload, flags=NLM_F_ACK, version=1):
        """Send one request, read until its ACK or error; replies as (command, bytes).

        The order in which reply and ACK came is kept: replies after the ACK are not
        waited for, so a driver that sent the ACK first would lose them.
        """
        self.send(family, command, payload, flags, version)
        replies = []
        while True:
            for kind, message_flags, sequence, body in self.receive():
                if sequence != self.sequence:
                    continue
                if kind == NLMSG_ERROR:
                    extended = _raise_for(message_flags, body)
                    self.warning = _text(extended)
                    return replies
                replies.append((body[0], body[4:]))

    def send(self, family, command, payload, flags=NLM_F_ACK, version=1):
        self.sequence += 1
        body = struct.pack("=BBH", command, version, 0) + payload
        head = struct.pack(
            "=IHHII", 16 + len(body), family, NLM_F_REQUEST | flags, self.sequence, 0
        )
        self.sock.send(head + body)

    def receive(self):
        """The messages of one datagram: (type, flags, sequence, body)."""
        data = self.sock.recv(1 << 17)
        while len(data) >= 16:
            length, kind, flags, sequence, _ = struct.unpack_from("=IHHII", data)
            yield kind, flags, sequence, data[16:length]
            data = data[(length + 3) & ~3 :]

    def request(self, command, payload=b"", flags=NLM_F_ACK, version=1):
        return self.transact(self.family, command, payload, flags, version)

    def connect(self, sockets, size_bytes, index=None, **settings):
        """CONNECT; returns the index that the kernel chose. Settings as in options()."""
        payload = options(index, size_bytes=size_bytes, **settings)
        payload += socket_list([sock.fileno() for sock in sockets])
        replies = self.request(CONNECT, payload)
        if len(replies) != 1 or replies[0][0] != CONNECT:
            raise AssertionError(f"CONNECT answered with {replies!r}")
        return struct.unpack("=I", dict(parse(replies[0][1]))[ATTR_INDEX])[0]

    def disconnect(self, index, payload=b""):
        self.request(DISCONNECT, u32(ATTR_INDEX, index) + payload)

    def reconfigure(self, index, sockets=None, **settings):
        payload = options(index, **settings)
        if sockets is not None:
            payload += socket_list([sock.fileno() for sock in sockets])
        self.request(RECONFIGURE, payload)

    def status(self, index=None):
        """STATUS as {index: connected}."""
        payload = b"" if index is None else u32(ATTR_INDEX, index)
        replies = self.request(STATUS, payload)
        if len(replies) != 1 or replies[0][0] != STATUS:
            raise AssertionError(f"STATUS answered with {replies!r}")
        devices = {}
        for _, item in parse(dict(parse(replies[0][1]))[ATTR_DEVICE_LIST]):
            fields = dict(parse(item))
            devices[struct.unpack("=I", fields[1])[0]] = bool(fields[2][0])
        return devices

    def join_events(self):
        """Become a member of nbd_mc_group."""
        self.sock.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, self.groups["nbd_mc_group"])

    def event(self, timeout_s):
        """The next event as (command, {attribute: payload}), or None."""
        self.sock.settimeout(timeout_s)
        try:
            for _, _, _, body in self.receive():
                return body[0], dict(parse(body[4:]))
        except TimeoutError:
            return None
        finally:
            self.sock.settimeout(None)


def options(
    index=None,
    size_bytes=None,
    block_size_bytes=None,
    timeout_s=None,
    dead_conn_timeout_s=None,
    server_flags=None,
    client_flags=None,
    backend=None,
):
    """The scalar attributes of CONNECT and RECONFIGURE; None leaves one out."""
    payload = b"" if index is None else u32(ATTR_INDEX, index)
    for kind, value in (
        (ATTR_SIZE_BYTES, size_bytes),
        (ATTR_BLOCK_SIZE_BYTES, block_size_bytes),
        (ATTR_TIMEOUT, timeout_s),
        (ATTR_DEAD_CONN_TIMEOUT, dead_conn_timeout_s),
        (ATTR_SERVER_FLAGS, server_flags),
        (ATTR_CLIENT_FLAGS, client_flags),
    ):
        if value is not None:
            payload += u64(kind, value)
    if backend is not None:
        payload += attribute(ATTR_BACKEND_IDENTIFIER, backend.encode() + b"\0")
    return payload


def _text(extended):
    return extended.get(NLMSGERR_ATTR_MSG, b"").rstrip(b"\0").decode()


def _raise_for(flags, body):
    """Raise NetlinkError for an error message; give what an ACK says beside."""
    number = -struct.unpack_from("=i", body)[0]
    extended = {}
    if flags & NLM_F_ACK_TLVS:
        original_length = struct.unpack_from("=I", body, 4)[0]
        # Without an error the original request is never repeated.
        skip = 20 if flags & NLM_F_CAPPED else 4 + original_length
        extended = dict(parse(body[skip:]))
    if number:
        raise NetlinkError(number, extended)
    return extended


def is_busy(error):
    return error.errno == errno.EBUSY
