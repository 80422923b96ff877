# SPDX-License-Identifier: GPL-2.0
"""Running a piece of a test as somebody else, or somewhere else: in a forked child."""

import os
import traceback

NOBODY = 65534
CRASHED = 255


def run(function):
    """Run function() in a child; 0, or the errno of the OSError it raised."""
    pid = os.fork()
    if not pid:
        status = CRASHED
        try:
            function()
            status = 0
        except OSError as error:
            status = error.errno
        except BaseException:  # the child must not come back into the test
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def become_nobody():
    """Give up all rights, for good."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def as_nobody(function):
    """run(), with the rights of nobody."""

    def body():
        become_nobody()
        function()

    return run(body)


def in_namespace(flags, function):
    """run(), in new namespaces (os.CLONE_NEW*)."""

    def body():
        os.unshare(flags)
        function()

    return run(body)
