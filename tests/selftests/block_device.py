# SPDX-License-Identifier: GPL-2.0
"""One /dev/nbdN as user space sees it: sysfs, direct I/O, ioctls of the block layer."""

import contextlib
import fcntl
import mmap
import os
import pathlib
import struct

import waiting

SECTOR_BYTES = 512
BLKROSET = 0x125D
BLKROGET = 0x125E
BLKFLSBUF = 0x1261
BLKGETSIZE64 = 0x80081272
BLKDISCARD = 0x1277
BLKZEROOUT = 0x127F


class BlockDevice:
    """The device with one index. Holds nothing open between calls."""

    def __init__(self, index):
        self.index = index
        self.name = f"nbd{index}"
        self.node = f"/dev/{self.name}"
        self.sysfs = pathlib.Path("/sys/block") / self.name
        self.debugfs = pathlib.Path("/sys/kernel/debug/nbd") / self.name

    def attribute(self, name):
        """A sysfs file's text, or None when the file does not exist."""
        try:
            return (self.sysfs / name).read_text().rstrip("\n")
        except OSError:  # ENOENT; ENODEV while the file is being removed
            return None

    def size_bytes(self):
        return int(self.attribute("size") or 0) * SECTOR_BYTES

    def pid(self):
        return self.attribute("pid")

    def queue(self, name):
        return int(self.attribute(f"queue/{name}"))

    def is_attached(self):
        return self.pid() is not None

    def wait_free(self, timeout_s=10.0):
        """Wait until the device shows neither a session nor a size."""
        waiting.until(
            lambda: not self.is_attached() and self.size_bytes() == 0,
            f"{self.name} is free",
            timeout_s,
        )

    def wait_attached(self, timeout_s=10.0):
        waiting.until(
            lambda: self.is_attached() and self.size_bytes() > 0,
            f"{self.name} is attached",
            timeout_s,
        )

    @contextlib.contextmanager
    def opened(self, flags=os.O_RDWR | os.O_DIRECT):
        descriptor = os.open(self.node, flags | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def read(self, offset_bytes, length_bytes):
        """Read past the page cache."""
        with self.opened(os.O_RDONLY | os.O_DIRECT) as descriptor:
            return direct_read(descriptor, offset_bytes, length_bytes)

    def write(self, offset_bytes, data, flags=0):
        """Write past the page cache."""
        with self.opened(os.O_WRONLY | os.O_DIRECT | flags) as descriptor:
            direct_write(descriptor, offset_bytes, data)

    def flush(self):
        with self.opened(os.O_RDWR) as descriptor:
            os.fsync(descriptor)

    def is_read_only(self):
        return self.attribute("ro") == "1"

    def ioctl_range(self, request, offset_bytes, length_bytes):
        """BLKDISCARD or BLKZEROOUT over a range."""
        with self.opened(os.O_RDWR) as descriptor:
            fcntl.ioctl(descriptor, request, struct.pack("QQ", offset_bytes, length_bytes))


def direct_read(descriptor, offset_bytes, length_bytes):
    """One preadv into an aligned buffer, as O_DIRECT asks."""
    with mmap.mmap(-1, max(length_bytes, mmap.PAGESIZE)) as buffer:
        with memoryview(buffer) as view, view[:length_bytes] as part:
            got = os.preadv(descriptor, [part], offset_bytes)
        return buffer[:got]


def direct_write(descriptor, offset_bytes, data):
    """One pwritev from an aligned buffer; raises when it comes out short."""
    with mmap.mmap(-1, max(len(data), mmap.PAGESIZE)) as buffer:
        buffer[: len(data)] = data
        with memoryview(buffer) as view, view[: len(data)] as part:
            put = os.pwritev(descriptor, [part], offset_bytes)
    if put != len(data):
        raise OSError(f"short write: {put} of {len(data)} bytes")
