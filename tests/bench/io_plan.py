# SPDX-License-Identifier: GPL-2.0
"""Which workloads run over which sessions: the quick plan and the full one.

Requests are counted so that a job takes some 0.2 s of the guest's time on the slower driver: fio
reports whole milliseconds.
"""

import dataclasses

import bare
from fio_jobs import Job

KIB = 1 << 10
MIB = 1 << 20
TRANSPORTS = ["unix", "tcp"]
DIRECTIONS = ["read", "write"]


@dataclasses.dataclass(frozen=True)
class Session:
    """One attachment of the device and what runs while it lasts."""

    server: str
    transport: str
    connections: int
    jobs: tuple

    def workload(self, job):
        return f"{self.server}/{self.transport}/{self.connections}/{job.name}"


def small(direction, depth, count, jobs=1):
    """Random requests of 4 KiB; deep queues are filled by half a queue at a time, 16 at most."""
    batch = min(depth // 2, 16) or 1
    pattern = "randrw" if direction == "mixed" else f"rand{direction}"
    suffix = f"-j{jobs}" if jobs > 1 else ""
    name = f"{direction}-4k-d{depth}{suffix}"
    return Job(name, pattern, 4 * KIB, depth, count, jobs, batch)


def large(direction, block_bytes, depth, count, sequential=False):
    """Requests of one large size, half a queue at a time. Sequential ones come to the driver
    merged, so what is about the driver's own work has them at random."""
    size = f"{block_bytes // MIB}m" if block_bytes >= MIB else f"{block_bytes // KIB}k"
    name, pattern = f"{direction}-{size}-d{depth}", f"rand{direction}"
    if sequential:
        name, pattern = f"{name}-seq", direction
    return Job(name, pattern, block_bytes, depth, count, batch=depth // 2)


def bar_jobs():
    """What every change of the data path is judged by, on one connection."""
    for direction in DIRECTIONS:
        yield small(direction, 1, 1500)
        yield small(direction, 32, 4000)
        yield large(direction, 128 * KIB, 8, 480)
        yield large(direction, MIB, 4, 120)


def quick(servers):
    """The jobs above, and four connections on two processors."""
    for server in servers:
        for transport in TRANSPORTS:
            yield Session(server, transport, 1, tuple(bar_jobs()))
            four = tuple(small(direction, 128, 4000) for direction in DIRECTIONS)
            yield Session(server, transport, 4, four)


def full_jobs():
    """Depth, number of jobs, size and flushes, one after the other."""
    for direction in [*DIRECTIONS, "mixed"]:
        yield small(direction, 1, 1500)
        for depth in (8, 32, 128):
            yield small(direction, depth, 4000)
        for jobs in (2, 4):
            yield small(direction, 8, 4000, jobs)
    for direction in DIRECTIONS:
        yield large(direction, 128 * KIB, 8, 480)
        yield large(direction, MIB, 4, 120)
        yield large(direction, 64 * KIB, 8, 640, sequential=True)
        yield large(direction, MIB, 4, 120, sequential=True)
        # One request at a time by io_uring_enter: what a program that does not batch gets.
        yield Job(f"{direction}-4k-d32-single", f"rand{direction}", 4 * KIB, 32, 3000)
    yield Job("fsync-4k", "randwrite", 4 * KIB, 1, 600, extra=("fsync=1",))


def full():
    """All servers, both transports, and connections from one to more than there are processors."""
    for server in ("null", "memory"):
        for transport in TRANSPORTS:
            yield Session(server, transport, 1, tuple(full_jobs()))
    for transport in TRANSPORTS:
        for connections in (2, 4, 8):
            jobs = tuple(
                small(direction, depth, 4000, jobs)
                for direction in DIRECTIONS
                for depth, jobs in ((32, 1), (128, 1), (32, 4))
            )
            yield Session("null", transport, connections, jobs)
    yield from quick([bare.KIND])
