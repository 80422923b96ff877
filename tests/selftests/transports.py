# SPDX-License-Identifier: GPL-2.0
"""Connected pairs of stream sockets, of every kind that the driver takes."""

import functools
import socket
import subprocess

import driver_module
import kernel_tls
import ktap

VMADDR_CID_LOCAL = 1
# The keys of the two directions; what they are does not matter.
KEYS = [bytes([number]) * 16 for number in (1, 2)]


def _unix():
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def _accepted(listener, address):
    client = socket.socket(listener.family, socket.SOCK_STREAM)
    client.connect(address)
    ours, _ = listener.accept()
    return client, ours


def _tcp():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pair = _accepted(listener, listener.getsockname())
    for end in pair:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return pair


def _vsock():
    if driver_module.IS_C:
        raise ktap.Skip("vsock: the C driver does not take it")
    _modprobe("vsock_loopback")
    with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as listener:
        listener.bind((VMADDR_CID_LOCAL, socket.VMADDR_PORT_ANY))
        listener.listen()
        return _accepted(listener, (VMADDR_CID_LOCAL, listener.getsockname()[1]))


def _tls():
    """TLS in the kernel on both ends, as a handshake in user space would have left it."""
    _modprobe("tls")
    pair = _tcp()
    for end, (sends, receives) in zip(pair, (KEYS, reversed(KEYS))):
        kernel_tls.arm(end, kernel_tls.VERSIONS["1.3"], sends, receives)
    return pair


@functools.cache
def _modprobe(module):
    # Built into some kernels, where there is nothing to load.
    subprocess.run(["modprobe", "-q", module], check=False)


PAIRS = {"UNIX": _unix, "TCP": _tcp, "vsock": _vsock, "kTLS": _tls}


def connection(server, kind):
    """A new connection to a scripted server; gives the client's end."""
    client, ours = PAIRS[kind]()
    server.serve(ours)
    return client
