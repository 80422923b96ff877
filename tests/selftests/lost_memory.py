# SPDX-License-Identifier: GPL-2.0
"""What kmemleak finds of memory that the module under test took and lost."""

import pathlib
import re
import time

CONTROL = pathlib.Path("/sys/kernel/debug/kmemleak")
# An object younger than this is not reported.
OBJECT_AGE_S = 6
# Where everything else is built in, an address without a name is the unloaded module's.
MODULE_FRAME = re.compile(r"^\s+(?:0x[0-9a-f]+|.*\[r?nbd\])\s*$", re.MULTILINE)


def is_watched():
    """Whether this kernel looks for lost memory, forgetting what was lost before."""
    try:
        CONTROL.write_text("scan=off")
        CONTROL.write_text("clear")
    except OSError:  # not built in, or switched off
        return False
    return True


def _scan():
    CONTROL.write_text("scan")
    report = CONTROL.read_text(errors="replace")
    return re.split(r"^(?=unreferenced object)", report, flags=re.MULTILINE)[1:]


def find():
    """Scan with the module unloaded; gives (objects of the module, other objects).

    What is on its way between two places when one scan looks is found by the second.
    """
    time.sleep(OBJECT_AGE_S)
    _scan()
    objects = _scan()
    ours = [text for text in objects if MODULE_FRAME.search(text)]
    return ours, [text for text in objects if text not in ours]
