# SPDX-License-Identifier: GPL-2.0
"""A server and a load with nothing in them but the socket and the ring, so that the driver weighs
most: bare_server.c and bare_load.c."""

import contextlib
import functools
import subprocess

import driver_module
import in_memory
import server_process
import waiting
from block_device import BlockDevice

KIND = "bare"
SIZE_MIB = 64
LOAD_TIMEOUT_S = 1800


@functools.cache
def program(name):
    """The program that scripts/bench has built, read into memory."""
    file = driver_module.PROJECT / "build/bench" / name
    in_memory.warm(str(file))
    return str(file)


class Process:
    """The running server, as Servers wants it."""

    def __init__(self, process):
        self.process = process


@contextlib.contextmanager
def attached(transport, connections, index):
    """A device with this server behind it, and the server's process."""
    words = [program("bare_server"), transport, str(index), str(connections), str(SIZE_MIB)]
    device = BlockDevice(index)
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        if process.stdout.readline() != b"attached\n":
            raise OSError(f"bare_server ended with {process.wait()}")
        device.wait_attached()
        yield device, Process(process)
        process.stdin.close()
        device.wait_free()
        waiting.until(lambda: process.poll() is not None, "bare_server has ended")
        if process.returncode:
            raise OSError(f"bare_server ended with {process.returncode}")
    finally:
        server_process.stop(process)


def run(node, jobs):
    """Run these jobs on the device; gives the figures of each, in their order."""
    return [_run(node, job) for job in jobs]


def _run(node, job):
    direction = job.pattern.removeprefix("rand")
    if direction not in ("read", "write") or job.jobs != 1 or job.extra:
        raise ValueError(f"bare_load cannot do {job.name}")
    sizes = [job.block_bytes, job.depth, job.batch, job.count]
    done = subprocess.run(
        [program("bare_load"), node, direction, *map(str, sizes)],
        capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, check=False, cwd="/dev/shm",
    )
    if done.returncode:
        raise OSError(f"bare_load: status {done.returncode}: {done.stderr}")
    timed, took_ns, requests = map(int, done.stdout.split())
    return {"requests": requests, "iops": timed * 1e9 / took_ns}
