# SPDX-License-Identifier: GPL-2.0
"""A file system on an attached device: make it, fill it, remount it, compare it."""

import contextlib
import hashlib
import os
import pathlib

import ktap
import server_process

SIZE_BYTES = 1 << 30
TREE = pathlib.Path("/usr/lib/python3.13")
TREE_LIMIT_BYTES = 3 << 20


def checksums(root):
    """{relative path: SHA-256} of all regular files below a directory."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def make_tree(target):
    """Copy part of a real tree, with a few large files, up to a limit."""
    total = 0
    for path in sorted(TREE.rglob("*")):
        if path.is_file() and not path.is_symlink() and total < TREE_LIMIT_BYTES:
            copy = target / path.relative_to(TREE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
            total += path.stat().st_size
    for number in range(2):
        (target / f"random-{number}").write_bytes(os.urandom(2 << 20))
    ktap.true(total > 1 << 20, f"a real tree was copied: {total} bytes of {TREE}")


@contextlib.contextmanager
def mounted(device, directory):
    server_process.command("mount", device.node, directory)
    try:
        yield
    finally:
        server_process.command("umount", directory)


def exercise(mkfs_words, tcp=False, **client):
    """The whole life of a file system on nbdkit's memory plugin."""
    with server_process.scratch() as directory:
        source, mount_point = directory / "source", directory / "mounted"
        source.mkdir()
        mount_point.mkdir()
        make_tree(source)
        expected = checksums(source)
        with server_process.nbdkit("memory", f"size={SIZE_BYTES}", tcp=tcp) as address:
            with server_process.nbd_client(address, **client) as device:
                server_process.command(*mkfs_words, device.node)
                with mounted(device, mount_point):
                    server_process.command("cp", "-r", f"{source}/.", mount_point / "copy")
                with mounted(device, mount_point):
                    ktap.equal(checksums(mount_point / "copy"), expected, "checksums")
                    server_process.command("rm", "-r", mount_point / "copy")
                    done = server_process.command("fstrim", "-v", mount_point)
                    ktap.true("trimmed" in done.stdout, f"fstrim says: {done.stdout}")
