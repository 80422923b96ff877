# SPDX-License-Identifier: GPL-2.0
"""A partition table for an export, and the partitions that the kernel made of one."""

import os
import struct

import waiting


def mbr(*partitions):
    """The first sector of a disk with these Linux partitions: (first sector, sectors)."""
    entries = [struct.pack("<B3sB3sII", 0, bytes(3), 0x83, bytes(3), start, sectors)
               for start, sectors in partitions]
    return bytes(446) + b"".join(entries).ljust(64, b"\0") + b"\x55\xaa"


def names(device):
    """The partitions that sysfs shows of a device."""
    return sorted(path.name for path in device.sysfs.glob(f"{device.name}p*"))


def provoke_scan(device):
    """Open the device once, which is what makes the block layer do a scan that is due."""
    with device.opened(os.O_RDONLY):
        pass


def wait_for(device, *expected):
    """Wait until the device has just these partitions, opening it as udev would."""
    def there():
        provoke_scan(device)
        return names(device) == list(expected)

    waiting.until(there, f"partitions {expected} of {device.name}")
