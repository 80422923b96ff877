# SPDX-License-Identifier: GPL-2.0
"""A scriptable NBD server inside the test process, transmission phase only.

It serves one memory export over socket pairs or TCP connections, records every
request, and lets a hook answer instead of it, so that tests can see the wire and
can break the protocol in one chosen place.
"""

import contextlib
import socket
import struct
import threading

import waiting

REQUEST_MAGIC = 0x25609513
REPLY_MAGIC = 0x67446698
REQUEST = struct.Struct(">IHHQQI")
REPLY = struct.Struct(">IIQ")

READ = 0
WRITE = 1
DISC = 2
FLUSH = 3
TRIM = 4
WRITE_ZEROES = 6

CMD_FLAG_FUA = 1 << 0
CMD_FLAG_NO_HOLE = 1 << 1

HAS_FLAGS = 1 << 0
READ_ONLY = 1 << 1
SEND_FLUSH = 1 << 2
SEND_FUA = 1 << 3
ROTATIONAL = 1 << 4
SEND_TRIM = 1 << 5
SEND_WRITE_ZEROES = 1 << 6
CAN_MULTI_CONN = 1 << 8
ALL_FLAGS = (
    HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES | CAN_MULTI_CONN
)

PAGE_BYTES = 1 << 16


class SparseMemory:
    """Bytes of an export of any size; pages appear when written."""

    def __init__(self):
        self.pages = {}
        self.lock = threading.Lock()

    def _spans(self, offset, length):
        done = 0
        while done < length:
            page, start = divmod(offset + done, PAGE_BYTES)
            take = min(length - done, PAGE_BYTES - start)
            yield page, start, done, take
            done += take

    def read(self, offset, length):
        data = bytearray(length)
        with self.lock:
            for page, start, done, take in self._spans(offset, length):
                if page in self.pages:
                    data[done : done + take] = self.pages[page][start : start + take]
        return bytes(data)

    def write(self, offset, data):
        with self.lock:
            for page, start, done, take in self._spans(offset, len(data)):
                target = self.pages.setdefault(page, bytearray(PAGE_BYTES))
                target[start : start + take] = data[done : done + take]

    def zero(self, offset, length):
        with self.lock:
            for page, start, _, take in self._spans(offset, length):
                if page in self.pages:
                    self.pages[page][start : start + take] = bytes(take)


class Request:
    """One request as it came over the wire."""

    def __init__(self, connection, header):
        self.connection = connection
        self.header = header
        self.magic, self.flags, self.type, self.cookie, self.offset, self.length = (
            REQUEST.unpack(header)
        )
        self.data = b""

    def __repr__(self):
        return f"<type {self.type} flags {self.flags} {self.offset}+{self.length}>"

    def reply(self, error=0, data=b""):
        """Answer with the right magic and cookie."""
        self.connection.send(REPLY.pack(REPLY_MAGIC, error, self.cookie) + data)

    def serve(self):
        """Do what was asked and answer."""
        memory = self.connection.server.memory
        if self.type == READ:
            self.reply(data=memory.read(self.offset, self.length))
            return
        if self.type == WRITE:
            memory.write(self.offset, self.data)
        elif self.type in (TRIM, WRITE_ZEROES):
            memory.zero(self.offset, self.length)
        self.reply()


class Connection(threading.Thread):
    """The server's end of one connection, read by a thread of its own."""

    def __init__(self, server, sock, number):
        super().__init__(daemon=True)
        self.server = server
        self.sock = sock
        self.number = number
        self.ended_by_peer = threading.Event()

    def send(self, data):
        with contextlib.suppress(OSError):
            self.sock.sendall(data)

    def close(self):
        """Hang up at once, also under a blocked receive."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def _receive(self, length):
        data = bytearray()
        while len(data) < length:
            part = self.sock.recv(length - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def _next_request(self):
        header = self._receive(REQUEST.size)
        request = Request(self, header)
        if request.type == WRITE:
            request.data = self._receive(request.length)
        return request

    def run(self):
        try:
            while True:
                request = self._next_request()
                self.server.record(request)
                if request.type == DISC:
                    if self.server.leaves_on_disc:
                        break
                    continue
                if not self.server.hook(request):
                    request.serve()
        except (EOFError, OSError):
            pass
        except AssertionError as failure:  # a check inside the hook
            self.server.failures.append(failure)
        finally:
            self.ended_by_peer.set()
            self.sock.close()


class Server:
    """A memory export with its connections and the list of requests seen.

    hook(request) runs before each request is served (DISC excepted); when it
    returns something true, the server takes the request as answered. A check that
    fails inside the hook fails the with block of the server. With leaves_on_disc
    off, a connection stays after DISC until the driver closes it.
    """

    connection_class = Connection

    def __init__(self, hook=None):
        self.memory = SparseMemory()
        self.hook = hook or (lambda request: False)
        self.requests = []
        self.changed = threading.Condition()
        self.connections = []
        self.failures = []
        self.leaves_on_disc = True

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.hang_up()
        if self.failures and kind is None:
            raise self.failures[0]

    def record(self, request):
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()

    def serve(self, sock):
        connection = self.connection_class(self, sock, len(self.connections))
        self.connections.append(connection)
        connection.start()

    def unix_connection(self):
        """A new connection over a socket pair; gives the client's end."""
        client, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.serve(ours)
        return client

    def tcp_connection(self):
        """A new connection over loopback TCP; gives the client's end."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = socket.create_connection(listener.getsockname())
            ours, _ = listener.accept()
        for end in (client, ours):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.serve(ours)
        return client

    def hang_up(self):
        """Close every connection, as a server that dies."""
        for connection in self.connections:
            connection.close()

    def seen(self, *types):
        """The requests of these types so far, in order."""
        with self.changed:
            return [request for request in self.requests if request.type in types]

    def wait_for(self, kind, count=1, timeout_s=10.0):
        """Wait until so many requests of a type have come, and give them."""
        with self.changed:
            done = self.changed.wait_for(
                lambda: sum(r.type == kind for r in self.requests) >= count, timeout_s
            )
        if not done:
            raise waiting.Expired(f"{count} requests of type {kind}, within {timeout_s} s")
        return self.seen(kind)
