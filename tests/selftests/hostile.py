# SPDX-License-Identifier: GPL-2.0
"""A device at a server that misbehaves, and a neighbour that must not feel it."""

import contextlib
import threading

import driver_module
import ktap
import nbd_netlink
import nbd_server
import transports
import waiting
from attachment import closing_all, patient
from block_device import BlockDevice, direct_read, direct_write

INDEX = 1
NEIGHBOUR = 2
SIZE_BYTES = 8 << 20
OFFSET = (5 << 20) + (300 << 10)  # where no probing reads
LENGTH = 4096
# A DISC is waited for a second; the rest is for a machine that is busy.
DISCONNECT_BOUND_S = 5
# The C driver lets go of what is in flight only when its own timer fires.
TIMEOUT_S = 2 if driver_module.IS_C else 20
# What a request may take that only a dead connection holds up.
SOON_S = 12 if driver_module.IS_C else 8


def connect(netlink, server, kind, connections, index, **settings):
    """CONNECT over fresh connections of one kind; gives the device."""
    settings.setdefault("server_flags", nbd_server.ALL_FLAGS)
    settings.setdefault("timeout_s", TIMEOUT_S)
    settings.setdefault("size_bytes", SIZE_BYTES)

    def attempt():
        server.connections.clear()
        sockets = [transports.connection(server, kind) for _ in range(connections)]
        with closing_all(sockets):
            return netlink.connect(sockets, index=index, **settings)

    return BlockDevice(patient(attempt))


@contextlib.contextmanager
def attached(server, kind, connections=1, index=INDEX, **settings):
    """A device for the length of a with block; that it can be taken away in time is checked."""
    with nbd_netlink.Netlink() as netlink:
        device = connect(netlink, server, kind, connections, index, **settings)
        device.netlink = netlink
        try:
            yield device
        finally:
            with waiting.Stopwatch() as watch:
                netlink.disconnect(index)
                device.wait_free()
        ktap.below(watch.elapsed_s, DISCONNECT_BOUND_S, "seconds for the disconnect")


def replace(device, server, kind, count=1):
    """RECONFIGURE with fresh connections."""
    with closing_all([transports.connection(server, kind) for _ in range(count)]) as sockets:
        device.netlink.reconfigure(device.index, sockets)


class Neighbour:
    """Another device at a good server, which reads and writes all the time."""

    def __enter__(self):
        self.server = nbd_server.Server()
        self.attached = attached(self.server, "UNIX", index=NEIGHBOUR)
        self.device = self.attached.__enter__()
        self.longest_s = self.latest_s = 0.0
        self.error = None
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()
        return self

    def _work(self):
        turn = 0
        with self.device.opened() as descriptor:
            while not self._pause() and not self.error:
                turn += 1
                data = bytes([turn & 0xFF]) * LENGTH
                try:
                    with waiting.Stopwatch() as watch:
                        direct_write(descriptor, OFFSET, data)
                        same = direct_read(descriptor, OFFSET, LENGTH) == data
                except OSError as error:
                    self.error = error
                    return
                self.longest_s = max(self.longest_s, watch.elapsed_s)
                if not same:
                    self.error = "other data than written"

    def _pause(self):
        """Sleep a little, and see how much longer it takes on a machine that is busy."""
        with waiting.Stopwatch() as watch:
            stopped = self.stopped.wait(0.02)
        self.latest_s = max(self.latest_s, watch.elapsed_s)
        return stopped

    def __exit__(self, kind, *_):
        self.stopped.set()
        self.thread.join(10)
        self.attached.__exit__(None, None, None)
        self.server.__exit__(None, None, None)
        if kind is None:
            ktap.note(f"longest write and read of the neighbour: {self.longest_s:.2f} s, "
                      f"longest pause: {self.latest_s:.2f} s")
            ktap.equal(self.error, None, "what went wrong at the neighbour")
            # A write and a read are a dozen wake-ups, each of which may come so late.
            ktap.below(self.longest_s, 3 + 12 * self.latest_s, "the neighbour's longest, in seconds")


class Background(threading.Thread):
    """One operation in a thread: its result, or its errno."""

    def __init__(self, function, *arguments):
        super().__init__(daemon=True)
        self.function, self.arguments = function, arguments
        self.result = self.errno = self.unexpected = None
        self.start()

    def run(self):
        try:
            self.result = self.function(*self.arguments)
        except OSError as error:
            self.errno = error.errno
        except Exception as error:
            self.unexpected = error

    def ended(self, timeout_s):
        self.join(timeout_s)
        ktap.true(not self.is_alive(), f"the operation ends within {timeout_s} s")
        if self.unexpected:
            raise self.unexpected
        return self.errno
