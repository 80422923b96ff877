# SPDX-License-Identifier: GPL-2.0
"""Work in a forked child of the test: as another user, or as the process that does one thing."""

import contextlib
import os
import warnings

import ktap

# The children below only make system calls before they end.
warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)


def _close_all_but(kept):
    """Close what was inherited, such as the server's ends of connections."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor not in kept:
            with contextlib.suppress(OSError):  # the listing itself
                os.close(descriptor)


class Child:
    """A forked child that runs one function; what it raises fails the case at wait().

    Of the parent's descriptors above stderr it has only the one that is named.
    """

    def __init__(self, descriptor, function, *arguments):
        reader, writer = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                _close_all_but((descriptor, writer))
                function(*arguments)
            except BaseException as error:  # whatever it is, the parent has to hear of it
                os.write(writer, repr(error).encode()[:4096])
            os._exit(0)
        os.close(writer)
        self.reader = reader

    def wait(self):
        with open(self.reader, encoding="utf-8") as file:
            ktap.equal(file.read(), "", "what went wrong in the child")
        os.waitpid(self.pid, 0)
