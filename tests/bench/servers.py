# SPDX-License-Identifier: GPL-2.0
"""The servers that devices are attached to: one of each kind and transport, for a whole run.

"null" throws writes away and reads zeros, "memory" keeps what is written; both are nbdkit, with one
thread for each connection (-t 1), under the load of fio. "bare" is a server and a load of our own
that cost least.
"""

import contextlib
import pathlib

import bare
import fio_jobs
import server_process

SIZE_BYTES = 64 << 20


class Servers(contextlib.ExitStack):
    """Starts a server when it is first asked for; all end with the with block."""

    def __init__(self):
        super().__init__()
        self.running = {}

    def address(self, kind, transport):
        key = (kind, transport)
        if key not in self.running:
            server = server_process.nbdkit(
                kind, str(SIZE_BYTES), tcp=transport == "tcp", options=["-t", "1"]
            )
            self.running[key] = self.enter_context(server)
        return self.running[key]

    @contextlib.contextmanager
    def attached(self, session, index=0):
        """A device with the server and the connections of this session."""
        if session.server == bare.KIND:
            with bare.attached(session.transport, session.connections, index) as (device, server):
                self.running[bare.KIND] = server
                try:
                    yield device
                finally:
                    del self.running[bare.KIND]
            return
        address = self.address(session.server, session.transport)
        with server_process.nbd_client(address, index, session.connections) as device:
            yield device

    def run(self, session, node, jobs):
        """Run these jobs one after the other; gives the figures of each."""
        if session.server == bare.KIND:
            return bare.run(node, jobs)
        return [fio_jobs.figures(report) for report in fio_jobs.run(node, jobs)]

    def threads(self):
        """The thread numbers of all servers, as they are now."""
        return {
            int(task.name)
            for address in self.running.values()
            for task in pathlib.Path(f"/proc/{address.process.pid}/task").iterdir()
        }
