# SPDX-License-Identifier: GPL-2.0
"""The servers that devices are attached to: one of each kind and transport, for a whole run.

"null" throws writes away and reads zeros, "memory" keeps what is written; both are nbdkit. With one
thread for each connection (-t 1) the server costs least, so that the driver weighs most.
"""

import contextlib
import pathlib

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

    def threads(self):
        """The thread numbers of all servers, as they are now."""
        return {
            int(task.name)
            for address in self.running.values()
            for task in pathlib.Path(f"/proc/{address.process.pid}/task").iterdir()
        }

