# SPDX-License-Identifier: GPL-2.0
"""Attaching a device to an in-process server, by either door, and detaching it again."""

import contextlib
import errno
import time

import nbd_ioctl
import nbd_netlink
import nbd_server
import driver_module
from block_device import BlockDevice

MIB = 1 << 20
BUSY_PATIENCE_S = 10.0


def patient(connect, *args, **kwargs):
    """Call connect(), again while the C driver says EBUSY.

    The C driver counts a device that udev merely looks at as in use. This driver
    must not, so for it the first refusal is final.
    """
    deadline = time.monotonic() + BUSY_PATIENCE_S
    while True:
        try:
            return connect(*args, **kwargs)
        except OSError as error:
            if not driver_module.IS_C or error.errno != errno.EBUSY:
                raise
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def open_connections(server, count, tcp=False):
    make = server.tcp_connection if tcp else server.unix_connection
    return [make() for _ in range(count)]


@contextlib.contextmanager
def closing_all(sockets):
    try:
        yield sockets
    finally:
        for sock in sockets:
            sock.close()


def connect(netlink, server, size_bytes, connections=1, index=0, tcp=False, **settings):
    """CONNECT with fresh connections of the server; gives the device."""
    settings.setdefault("server_flags", nbd_server.ALL_FLAGS)

    def attempt():
        # An attempt that is refused leaves its sockets shut, so each takes new ones.
        server.connections.clear()
        with closing_all(open_connections(server, connections, tcp)) as sockets:
            return netlink.connect(sockets, size_bytes, index=index, **settings)

    return BlockDevice(patient(attempt))


@contextlib.contextmanager
def netlink_device(server, size_bytes=8 * MIB, **settings):
    """A device attached through netlink for the length of a with block."""
    with nbd_netlink.Netlink() as netlink:
        device = connect(netlink, server, size_bytes, **settings)
        device.netlink = netlink
        try:
            yield device
        finally:
            netlink.disconnect(device.index)
            device.wait_free()


@contextlib.contextmanager
def ioctl_device(server, size_bytes=8 * MIB, index=0, connections=1, tcp=False, **settings):
    """A device attached through ioctls for the length of a with block."""
    settings.setdefault("server_flags", nbd_server.ALL_FLAGS)
    device = BlockDevice(index)
    session = nbd_ioctl.Session(device.node)
    try:
        with closing_all(open_connections(server, connections, tcp)) as sockets:
            session.configure(sockets, size_bytes, **settings)
        session.start()
        device.session = session
        try:
            device.wait_attached()
            yield device
        finally:
            nbd_ioctl.disconnect(device.node)
            session.ended()
    finally:
        session.close()
    device.wait_free()
