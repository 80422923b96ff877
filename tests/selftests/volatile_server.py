# SPDX-License-Identifier: GPL-2.0
"""A scripted server with a volatile cache that can be killed and started again."""

import random
import threading

import nbd_server


class VolatileServer(nbd_server.Server):
    """What was written and not flushed may be lost by crash(); the rest may not.

    A request of a run that has been killed is neither carried out nor answered.
    """

    def __init__(self, seed, delay=lambda: None):
        super().__init__(self._carry_out)
        self.random = random.Random(seed)
        self.delay = delay
        self.lock = threading.Lock()
        self.run_number = 0
        self.unflushed = []  # (offset, data) in the order in which they were carried out
        self.durable = nbd_server.SparseMemory()
        self.lost = 0
        self.kept = 0

    def serve(self, sock):
        super().serve(sock)
        self.connections[-1].run_number = self.run_number

    def crash(self, loses_cache):
        """End this run as a kill does: nothing more is carried out, connections close."""
        with self.lock:
            self.run_number += 1
            for offset, data in self.unflushed:
                # Of a lost cache some may have reached the disk, in any order.
                if loses_cache and self.random.random() < 0.5:
                    self.lost += 1
                else:
                    self.kept += 1
                    self.durable.write(offset, data)
            self.unflushed = []
            self.memory = nbd_server.SparseMemory()
            for number, page in self.durable.pages.items():
                self.memory.pages[number] = bytearray(page)
        self.hang_up()
        self.connections.clear()

    def _carry_out(self, request):
        self.delay()
        with self.lock:
            if request.connection.run_number != self.run_number:
                return True
            self._apply(request)
        # The kill may also come between the deed and the answer.
        self.delay()
        if request.connection.run_number == self.run_number:
            request.reply(data=request.answer)
        return True

    def _apply(self, request):
        request.answer = b""
        if request.type == nbd_server.READ:
            request.answer = self.memory.read(request.offset, request.length)
        elif request.type == nbd_server.WRITE:
            self.memory.write(request.offset, request.data)
            self.unflushed.append((request.offset, request.data))
        if request.type == nbd_server.FLUSH or request.flags & nbd_server.CMD_FLAG_FUA:
            self._flush(request)

    def _flush(self, request):
        """A flush makes all durable that was carried out; FUA its own bytes."""
        if request.type == nbd_server.FLUSH:
            for offset, data in self.unflushed:
                self.durable.write(offset, data)
            self.unflushed = []
        else:
            # Older unflushed bytes of the same place must not come up again.
            self.unflushed = [(offset, data) for offset, data in self.unflushed
                              if offset != request.offset]
            self.durable.write(request.offset, request.data)
