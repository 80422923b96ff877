# SPDX-License-Identifier: GPL-2.0
"""A memory cgroup: what runs in it has so much memory and no more."""

import contextlib
import os
import pathlib
import subprocess

import ktap
import waiting

ROOT = pathlib.Path("/sys/fs/cgroup")


def _mount():
    if not (ROOT / "cgroup.controllers").exists():
        subprocess.run(["mount", "-t", "cgroup2", "none", ROOT], check=True)
    if "memory" not in (ROOT / "cgroup.controllers").read_text().split():
        raise ktap.Skip("no memory controller")
    (ROOT / "cgroup.subtree_control").write_text("+memory")


class Group:
    def __init__(self, path):
        self.path = path

    def run(self, *words, timeout_s):
        """Run a command in the group; gives what subprocess.run() gives."""
        return subprocess.run(
            words, capture_output=True, text=True, timeout=timeout_s, check=False,
            preexec_fn=self.enter,
        )

    def enter(self):
        """Move the calling process in."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def events(self):
        """{event: count}, oom_kill among them."""
        lines = (self.path / "memory.events").read_text().splitlines()
        return {name: int(count) for name, count in map(str.split, lines)}

    def peak_bytes(self):
        return int((self.path / "memory.peak").read_text())

    def swap_peak_bytes(self):
        return int((self.path / "memory.swap.peak").read_text())


@contextlib.contextmanager
def limited(limit_bytes, swaps=False):
    """A group for the length of a with block; nothing may run in it at its end."""
    _mount()
    path = ROOT / f"rnbd-test-{os.getpid()}"
    path.mkdir()
    try:
        (path / "memory.max").write_text(str(limit_bytes))
        if not swaps and (path / "memory.swap.max").exists():
            (path / "memory.swap.max").write_text("0")
        yield Group(path)
    finally:
        waiting.until(lambda: not (path / "cgroup.procs").read_text(), "the group is empty")
        path.rmdir()
