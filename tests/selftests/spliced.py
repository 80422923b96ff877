# SPDX-License-Identifier: GPL-2.0
"""Writes large enough to be spliced, and a server that takes its time to read them."""

import contextlib
import time

import driver_module
import nbd_server
from attachment import MIB

SIZE_BYTES = 64 * MIB
OFFSET = 16 * MIB
WRITE_BYTES = 1 * MIB


def pattern(seed, length=WRITE_BYTES):
    return bytes([seed]) * length


@contextlib.contextmanager
def loaded(splice):
    """The module with this word for its parameter `splice`."""
    driver_module.load(nbds_max=1, splice=splice)
    try:
        yield
    finally:
        driver_module.unload()


class LateReader(nbd_server.Connection):
    """Leaves a payload in the socket for a while after it has seen the header."""

    def _receive(self, length):
        if length > 4096 and self.server.late_s:
            time.sleep(self.server.late_s)
        return super()._receive(length)


class Server(nbd_server.Server):
    connection_class = LateReader

    def __init__(self, hook=None, late_s=0):
        super().__init__(hook)
        self.late_s = late_s
