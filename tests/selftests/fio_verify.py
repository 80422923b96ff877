# SPDX-License-Identifier: GPL-2.0
"""fio with verification on an attached device."""

import server_process

FIO_TIMEOUT_S = 100


def verify(device, engine, depth, block_sizes, io_bytes="8m", jobs=1, check=True):
    """Random writes with a checksum in each block, then all of it read back and checked.

    block_sizes is a fio range or a single size. Each job has its own part of the device.
    """
    server_process.need("fio")
    return server_process.command(
        "fio",
        "--name=verify",
        f"--filename={device.node}",
        "--rw=randwrite",
        "--direct=1",
        f"--ioengine={engine}",
        f"--iodepth={depth}",
        f"--bsrange={block_sizes}",
        f"--numjobs={jobs}",
        f"--size={io_bytes}",
        f"--offset_increment={io_bytes}",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        "--group_reporting=1",
        "--output-format=terse",
        check=check,
        timeout_s=FIO_TIMEOUT_S,
    )


def attached(address_options, connections, run):
    """Attach nbdkit's memory plugin with so many connections and call run(device)."""
    with server_process.nbdkit("memory", "size=256M", **address_options) as address:
        with server_process.nbd_client(address, connections=connections) as device:
            run(device)
