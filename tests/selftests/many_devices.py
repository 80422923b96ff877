# SPDX-License-Identifier: GPL-2.0
"""Hundreds of devices attached to socket pairs that nobody serves: for what asks nothing of a server.

Only with max_part=0 and without udev, so that nobody reads.
"""

import concurrent.futures
import contextlib
import resource
import socket
import time

import nbd_netlink
import nbd_server

SIZE_BYTES = 1 << 20
DESCRIPTORS_PER_DEVICE = 2
OTHER_DESCRIPTORS = 256


def allow(devices, connections=1):
    """Raise the limit of open files for so many devices."""
    needed = devices * connections * DESCRIPTORS_PER_DEVICE + OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(hard, needed)))


class Attachment:
    """One device and the server's ends of its connections."""

    def __init__(self, netlink, index=None, connections=1):
        pairs = [socket.socketpair() for _ in range(connections)]
        self.peers = [theirs for _, theirs in pairs]
        ours = [mine for mine, _ in pairs]
        try:
            started = time.monotonic()
            self.index = netlink.connect(ours, SIZE_BYTES, index=index,
                                         server_flags=nbd_server.ALL_FLAGS)
            self.took_s = time.monotonic() - started
        finally:
            for sock in ours:
                sock.close()

    def end(self, netlink):
        """Disconnect."""
        netlink.disconnect(self.index)
        for sock in self.peers:
            sock.close()


def side_by_side(threads, items, function):
    """Call function(netlink, item) for all items in some threads, each with its own netlink."""
    def work(mine):
        with nbd_netlink.Netlink() as netlink:
            return [function(netlink, item) for item in mine]

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        parts = [items[number::threads] for number in range(threads)]
        return [result for part in pool.map(work, parts) for result in part]


@contextlib.contextmanager
def attached(netlink, count):
    """So many devices, attached one after the other by automatic index."""
    attachments = []
    try:
        while len(attachments) < count:
            attachments.append(Attachment(netlink))
        yield attachments
    finally:
        for attachment in attachments:
            attachment.end(netlink)
