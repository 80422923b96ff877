# SPDX-License-Identifier: GPL-2.0
"""What the guest's fuzzers share: sockets to hand out, and how a device has to be afterwards."""

import contextlib
import errno
import pathlib
import re
import socket

import ktap
import nbd_netlink
import nbd_server
import waiting
from attachment import netlink_device
from block_device import BlockDevice

SPARE_INDEX = 3


class Sockets:
    """Connections of a good server and of nobody, and descriptors that are no stream sockets."""

    def __init__(self, chance):
        self.chance = chance
        self.server = nbd_server.Server()
        self.open_files = []
        self.mute_ends = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for file in self.open_files:
            file.close()

    def one(self):
        """A descriptor, of a new socket or of an old one."""
        if self.open_files and self.chance.random() < 0.5:
            return self.chance.choice(self.open_files).fileno()
        make = self.chance.choice((self._served, self._served, self._served, self._mute,
                                   self._unconnected, self._datagram, self._no_socket))
        file = make()
        self.open_files.append(file)
        if len(self.open_files) > 20:
            self.open_files.pop(0).close()
        return file.fileno() if file.fileno() >= 0 else self.one()

    def _served(self):
        return self.server.unix_connection()

    def _mute(self):
        """A peer that neither reads nor writes."""
        client, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.mute_ends.append(ours)
        return client

    @staticmethod
    def _unconnected():
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    @staticmethod
    def _datagram():
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    @staticmethod
    def _no_socket():
        return open("/dev/null", "rb")


def check_let_go(sockets):
    """Every peer sees the end of its connection: no socket is held any longer."""
    for connection in sockets.server.connections:
        ktap.true(connection.ended_by_peer.wait(10), "a served connection is closed")
    for end in sockets.mute_ends:
        end.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            while end.recv(1 << 16):
                pass
        end.close()


def indices():
    names = [path.name for path in pathlib.Path("/sys/block").glob("nbd*")]
    return sorted(int(re.sub("nbd", "", name)) for name in names)


def all_free():
    """Disconnect every device there is, and see that all are free."""
    with nbd_netlink.Netlink() as netlink:
        for index in indices():
            try:
                netlink.disconnect(index)
            except nbd_netlink.NetlinkError as error:  # it is just going
                ktap.equal(error.errno, errno.EINVAL, "errno of a disconnect")
    for index in indices():
        BlockDevice(index).wait_free(30)


def _spare_device(stack, server):
    """The spare device, attached; nothing while an earlier one of its index is still going."""
    try:
        return stack.enter_context(netlink_device(server, index=SPARE_INDEX, server_flags=0))
    except nbd_netlink.NetlinkError as error:
        ktap.equal(error.errno, errno.EINVAL, "errno of a connect")
        return None


def works():
    """A device is as good as new, with defaults where nothing is said."""
    with nbd_server.Server() as server, contextlib.ExitStack() as stack:
        device = waiting.until(lambda: _spare_device(stack, server), "an index can be connected")
        ktap.equal(device.size_bytes(), 8 << 20, "size")
        ktap.true(not device.is_read_only(), "it can be written")
        device.write(4096, b"f" * 4096)
        ktap.equal(device.read(4096, 4096), b"f" * 4096, "data")


class Tally:
    """How often what came of it, and how long the longest took."""

    def __init__(self):
        self.results = {}
        self.longest_s = 0.0

    def note(self, error, seconds):
        self.results[error] = self.results.get(error, 0) + 1
        self.longest_s = max(self.longest_s, seconds)

    def __str__(self):
        words = [f"{errno.errorcode.get(error, 'ok')}:{count}"
                 for error, count in sorted(self.results.items())]
        return f"{sum(self.results.values())} calls: {' '.join(words)}; longest {self.longest_s:.2f} s"
