# SPDX-License-Identifier: GPL-2.0
"""A driver that takes part in a comparison: its module's file and parameters, loaded in turn."""

import contextlib
import dataclasses
import os
import pathlib
import shutil

import driver_module

MEMORY = pathlib.Path("/dev/shm/rnbd-bench")
PROJECT = driver_module.PROJECT


@dataclasses.dataclass
class Contender:
    """One side of a comparison. `name` is what its rows are called."""

    name: str
    file: pathlib.Path
    parameters: dict

    @property
    def module(self):
        return self.file.name.partition(".")[0]

    def load(self, **parameters):
        done = driver_module.insmod(str(self.file), **{**parameters, **self.parameters})
        if done.returncode:
            raise OSError(f"insmod {self.file} {parameters}: {done.stderr.strip()}")

    def unload(self):
        done = driver_module.rmmod(self.module)
        if done.returncode:
            raise OSError(f"rmmod {self.module}: {done.stderr.strip()}")

    @contextlib.contextmanager
    def loaded(self, **parameters):
        """The driver for the length of a with block."""
        self.load(**parameters)
        try:
            yield self
        finally:
            self.unload()


def named(text):
    """The contender that NAME[=FILE][:PARAMETER=VALUE]... describes, its file in memory.

    Without a file, NAME is "c" or begins with "c-" (the kernel's own nbd.ko), or is "rnbd" or
    "nbd" (in build/).
    """
    head, *words = text.split(":")
    name, _, file = head.partition("=")
    if not file:
        is_own = name.partition("-")[0] == "c"
        file = driver_module.in_tree_file() if is_own else f"build/{name}.ko"
    # Beside each other: two files of one name may take part.
    copy = MEMORY / name / pathlib.Path(file).name
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROJECT / file, copy)
    return Contender(name, copy, dict(word.split("=", 1) for word in words))


def forbid_autoload():
    """Keep a client's first request from bringing in a driver of its own choice."""
    os.makedirs("/etc/modprobe.d", exist_ok=True)
    pathlib.Path("/etc/modprobe.d/rnbd-bench.conf").write_text("blacklist nbd\nblacklist rnbd\n")
