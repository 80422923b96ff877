# SPDX-License-Identifier: GPL-2.0
"""The debugfs files that say what a session is doing and has done."""

import nbd_server

COUNTS = ("read_requests", "read_bytes", "write_requests", "write_bytes", "other_requests",
          "other_bytes", "errors", "resent", "reconnects")


def _number(text):
    return int(text) if text.isdigit() else text


def status(device):
    """`status` as {key: value}; numbers are numbers."""
    pairs = (line.split(": ", 1) for line in (device.debugfs / "status").read_text().splitlines())
    return {key: _number(value) for key, value in pairs}


def connections(device):
    """`connections` as one such dictionary a connection, in order."""
    found = []
    for line in (device.debugfs / "connections").read_text().splitlines():
        line, _, fault = line.partition(" last_error=")
        fields = dict(word.split("=", 1) for word in line.split())
        found.append({key: _number(value) for key, value in fields.items()})
        if fault:
            found[-1]["last_error"] = fault
    return found


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
