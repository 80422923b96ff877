# SPDX-License-Identifier: GPL-2.0
"""The debugfs files that say what a session is doing and has done."""

import nbd_server

COUNTS = ("read_requests", "read_bytes", "write_requests", "write_bytes", "other_requests",
          "other_bytes", "errors", "resent", "reconnects")


def _number(text):
    return int(text) if text.isdigit() else text


def _lines(name, device):
    """The lines about a device in one of the files, as {key: value}; numbers are numbers."""
    found = []
    for line in (device.debugfs.parent / name).read_text().splitlines():
        line, _, fault = line.partition(" last_error=")
        whose, *pairs = line.split()
        if whose == device.name:
            found.append({key: _number(value) for key, value in
                          (pair.split("=", 1) for pair in pairs)})
            if fault:
                found[-1]["last_error"] = fault
    return found


def status(device):
    """What is said of a device; a free one is not mentioned."""
    found = _lines("devices", device)
    if len(found) > 1:
        raise AssertionError(f"{device.name} is there {len(found)} times")
    return found[0] if found else {"state": "free"}


def connections(device):
    """What is said of each of its connections, in order."""
    return _lines("connections", device)


def served(requests):
    """The counts that requests amount to which a server has answered without error."""
    counts = dict.fromkeys(COUNTS, 0)
    for request in requests:
        kind = {nbd_server.READ: "read", nbd_server.WRITE: "write"}.get(request.type, "other")
        counts[f"{kind}_requests"] += 1
        counts[f"{kind}_bytes"] += request.length
    return counts


def counts(fields):
    """What of a dictionary are counts of this kind."""
    return {key: fields[key] for key in COUNTS}
