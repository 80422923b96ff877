# SPDX-License-Identifier: GPL-2.0
"""Which chances a random test takes: the same in every ordinary run, others in each long one.

$RNBD_SEED repeats a run; the seed is printed when a test ends.
"""

import os
import time

ORDINARY = 0x6E6264


def chosen():
    """The seed of this run."""
    if "RNBD_SEED" in os.environ:
        return int(os.environ["RNBD_SEED"])
    return time.time_ns() & 0xFFFFFF if os.environ.get("RNBD_LONG") else ORDINARY
