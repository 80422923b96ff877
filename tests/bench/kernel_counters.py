# SPDX-License-Identifier: GPL-2.0
"""Counts of what the kernel does while a workload runs, from histograms of its trace events.

Nothing is written to the trace buffer: the kernel adds up, so that nothing can be lost. Socket
calls are probed in the protocols themselves, below whatever way a driver takes to them, and told
apart by the thread that makes them: what is not a server's thread is the driver's side.
"""

import contextlib
import os
import pathlib
import re

TRACING = pathlib.Path("/sys/kernel/tracing")
GROUP = "rnbd_bench"
BYTES = "bytes=$retval:s32"

# name: kind of probe (p at the entry, r at the return) and what it is about
PROBES = {
    "send_unix": ("p", "unix_stream_sendmsg sock=%di"),
    "send_tcp": ("p", "tcp_sendmsg sock=%di"),
    "sent_unix": ("r", f"unix_stream_sendmsg {BYTES}"),
    "sent_tcp": ("r", f"tcp_sendmsg {BYTES}"),
    "spliced": ("r", f"skb_splice_from_iter {BYTES}"),
    "recv_unix": ("p", "unix_stream_recvmsg"),
    "recv_tcp": ("p", "tcp_recvmsg"),
    "received_unix": ("r", f"unix_stream_recvmsg {BYTES}"),
    "received_tcp": ("r", f"tcp_recvmsg {BYTES}"),
}
BY_THREAD = "hist:keys=common_pid"
BY_SOCKET = "hist:keys=common_pid,sock"
SUM_OF_BYTES = "hist:keys=common_pid:vals=bytes:size=4096 if bytes > 0"
SWITCHES = "hist:keys=next_comm"
WAKEUPS = "hist:keys=comm"

ENTRY = re.compile(r"^\{ (.*) \} hitcount: +(\d+)(?: +bytes: +(\d+))?", re.MULTILINE)


def _trigger(name):
    if name.startswith(("sent_", "received_")) or name == "spliced":
        return SUM_OF_BYTES
    return BY_SOCKET if name.startswith("send_") else BY_THREAD


def _events():
    """Each event's directory and the histogram it gets."""
    for name in PROBES:
        yield name, TRACING / "events" / GROUP / name, _trigger(name)
    yield "switch", TRACING / "events/sched/sched_switch", SWITCHES
    yield "wakeup", TRACING / "events/sched/sched_wakeup", WAKEUPS


@contextlib.contextmanager
def probes():
    """The probes exist in the kernel inside the with block."""
    for name, (kind, what) in PROBES.items():
        _append(TRACING / "kprobe_events", f"{kind}:{GROUP}/{name} {what}")
    try:
        yield
    finally:
        for name in PROBES:
            _append(TRACING / "kprobe_events", f"-:{GROUP}/{name}")


def _append(path, text):
    """Write without truncating: that would take away what is there already."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, text.encode())
    except OSError as error:
        raise OSError(f"{text}: {(TRACING / 'error_log').read_text()}") from error
    finally:
        os.close(descriptor)


class Histogram:
    """What one event counted: (keys, hits, bytes) for each combination of keys."""

    def __init__(self, text):
        self.entries = [
            (_keys(keys), int(hits), int(total or 0)) for keys, hits, total in ENTRY.findall(text)
        ]

    def hits(self, wanted=lambda keys: True):
        return sum(hits for keys, hits, _ in self.entries if wanted(keys))

    def bytes(self, wanted=lambda keys: True):
        return sum(total for keys, _, total in self.entries if wanted(keys))


def _keys(text):
    pairs = (item.partition(":") for item in text.split(", "))
    return {name.strip(): value.strip() for name, _, value in pairs}


@contextlib.contextmanager
def armed():
    """The histograms add up inside the with block; gives a function that reads and clears them."""
    on = []
    try:
        for _, directory, trigger in _events():
            _append(directory / "trigger", trigger)
            on.append((directory, trigger))
        yield _take
    finally:
        for directory, trigger in on:
            _append(directory / "trigger", "!" + trigger)


def _take():
    """{name: Histogram} of what happened since the last call."""
    found = {}
    for name, directory, trigger in _events():
        found[name] = Histogram((directory / "hist").read_text())
        head, _, condition = trigger.partition(" if ")
        clear = f"{head}:clear" + (f" if {condition}" if condition else "")
        _append(directory / "trigger", clear)
    return found


def summary(found, server_threads):
    """The counts of the driver's side, and of the whole guest where that is what matters."""

    def ours(keys):
        return int(keys["common_pid"]) not in server_threads

    def both(kind, what):
        return sum(getattr(found[f"{kind}_{t}"], what)(ours) for t in ("unix", "tcp"))

    sent_bytes = both("sent", "bytes")
    spliced_bytes = found["spliced"].bytes(ours)
    return {
        "sendmsg": both("send", "hits"),
        "recvmsg": both("recv", "hits"),
        "sent_bytes": sent_bytes,
        "copied_out_bytes": sent_bytes - spliced_bytes,
        "copied_in_bytes": both("received", "bytes"),
        "switches": found["switch"].hits(),
        "ksoftirqd_switches": found["switch"].hits(
            lambda keys: keys["next_comm"].startswith("ksoftirqd")
        ),
        "wakeups": found["wakeup"].hits(),
    }


def sends_by_socket(found, server_threads):
    """How many sends each socket of the driver's side saw."""
    totals = {}
    for name in ("send_unix", "send_tcp"):
        for keys, hits, _ in found[name].entries:
            if int(keys["common_pid"]) not in server_threads:
                totals[keys["sock"]] = totals.get(keys["sock"], 0) + hits
    return totals
