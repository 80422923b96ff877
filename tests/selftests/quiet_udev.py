# SPDX-License-Identifier: GPL-2.0
"""No udev while a test runs that is about who has the devices open, or that starts many sessions.

Its queue is not merely stopped: what gathers there would be looked at during the next test.
"""

import atexit
import subprocess

DAEMON = ["/usr/lib/systemd/systemd-udevd", "--daemon", "--resolve-names=never"]
PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def _udevadm(*words):
    done = subprocess.run(["udevadm", *words], check=False, capture_output=True, timeout=60)
    return not done.returncode


def _end(starter):
    starter.stdin.close()
    starter.wait(60)


def until_exit():
    """End udev; it starts again when this process is gone, however that comes."""
    if not _udevadm("control", "--ping"):
        return  # there is none
    # Without the suite's environment, by which the runner finds what a test left running.
    starter = subprocess.Popen(
        ["sh", "-c", 'read -r _; exec "$@"', "sh", *DAEMON],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=PATH,
    )
    atexit.register(_end, starter)
    _udevadm("control", "--exit")
