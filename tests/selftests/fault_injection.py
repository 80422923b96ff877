# SPDX-License-Identifier: GPL-2.0
"""Allocations that fail because the kernel is told to let them: those that the module makes,
or that are made on its behalf, in whatever task.

The kernel tells them by their stack: an address of a module is on it, and the module under test is
the only one there is (what else the guest needs is built into the kernels that can do this).
"""

import contextlib
import pathlib

import ktap

DEBUG = pathlib.Path("/sys/kernel/debug")
STACK_DEPTH = 32
# Where modules are, for a kernel that does not move itself about, and for one that does.
MODULE_AREAS = (0xFFFFFFFFA0000000, 0xFFFFFFFFC0000000)
END_OF_MODULES = 0xFFFFFFFFFF000000
# All allocations, also those that may wait, of whatever size.
EXTENT = {
    "failslab": {"ignore-gfp-wait": "N", "cache-filter": "N"},
    "fail_page_alloc": {"ignore-gfp-wait": "N", "ignore-gfp-highmem": "N", "min-order": "0"},
}
KINDS = tuple(EXTENT)


def _end_of_kernel():
    for line in pathlib.Path("/proc/kallsyms").read_text().splitlines():
        address, _, name = line.split()[:3]
        if name == "_end":
            return int(address, 16)
    raise AssertionError("the kernel has no end")


class Faults:
    """One kind of allocation and how it fails. Nothing does before it is told to.

    The kernel counts from when it started; so no other process may have counted before.
    """

    def __init__(self, kind):
        self.kind = kind
        self.directory = DEBUG / kind
        if not self.directory.exists():
            raise ktap.Skip(f"fault injection ({kind}) is not in this kernel")
        # The number of the last allocation that failed, or of the one that still has to.
        self.position = 0
        self.is_pending = False
        self._set("probability", 0)
        for name, value in EXTENT[kind].items():
            self._set(name, value)
        self._set("verbose", 0)
        self._set("task-filter", "N")
        start = min(area for area in MODULE_AREAS if area > _end_of_kernel())
        self._set("stacktrace-depth", STACK_DEPTH)
        self._set("require-start", hex(start))
        self._set("require-end", hex(END_OF_MODULES))

    def _set(self, name, value):
        (self.directory / name).write_text(str(value))

    def _left(self):
        return int((self.directory / "times").read_text())

    @contextlib.contextmanager
    def one(self, number):
        """Let the allocation with this number, from 1 on, fail, and no other.

        Gives a function that says whether it has come to that. If it had not the last time, it
        is still that one that will fail: how many there were since is not known.
        """
        if not self.is_pending:
            # The lowest interval there is.
            self.position = max(self.position + number, 2)
        self.is_pending = True
        # Each position that can be divided by the interval fails; the next one is this.
        self._set("interval", self.position)
        self._set("times", 1)
        self._set("probability", 100)
        try:
            yield lambda: not self._left()
        finally:
            self._set("probability", 0)
            self.is_pending = self._left() > 0

    def each(self, attempt, step=1):
        """Call attempt() with its first allocation failing, then with the one that is a step behind
        it, and so on to the last; gives how many there were.
        """
        number = 1
        while True:
            is_known = not self.is_pending
            with self.one(number) as has_failed:
                attempt()
                failed = has_failed()
            if is_known and not failed:
                return number - 1
            number += step * is_known

    @contextlib.contextmanager
    def some(self, percent):
        """Let so many of a hundred allocations fail, at random."""
        self._set("interval", 1)
        self._set("times", -1)
        self._set("probability", percent)
        try:
            yield
        finally:
            self._set("probability", 0)
