# SPDX-License-Identifier: GPL-2.0
"""The ioctl calls of one client program, replayed call by call with what it expects of each."""

import contextlib
import dataclasses
import fcntl
import os
import struct

import forked
import ktap
import nbd_ioctl
from block_device import BLKROSET, BlockDevice

SOCKET = object()


@dataclasses.dataclass
class Client:
    """What a program does to a device, in its order; every call has to succeed.

    Steps are pairs of request and argument, where SOCKET stands for a connection. The
    session runs in a forked process (the daemon) or in a thread of the caller.
    """

    name: str
    steps: tuple
    size_bytes: int
    after: tuple = (nbd_ioctl.CLEAR_SOCK,)
    stop: tuple = (nbd_ioctl.DISCONNECT, nbd_ioctl.CLEAR_SOCK)
    open_flags: int = os.O_RDWR
    forks: bool = True
    is_read_only: bool = False
    nonblocking: bool = False


def step(descriptor, request, argument=0):
    """One call, as the program makes it; BLKROSET takes a pointer."""
    if request == BLKROSET:
        fcntl.ioctl(descriptor, BLKROSET, struct.pack("=i", argument))
        return
    ktap.equal(nbd_ioctl.call(descriptor, request, argument), 0, f"result of {request:#x}")


def run_session(descriptor, after):
    """What the daemon does: DO_IT until the end, then its own clearing up."""
    step(descriptor, nbd_ioctl.DO_IT)
    for request in after:
        step(descriptor, request)


class _Thread(nbd_ioctl.Session):
    """The session in a thread of the test, on the program's own open of the device."""

    def __init__(self, node, descriptor, after):
        super().__init__(node)
        os.dup2(descriptor, self.descriptor, inheritable=False)
        self.after = after
        self.start()

    def wait(self):
        result = self.ended()
        for request in self.after:
            step(self.descriptor, request)
        self.close()
        ktap.equal(result, 0, "result of NBD_DO_IT")


def _start(client, server, device):
    """Make all calls up to DO_IT; gives what runs the session."""
    descriptor = os.open(device.node, client.open_flags | os.O_CLOEXEC)
    try:
        for request, argument in client.steps:
            if argument is SOCKET:
                with server.unix_connection() as sock:
                    sock.setblocking(not client.nonblocking)
                    step(descriptor, request, sock.fileno())
            else:
                step(descriptor, request, argument)
        if client.forks:
            return forked.Child(descriptor, run_session, descriptor, client.after)
        return _Thread(device.node, descriptor, client.after)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def attached(client, server, index):
    """The device as the program attached it, detached as the program does it."""
    device = BlockDevice(index)
    runner = _start(client, server, device)
    try:
        device.wait_attached()
        yield device
    finally:
        with device.opened(os.O_RDWR) as control:
            for request in client.stop:
                step(control, request)
        runner.wait()
    device.wait_free()
