# SPDX-License-Identifier: GPL-2.0
"""The workloads of fio, and how one fio process runs a list of them one after the other."""

import dataclasses
import json
import subprocess

FIO_TIMEOUT_S = 1800
GLOBAL = """[global]
filename={node}
direct=1
ioengine=io_uring
norandommap=1
group_reporting=1
"""


@dataclasses.dataclass(frozen=True)
class Job:
    """One workload: `count` requests of `block_bytes`, `batch` of them at a time."""

    name: str
    pattern: str
    block_bytes: int
    depth: int
    count: int
    jobs: int = 1
    batch: int = 1
    extra: tuple = ()

    def section(self):
        lines = [f"[{self.name}]", "stonewall", f"rw={self.pattern}", f"bs={self.block_bytes}"]
        lines += [f"iodepth={self.depth}", f"number_ios={self.count // self.jobs}"]
        lines += [f"numjobs={self.jobs}"] if self.jobs > 1 else []
        if self.batch > 1:
            # Refill the queue by batches, and take what has come without waiting for more.
            lines += [
                f"iodepth_batch_submit={self.batch}",
                f"iodepth_low={self.depth - self.batch}",
                "iodepth_batch_complete_min=1",
                f"iodepth_batch_complete_max={self.depth}",
            ]
        return "\n".join([*lines, *self.extra]) + "\n"


def run(node, jobs):
    """Run these jobs on the device; gives fio's report of each, in their order."""
    text = GLOBAL.format(node=node) + "".join(job.section() for job in jobs)
    done = subprocess.run(
        ["fio", "--output-format=json", "-"],
        input=text, capture_output=True, text=True, timeout=FIO_TIMEOUT_S, check=False,
        cwd="/dev/shm",
    )
    if done.returncode:
        raise OSError(f"fio: status {done.returncode}: {done.stderr} {done.stdout[-2000:]}")
    reports = json.loads(done.stdout)["jobs"]
    if [report["jobname"] for report in reports] != [job.name for job in jobs]:
        raise OSError(f"fio reports {[report['jobname'] for report in reports]}")
    return reports


def figures(report):
    """What is kept of a report: requests, requests a second, latency in microseconds."""
    sides = [report[side] for side in ("read", "write") if report[side]["total_ios"]]
    requests = sum(side["total_ios"] for side in sides)
    runtime_ms = max(side["runtime"] for side in sides)
    latency_ns = sum(side["clat_ns"]["mean"] * side["total_ios"] for side in sides) / requests
    worst_ns = max(side["clat_ns"]["percentile"]["99.000000"] for side in sides)
    return {
        "requests": requests,
        "iops": requests * 1000 / runtime_ms,
        "latency_us": latency_ns / 1000,
        "latency_p99_us": worst_ns / 1000,
    }
