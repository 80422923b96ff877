# SPDX-License-Identifier: GPL-2.0
"""Waiting for a condition instead of for a time."""

import time

POLL_INTERVAL_S = 0.01


class Expired(AssertionError):
    """The condition did not come true before its deadline."""


def until(condition, what, timeout_s=10.0):
    """Call condition() until it returns something true, and return that."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Expired(f"not within {timeout_s} s: {what}")
        time.sleep(POLL_INTERVAL_S)


def quiet(condition, time_s=0.15):
    """Give something that should not happen a moment to happen; returns early if it does."""
    deadline = time.monotonic() + time_s
    while time.monotonic() < deadline and not condition():
        time.sleep(POLL_INTERVAL_S)


class Stopwatch:
    """Measures the wall time of a with block; read elapsed_s afterwards."""

    def __enter__(self):
        self.started = time.monotonic()
        self.elapsed_s = None
        return self

    def __exit__(self, *_):
        self.elapsed_s = time.monotonic() - self.started
