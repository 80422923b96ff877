# SPDX-License-Identifier: GPL-2.0
"""Real NBD servers and clients as child processes: started, waited for, always stopped."""

import contextlib
import os
import pathlib
import socket
import subprocess

import driver_module
import ktap
import waiting
from block_device import BlockDevice

START_TIMEOUT_S = 20.0
CLIENT_TIMEOUT_S = 60

_scratch_count = 0


def need(program):
    """Skip the case when a program is not installed."""
    if not any(os.access(f"{directory}/{program}", os.X_OK) for directory in os.get_exec_path()):
        raise ktap.Skip(f"{program} is not installed")


class Address:
    """Where a server listens, and its process."""

    def __init__(self, process, unix_path="", port=0):
        self.process = process
        self.unix_path = unix_path
        self.port = port

    def client_words(self):
        """The address as nbd-client wants it."""
        return ["-unix", self.unix_path] if self.unix_path else ["127.0.0.1", str(self.port)]

    def connection(self):
        """A raw connection, before any handshake."""
        if self.unix_path:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(self.unix_path)
            return sock
        return socket.create_connection(("127.0.0.1", self.port))


@contextlib.contextmanager
def scratch():
    """A directory of this test alone, on tmpfs, gone afterwards."""
    global _scratch_count
    _scratch_count += 1
    top = pathlib.Path(f"/dev/shm/rnbd-{os.getpid()}-{_scratch_count}")
    top.mkdir(mode=0o755)
    try:
        yield top
    finally:
        for directory, directories, files in top.walk(top_down=False):
            for name in files:
                (directory / name).unlink()
            for name in directories:
                (directory / name).rmdir()
        top.rmdir()


def captured():
    """A file in memory for the output of a child that may outlive its parent's patience."""
    return open(os.memfd_create("output"), "w+", encoding="utf-8", errors="replace")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def stop(process):
    """Terminate a child and wait for it; kill it if it will not go."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


@contextlib.contextmanager
def running(words, ready, what, enter=None):
    """A child process that is ready inside the with block and gone after it; it calls enter() first."""
    with captured() as output:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            preexec_fn=enter,
        )
        try:
            waiting.until(
                lambda: ready() or process.poll() is not None, f"{what} is ready", START_TIMEOUT_S
            )
            if process.poll() is not None:
                output.seek(0)
                raise OSError(f"{what} ended with {process.returncode}: {output.read()}")
            yield process
        finally:
            stop(process)


@contextlib.contextmanager
def nbdkit(*plugin_words, tcp=False, options=(), enter=None):
    """nbdkit with a plugin and its parameters."""
    need("nbdkit")
    with scratch() as directory:
        pid_file = directory / "pid"
        port = free_port() if tcp else 0
        path = "" if tcp else str(directory / "socket")
        where = ["-i", "127.0.0.1", "-p", str(port)] if tcp else ["-U", path]
        words = ["nbdkit", "-f", "-P", str(pid_file), *where, *options, *plugin_words]
        with running(words, pid_file.exists, "nbdkit", enter) as process:
            yield Address(process, path, port)


@contextlib.contextmanager
def nbd_server(image):
    """nbd-server with one export named "image" over TCP."""
    need("nbd-server")
    with scratch() as directory:
        port = free_port()
        config = directory / "config"
        config.write_text(
            f"[generic]\nport = {port}\nlistenaddr = 127.0.0.1\nallowlist = true\n"
            f"[image]\nexportname = {image}\nflush = true\nfua = true\ntrim = true\n"
        )
        words = ["nbd-server", "-n", "-C", str(config)]
        with running(words, lambda: _listens(port), "nbd-server") as process:
            yield Address(process, port=port)


def _listens(port):
    """Whether a local TCP port is in LISTEN, without connecting to it."""
    wanted = f":{port:04X} 00000000:0000 0A"
    return wanted in pathlib.Path("/proc/net/tcp").read_text()


def command(*words, timeout_s=CLIENT_TIMEOUT_S, check=True):
    """Run a command to its end; its output is part of the failure message."""
    # A daemonising client keeps its output open, so the output goes to a file.
    with captured() as output:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
        output.seek(0)
        done.stdout = output.read()
    if check and done.returncode:
        raise OSError(f"{' '.join(map(str, words))}: status {done.returncode}: {done.stdout}")
    return done


@contextlib.contextmanager
def nbd_client(address, index=0, connections=1, ioctl=False, options=()):
    """A device attached by nbd-client, through netlink or ioctls."""
    need("nbd-client")
    device = BlockDevice(index)
    door = ["-L"] if ioctl else []
    words = ["nbd-client", *door, *address.client_words(), device.node]
    attach(words + ["-C", str(connections), *options])
    try:
        device.wait_attached()
        yield device
    finally:
        command("nbd-client", *door, "-d", device.node)
        device.wait_free()


def attach(words):
    """Run an attaching client; once more while the C driver is busy with udev's look."""
    last = None

    def attempt():
        nonlocal last
        last = command(*words, check=False)
        return last.returncode == 0 or not driver_module.IS_C

    with contextlib.suppress(waiting.Expired):
        waiting.until(attempt, "attached")
    if last.returncode:
        raise OSError(f"{' '.join(words)}: status {last.returncode}: {last.stdout}")


@contextlib.contextmanager
def qemu_nbd(image, index=0, image_format="qcow2"):
    """A device attached by qemu-nbd -c, which is server and ioctl client in one."""
    need("qemu-nbd")
    device = BlockDevice(index)
    # -v keeps it from going to the background as soon as the device is there.
    words = ["qemu-nbd", "-v", "-f", image_format, "-c", device.node, str(image)]
    with running(words, device.is_attached, "qemu-nbd"):
        device.wait_attached()
        try:
            yield device
        finally:
            command("qemu-nbd", "-d", device.node)
            device.wait_free()


def environment_pids(marker):
    """Pids of all processes whose environment holds this text (NAME=value)."""
    pids = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    pids.append(int(entry.name))
    return pids
