# SPDX-License-Identifier: GPL-2.0
"""What may come of an operation while everything else happens at the same time."""

import errno
import pathlib
import random
import threading
import time

import ktap

SLOW_S = 8

# What a device that comes and goes answers to whoever opens or uses it.
GOING = {errno.ENOENT, errno.ENXIO, errno.ENODEV}
FAILED_IO = GOING | {errno.EIO, errno.ENOSPC, errno.EOPNOTSUPP}

LEGAL = {
    "connect": {errno.EBUSY, errno.EINVAL},
    "disconnect": {errno.EINVAL, errno.EBUSY},
    "reconfigure": {errno.EINVAL, errno.EBUSY},
    "status": {errno.EINVAL},
    "open": GOING | {errno.EBUSY},
    "read": FAILED_IO,
    "write": FAILED_IO | {errno.EPERM, errno.EROFS},
    "flush": FAILED_IO,
    "rescan": GOING | {errno.EBUSY, errno.EIO, errno.EINVAL},
    "set-up ioctl": GOING | {errno.EBUSY, errno.EINVAL},
    "ioctl session": GOING | {errno.EBUSY, errno.EINVAL, errno.EIO, errno.EPIPE},
    # An attribute that has gone when it is opened to be written cannot be made either: EACCES.
    "attribute": GOING | {errno.EACCES, errno.EBUSY, errno.EINVAL, errno.EIO},
    "processor": {errno.EBUSY},
    "unload": {errno.EBUSY},
}


class Tally:
    """Counts what came of each kind of operation, and how long the longest took."""

    def __init__(self):
        self.lock = threading.Lock()
        self.results = {}
        self.longest_s = {}
        self.wrong = []

    def note(self, kind, error, seconds):
        with self.lock:
            results = self.results.setdefault(kind, {})
            results[error] = results.get(error, 0) + 1
            self.longest_s[kind] = max(self.longest_s.get(kind, 0), seconds)
            if error and error not in LEGAL[kind]:
                self.wrong.append(f"{kind}: {errno.errorcode.get(error, error)}")

    def fail(self, text):
        with self.lock:
            self.wrong.append(text)

    def count(self, kind):
        return self.results.get(kind, {}).get(0, 0)

    def lines(self):
        for kind in sorted(self.results):
            results = " ".join(
                f"{errno.errorcode.get(error, 'ok')}:{count}"
                for error, count in sorted(self.results[kind].items()))
            yield f"{kind}: {results}, longest {self.longest_s[kind]:.2f} s"


class Actor(threading.Thread):
    """Does one of its operations after the other, at random, until it is told to stop.

    An operation is a method that raises OSError when it is refused; its kind is what the
    tally calls it.
    """

    operations = ()

    def __init__(self, tally, seed):
        super().__init__(daemon=True, name=type(self).__name__)
        self.tally = tally
        self.random = random.Random(seed)
        self.stopping = threading.Event()
        self.doing = ""
        self.began = 0.0
        self.shown = 0.0

    def run(self):
        try:
            while not self.stopping.is_set():
                self.once(*self.random.choice(self.operations))
        except Exception as error:  # whatever it is, the test has failed
            self.tally.fail(f"{self.name}: {error!r}")
        finally:
            self.leave()

    def once(self, kind, method):
        self.began = began = time.monotonic()
        self.doing = kind
        error = 0
        try:
            getattr(self, method)()
        except OSError as refusal:
            error = refusal.errno
        self.tally.note(kind, error, time.monotonic() - began)
        self.doing = ""
        self.stopping.wait(0.02 * self.random.random())

    def leave(self):
        """Let go of what is held."""

    def kernel_stack(self):
        """Once for each operation that takes long: where in the kernel it waits."""
        began = self.began
        if not self.doing or began == self.shown or time.monotonic() - began < SLOW_S:
            return ""
        self.shown = began
        stack = pathlib.Path(f"/proc/self/task/{self.native_id}/stack").read_text()
        return f"{self.name} in {self.doing} for more than {SLOW_S} s:\n{stack}"


def run_for(actors, seconds, patience_s):
    """Let all act for so long; gives the names of those that do not end within their patience."""
    for actor in actors:
        actor.start()
    began = time.monotonic()
    while any(actor.is_alive() for actor in actors):
        time.sleep(0.2)
        for actor in actors:
            ktap.note(actor.kernel_stack())
            if time.monotonic() > began + seconds:
                actor.stopping.set()
        if time.monotonic() > began + seconds + patience_s:
            break
    return [f"{actor.name} in {actor.doing}" for actor in actors if actor.is_alive()]
