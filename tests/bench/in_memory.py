# SPDX-License-Identifier: GPL-2.0
"""Programs read into the guest's memory before they are measured.

A guest that counts instructions for time still waits for its host in real time: a page of a
program that has to be fetched through the host's file system shows in what is measured.
"""

import pathlib
import re
import shutil
import subprocess

CHUNK_BYTES = 1 << 20


def warm(*programs):
    """Read these programs (names or files) and every library they are linked with."""
    for name in programs:
        program = shutil.which(name) or name
        done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
        for file in [program, *re.findall(r"(/\S+) \(0x", done.stdout)]:
            _read(pathlib.Path(file))


def _read(path):
    with open(path, "rb") as file:
        while file.read(CHUNK_BYTES):
            pass
