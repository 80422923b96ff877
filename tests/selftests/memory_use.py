# SPDX-License-Identifier: GPL-2.0
"""What the whole kernel uses: memory that is not free, threads, rescuers of workqueues."""

import dataclasses
import os
import pathlib
import time

SETTLE_S = 1.0
KIB = 1024


def _meminfo():
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) * KIB for line in lines}


def _kernel_threads():
    """Names of all kernel threads: the tasks without an executable."""
    names = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if not (entry / "cmdline").read_bytes():
                    names.append((entry / "comm").read_text().strip())
            except OSError:
                continue  # it has ended
    return names


@dataclasses.dataclass
class Use:
    """One reading. Memory in bytes."""

    used_bytes: int
    slab_bytes: int
    percpu_bytes: int
    # Workers of pools come and go with the load: only the others are the driver's own.
    threads: int
    rescuers: int

    def minus(self, other):
        values = zip(dataclasses.astuple(self), dataclasses.astuple(other))
        return Use(*(mine - theirs for mine, theirs in values))


def now():
    """What is in use once caches have been dropped and deferred freeing has had its time."""
    for _ in range(2):
        time.sleep(SETTLE_S)
        os.sync()
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    memory = _meminfo()
    threads = _kernel_threads()
    rescuers = [name for name in threads if name.startswith("kworker/R-")]
    workers = [name for name in threads if name.startswith("kworker/")]
    return Use(
        memory["MemTotal"] - memory["MemFree"] - memory["Cached"] - memory["Buffers"],
        memory["Slab"],
        memory["Percpu"],
        len(threads) - len(workers),
        len(rescuers),
    )
