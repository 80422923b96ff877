# SPDX-License-Identifier: GPL-2.0
"""Values inside the kernel whenever it enters one of its functions: a dynamic trace event."""

import os
import pathlib
import re

TRACING = pathlib.Path("/sys/kernel/tracing")
GROUP = "rnbd_selftests"


def _define(line):
    # Not by open(), which looks for the end of the file in this mode.
    descriptor = os.open(TRACING / "dynamic_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


class ProbeEvent:
    """Records fields at the entry of a function, or at its return, in a buffer of its own.

    A field is an expression over the function's arguments, as the kernel's type information
    names them, with its type: sk="sk->sk_allocation:x32"; at the return it may be $retval.
    """

    def __init__(self, function, at_return=False, **fields):
        self.event = f"{GROUP}/{function}"
        words = " ".join(f"{name}={expression}" for name, expression in fields.items())
        _define(f"f:{self.event} {function}{'%return' if at_return else ''} {words}")
        self.instance = TRACING / "instances" / f"{GROUP}-{function}"
        self.instance.mkdir()
        self.control = self.instance / "events" / self.event
        (self.control / "enable").write_text("1")

    def only(self, condition):
        """Record only what this filter lets through."""
        (self.control / "filter").write_text(condition)

    def records(self):
        """What was recorded, each as {field: number}, with the thread's number as "thread"."""
        found = []
        for line in (self.instance / "trace").read_text().splitlines():
            head = re.match(r" *.*-(\d+) +\[\d+\]", line)
            if head:
                fields = re.findall(r"(\w+)=(\S+)", line.partition(") ")[2])
                found.append({"thread": int(head[1])}
                             | {name: int(value, 0) for name, value in fields})
        return found

    def close(self):
        (self.control / "enable").write_text("0")
        self.instance.rmdir()
        _define(f"-:{self.event}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
