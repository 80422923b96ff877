# SPDX-License-Identifier: GPL-2.0
"""The kernel module under test: where its file is, loading and unloading it.

RNBD_DRIVER names the driver: "rnbd" (rnbd.ko), "nbd" (the same source built as
nbd.ko) or "c" (the kernel's own nbd.ko). RNBD_MODULE may name the module's file.
"""

import glob
import os
import pathlib
import subprocess

PROJECT = pathlib.Path(__file__).resolve().parent.parent.parent


def _detect():
    return "rnbd" if os.path.isdir("/sys/module/rnbd") else "c"


NAME = os.environ.get("RNBD_DRIVER") or _detect()
IS_C = NAME == "c"
# The C driver gives up what a dead connection had in flight only by this timer; a test
# whose server dies must set it there, because udev may have a read in flight.
LOST_REQUEST_TIMEOUT_S = 2 if IS_C else None
MODULE = "rnbd" if NAME == "rnbd" else "nbd"


def in_tree_file():
    """The file of the kernel's own C driver."""
    found = glob.glob(f"/lib/modules/{os.uname().release}/kernel/drivers/block/nbd.ko*")
    if not found:
        raise FileNotFoundError("this kernel ships no nbd.ko")
    return found[0]


def module_file():
    """The file of the module under test."""
    if os.environ.get("RNBD_MODULE"):
        return os.environ["RNBD_MODULE"]
    return in_tree_file() if IS_C else str(PROJECT / "build" / f"{MODULE}.ko")


def insmod(path, **parameters):
    """Run insmod; returns the finished process, whose status is the caller's business."""
    words = [f"{name}={value}" for name, value in parameters.items()]
    return subprocess.run(
        ["insmod", path, *words], capture_output=True, text=True, check=False
    )


def rmmod(module=MODULE):
    """Run rmmod; returns the finished process."""
    return subprocess.run(["rmmod", module], capture_output=True, text=True, check=False)


def load(**parameters):
    """Load the module under test or raise."""
    done = insmod(module_file(), **parameters)
    if done.returncode:
        raise OSError(f"insmod {module_file()} {parameters}: {done.stderr.strip()}")


def unload():
    """Unload the module under test or raise."""
    done = rmmod()
    if done.returncode:
        raise OSError(f"rmmod {MODULE}: {done.stderr.strip()}")


def is_loaded(module=MODULE):
    return os.path.isdir(f"/sys/module/{module}/holders")


def parameter(name):
    """A module parameter as sysfs shows it."""
    return pathlib.Path(f"/sys/module/{MODULE}/parameters/{name}").read_text().strip()


def use_count():
    return int(pathlib.Path(f"/sys/module/{MODULE}/refcnt").read_text())
