# SPDX-License-Identifier: GPL-2.0
"""The ioctls of an NBD device, bare (include/uapi/linux/nbd.h)."""

import ctypes
import os
import threading

SET_SOCK = 0xAB00
SET_BLKSIZE = 0xAB01
SET_SIZE = 0xAB02
DO_IT = 0xAB03
CLEAR_SOCK = 0xAB04
CLEAR_QUE = 0xAB05
PRINT_DEBUG = 0xAB06
SET_SIZE_BLOCKS = 0xAB07
DISCONNECT = 0xAB08
SET_TIMEOUT = 0xAB09
SET_FLAGS = 0xAB0A

_libc = ctypes.CDLL(None, use_errno=True)


def call(descriptor, request, argument=0):
    """One ioctl with an unsigned long argument; raises OSError.

    Through the C library, because fcntl.ioctl() cuts integers to a C int.
    """
    result = _libc.ioctl(
        ctypes.c_int(descriptor), ctypes.c_ulong(request), ctypes.c_ulong(argument)
    )
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


class Session(threading.Thread):
    """NBD_DO_IT in a thread of its own, on its own open of the device."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.descriptor = os.open(node, os.O_RDWR | os.O_CLOEXEC)
        self.result = None

    def run(self):
        try:
            self.result = call(self.descriptor, DO_IT)
        except OSError as error:
            self.result = -error.errno

    def configure(self, sockets, size_bytes, block_size_bytes=1024, server_flags=0, timeout_s=0):
        """The calls before DO_IT, in the order most clients use."""
        call(self.descriptor, SET_BLKSIZE, block_size_bytes)
        call(self.descriptor, SET_SIZE, size_bytes)
        call(self.descriptor, CLEAR_SOCK)
        call(self.descriptor, SET_FLAGS, server_flags)
        if timeout_s:
            call(self.descriptor, SET_TIMEOUT, timeout_s)
        for sock in sockets:
            call(self.descriptor, SET_SOCK, sock.fileno())

    def ended(self, timeout_s=10.0):
        """Wait for DO_IT to return and give its result (negative errno on error)."""
        self.join(timeout_s)
        if self.is_alive():
            raise AssertionError(f"NBD_DO_IT did not return within {timeout_s} s")
        return self.result

    def close(self):
        os.close(self.descriptor)


def disconnect(node):
    """What nbd-client -L -d does."""
    descriptor = os.open(node, os.O_RDWR | os.O_CLOEXEC)
    try:
        call(descriptor, DISCONNECT)
        call(descriptor, CLEAR_SOCK)
    finally:
        os.close(descriptor)
