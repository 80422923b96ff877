# SPDX-License-Identifier: GPL-2.0
"""The kernel's messages since a moment."""

import os

import waiting


class KernelLog:
    """Collects the messages that come after it was made."""

    def __init__(self):
        self.descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self.descriptor, 0, os.SEEK_END)
        self.lines = []

    def close(self):
        os.close(self.descriptor)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def update(self):
        """Read what has come, and give everything so far."""
        while True:
            try:
                record = os.read(self.descriptor, 8192).decode(errors="replace")
            except BlockingIOError:
                return self.lines
            except BrokenPipeError:  # overwritten before it was read
                continue
            self.lines.append(record.partition(";")[2].splitlines()[0])

    def has(self, *words):
        """Whether one line has all of these words."""
        return any(all(word in line for word in words) for line in self.update())

    def wait_for(self, *words, timeout_s=10.0):
        waiting.until(lambda: self.has(*words), f"a line with {words}", timeout_s)
