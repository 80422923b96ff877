# SPDX-License-Identifier: GPL-2.0
"""The uevents of one disk as the kernel sends them, without those that udev makes."""

import os
import socket

import waiting

NETLINK_KOBJECT_UEVENT = 15
KERNEL_GROUP = 1
RECEIVE_BUFFER_BYTES = 1 << 20


class Uevent:
    """One uevent: its action, its properties, and what sysfs said when it was read."""

    def __init__(self, properties, seen):
        self.action = properties["ACTION"]
        self.properties = properties
        self.seen = seen

    def summary(self):
        """The action and what makes it special, in one word."""
        special = [f"{name}={self.properties[name]}" for name in ("RESIZE", "DISK_RO")
                   if name in self.properties]
        return " ".join([self.action, *special])


class Monitor:
    """The kernel's own uevents of one block device, in order.

    look() runs when an event is read, and what it gives is kept with the event.
    """

    def __init__(self, name, look=lambda: None):
        self.name = name
        self.look = look
        self.events = []
        self.sock = socket.socket(
            socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self.sock.bind((0, KERNEL_GROUP))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def poll(self):
        """Read what has come; gives all events since take()."""
        while True:
            try:
                data = self.sock.recv(1 << 16)
            except BlockingIOError:
                return self.events
            fields = [part.partition("=") for part in data.decode().split("\0")]
            properties = {key: value for key, mark, value in fields if mark}
            # udev's inotify watch writes synthetic ones.
            if properties.get("SYNTH_UUID") or properties.get("SUBSYSTEM") != "block":
                continue
            if os.path.basename(properties["DEVPATH"]) == self.name:
                self.events.append(Uevent(properties, self.look()))

    def wait(self, count, timeout_s=5.0):
        """Wait until so many have come since take()."""
        waiting.until(lambda: len(self.poll()) >= count, f"{count} uevents", timeout_s)
        return self.events

    def take(self):
        """The summaries of the events since the last take()."""
        self.poll()
        events, self.events = self.events, []
        return [event.summary() for event in events]
