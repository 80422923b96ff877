# SPDX-License-Identifier: GPL-2.0
"""Counts calls of the kernel's own functions, by whichever task, with the function tracer.

A name that cannot be traced on this kernel, because the compiler has inlined or renamed
it, is an error and not a count of nought. What lies under lib/ cannot be traced, but is
seen as the caller of what it calls.
"""

import collections
import contextlib
import os
import pathlib
import re

TRACING = pathlib.Path("/sys/kernel/tracing")
BUFFER_KIB_PER_CPU = 4096
# "  task-123   [001] ..... 12.345678: function <-caller"
FUNCTION_LINE = re.compile(r"^.*\[\d+\] \S+ +[\d.]+: ([\w.]+) <-([\w.]+)$")


class Calls:
    """How often each function was called, and from where: {(function, caller): count}."""

    def __init__(self, counts=()):
        self.counts = collections.Counter(counts)

    def of(self, *functions, without_callers=(), callers_with=""):
        """Calls of these functions; not those of some callers, or only those with such names."""
        return sum(
            count
            for (function, caller), count in self.counts.items()
            if function in functions and caller not in without_callers and callers_with in caller
        )

    def minus(self, control):
        """Without what went on in the control run as well."""
        return Calls(self.counts - control.counts)

    def lines(self):
        """One line for each function and caller."""
        return [
            f"{count:4} {function} <- {caller}"
            for (function, caller), count in sorted(self.counts.items())
        ]


def _traceable():
    lines = (TRACING / "available_filter_functions").read_text().splitlines()
    return {line.split()[0] for line in lines}


def clones(functions, traceable):
    """What to trace for these functions, by traced name: GCC may have split or cloned one.

    Raises if a function is not there at all.
    """
    found = {}
    for function in functions:
        names = [name for name in traceable if base_name(name) == function]
        if not names:
            raise LookupError(f"{function} cannot be traced on this kernel")
        found.update(dict.fromkeys(names, function))
    return found


def base_name(symbol):
    """A function's name without what GCC adds: name.part.0, name.constprop.0.isra.0."""
    return symbol.partition(".")[0]


class Counter:
    """A tracing instance of its own that counts calls of some functions while it is asked to."""

    def __init__(self, functions):
        self.names = clones(functions, _traceable())
        self.instance = TRACING / "instances" / f"rnbd_selftest_{os.getpid()}"

    def __enter__(self):
        with contextlib.ExitStack() as undo:
            self.instance.mkdir()
            undo.callback(self.instance.rmdir)
            self._write("tracing_on", "0")
            self._write("buffer_size_kb", str(BUFFER_KIB_PER_CPU))
            self._write("set_ftrace_filter", "\n".join(self.names))
            self._write("current_tracer", "function")
            undo.callback(self._write, "current_tracer", "nop")
            self.undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self.undo.close()

    def _write(self, name, text):
        (self.instance / name).write_text(text)

    @contextlib.contextmanager
    def counting(self):
        """Counts during a with block; gives Calls that are filled at its end."""
        calls = Calls()
        self._write("trace", "\n")
        self._write("tracing_on", "1")
        try:
            yield calls
        finally:
            self._write("tracing_on", "0")
        self._check_nothing_lost()
        for line in (self.instance / "trace").read_text().splitlines():
            self._add(calls, line)

    @staticmethod
    def _add(calls, line):
        match = FUNCTION_LINE.match(line)
        if match:
            function, caller = base_name(match[1]), base_name(match[2])
            # The parts of a function that was split are one call.
            if function != caller:
                calls.counts[(function, caller)] += 1
        elif line and not line.startswith("#"):
            raise ValueError(f"unknown line in the trace: {line}")

    def _check_nothing_lost(self):
        for stats in self.instance.glob("per_cpu/cpu*/stats"):
            for field in ("overrun", "dropped events"):
                lost = re.search(rf"^{field}: (\d+)$", stats.read_text(), re.MULTILINE)
                if lost and int(lost[1]):
                    raise OSError(f"{stats.parent.name}: the trace lost {lost[1]} events")
