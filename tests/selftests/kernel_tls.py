# SPDX-License-Identifier: GPL-2.0
"""TLS in the kernel on a TCP socket, as a handshake in user space would have left it."""

import socket
import struct

TCP_ULP = 31
SOL_TLS = 282
TLS_TX = 1
TLS_RX = 2
VERSIONS = {"1.2": 0x0303, "1.3": 0x0304}
AES_GCM_128 = 51


def _cipher(version, key):
    """struct tls12_crypto_info_aes_gcm_128, which TLS 1.3 shares.

    Key, salt and first sequence number are the direction's own.
    """
    return struct.pack("=HH8s16s4s8s", version, AES_GCM_128, key[:8], key, key[8:12], bytes(8))


def arm(sock, version, sends, receives):
    """Switch TLS on, with a key of 16 bytes for each direction."""
    sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
    sock.setsockopt(SOL_TLS, TLS_TX, _cipher(version, sends))
    sock.setsockopt(SOL_TLS, TLS_RX, _cipher(version, receives))
