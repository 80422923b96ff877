# SPDX-License-Identifier: GPL-2.0
"""A Debian system with a server, an export and the units that mount it, for tests over boots.

The server is nbd-server on the same machine; nbdtab, fstab and nbd@.service are Debian's.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "selftests"))

import ktap
import waiting
from block_device import BlockDevice
from server_process import command

BOOT = int(os.environ["RNBD_BOOT"])
BOOT_AGAIN_STATUS = 75
UNIT_TIMEOUT_S = 300
IMAGE = pathlib.Path("/srv/export.img")
IMAGE_BYTES = 64 << 20
MOUNT = pathlib.Path("/mnt/export")
MOUNT_UNIT = "mnt-export.mount"
ATTACH_UNIT = "nbd@nbd0.service"
SERVER_UNIT = "nbd-server.service"
DEVICE = BlockDevice(0)

SERVER = f"[image]\nexportname = {IMAGE}\nflush = true\nfua = true\ntrim = true\n"
TABLE = "nbd0 localhost image\n"
# Elsewhere the server is another machine; here it has to be up first.
SERVER_FIRST = f"[Unit]\nAfter={SERVER_UNIT}\nWants={SERVER_UNIT}\n"


def write(path, text):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def systemctl(*words):
    return command("systemctl", *words, timeout_s=UNIT_TIMEOUT_S)


def start_server():
    """Make the image and have Debian's nbd-server export it, now and at boot."""
    with open(IMAGE, "wb") as file:
        file.truncate(IMAGE_BYTES)
    command("mkfs.ext4", "-q", "-F", IMAGE)
    command("chown", "nbd:nbd", IMAGE)
    write("/etc/nbd-server/conf.d/image.conf", SERVER)
    systemctl("restart", SERVER_UNIT)


def write_nbdtab():
    write("/etc/nbdtab", TABLE)
    write(f"/etc/systemd/system/{ATTACH_UNIT}.d/server-first.conf", SERVER_FIRST)
    systemctl("daemon-reload")


def write_fstab(options=""):
    """Say where the device is mounted, and with which further options."""
    options = f"_netdev,x-systemd.requires={ATTACH_UNIT}{options}"
    write("/etc/fstab", f"/dev/nbd0 {MOUNT} ext4 {options} 0 0\n")
    MOUNT.mkdir(parents=True)
    systemctl("daemon-reload")


def is_mounted():
    return os.path.ismount(MOUNT)


def unload(name="nbd"):
    """Unload the driver; udev may hold a device open for a moment."""
    waiting.until(lambda: not command("rmmod", name, check=False).returncode, "unloaded", 30)


def run(boots):
    """Run the cases of this boot; after all but the last ask for another boot."""
    boots[BOOT - 1]()
    try:
        ktap.run()
    except SystemExit as end:
        passed_and_more = end.code == ktap.PASS and BOOT < len(boots)
        sys.exit(BOOT_AGAIN_STATUS if passed_and_more else end.code)
