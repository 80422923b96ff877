# SPDX-License-Identifier: GPL-2.0
"""KTAP output and exit status for the Python tests.

A test script declares its cases in order with @ktap.case("title") and ends with
ktap.run(). A case fails by raising; ktap.equal() and ktap.true() raise with a
message that names both values. Exit status is the kselftest one: 0 passed,
1 failed, 4 everything skipped.
"""

import faulthandler
import signal
import sys
import time

PASS = 0
FAIL = 1
SKIP = 4

_cases = []


class Skip(Exception):
    """Raised by a case whose facility is missing on this machine."""


class Mismatch(AssertionError):
    """A checked value was not the expected one."""


def case(title):
    """Register the decorated function as the next case of this script."""

    def register(function):
        _cases.append((title, function))
        return function

    return register


def cases(titles_and_functions):
    """Register cases made in a loop: pairs of title and function."""
    _cases.extend(titles_and_functions)


def note(text):
    """Print a diagnostic line."""
    for line in str(text).splitlines():
        print(f"# {line}", flush=True)


def equal(got, expected, what):
    """Fail unless both values are equal."""
    if got != expected:
        raise Mismatch(f"{what}: got {got!r}, expected {expected!r}")


def true(condition, what):
    """Fail unless the condition holds."""
    if not condition:
        raise Mismatch(what)


def below(value, limit, what):
    """Fail unless the value lies below the limit."""
    if not value < limit:
        raise Mismatch(f"{what}: {value} is not below {limit}")


def fails_with(errno_expected, function, *args, **kwargs):
    """Call a function and fail unless it raises OSError with this errno."""
    try:
        result = function(*args, **kwargs)
    except OSError as error:
        equal(error.errno, errno_expected, "errno")
        return error
    raise Mismatch(f"errno {errno_expected} expected, but the call returned {result!r}")


def errno_of(function, *args, **kwargs):
    """Call a function; gives 0, or the errno of the OSError that it raised."""
    try:
        function(*args, **kwargs)
    except OSError as error:
        return error.errno
    return 0


def _report(number, title, function):
    started = time.monotonic()
    try:
        function()
    except Skip as reason:
        print(f"ok {number} {title} # SKIP {reason}", flush=True)
        return SKIP
    except Exception as error:  # every failure of a case is a result, not a crash
        import traceback  # heavy, and rarely needed

        if isinstance(error, Mismatch):
            frame = traceback.extract_tb(error.__traceback__)[1]
            note(f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}: {error}")
        else:
            note("".join(traceback.format_exception(error)))
        print(f"not ok {number} {title}", flush=True)
        return FAIL
    note(f"{time.monotonic() - started:.1f} s")
    print(f"ok {number} {title}", flush=True)
    return PASS


def run():
    """Run all cases, print KTAP and leave with the kselftest status."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # for the runner's timeout
    print("KTAP version 1", flush=True)
    print(f"1..{len(_cases)}", flush=True)
    results = [
        _report(number, title, function)
        for number, (title, function) in enumerate(_cases, start=1)
    ]
    passed, failed, skipped = (results.count(kind) for kind in (PASS, FAIL, SKIP))
    print(
        f"# Totals: pass:{passed} fail:{failed} xfail:0 xpass:0 skip:{skipped} error:0",
        flush=True,
    )
    if failed or not results:
        sys.exit(FAIL)
    sys.exit(PASS if passed else SKIP)
