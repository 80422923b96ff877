# SPDX-License-Identifier: GPL-2.0
"""What an operation on a block device costs: freezes, grace periods and quiesces, counted.

Counted over all tasks, from the request to its end and one idle second more, so that what
was moved to a worker counts too; a window of the same length in which nothing is done is
subtracted.
"""

import time

import kernel_calls
import ktap

IDLE_S = 1.0
FREEZE_STARTS = ["__blk_freeze_queue_start", "blk_freeze_queue_start_non_owner"]
FREEZE_WAITS = ["blk_mq_freeze_queue_wait", "blk_mq_freeze_queue_wait_timeout"]
# Past the early return of blk_mq_update_nr_hw_queues(), which has no other caller of this.
HW_QUEUE_CHANGES = ["blk_mq_sysfs_unregister_hctxs"]
# synchronize_rcu() ends in one of the first two; whoever waits for a call_rcu() of his own
# ends in __wait_rcu_gp().
RCU_WAITS = ["synchronize_rcu_normal", "synchronize_rcu_expedited", "rcu_barrier",
             "kvfree_rcu_barrier"]
RCU_WAIT = "__wait_rcu_gp"
SRCU_WAITS = ["__synchronize_srcu", "srcu_barrier"]
QUIESCES = ["blk_mq_quiesce_queue", "blk_mq_quiesce_tagset"]
QUIESCE = "blk_mq_quiesce_queue_nowait"
# Not grace periods, but none of them cheap. That thread does them for itself.
OTHERS_SLOW = ["khugepaged"]
SLOW = ["elevator_change", "lru_add_drain_all", "__flush_workqueue"]
# A reference count per CPU that is killed, by a freeze or by anybody else, takes a grace period
# from this function. The killing itself cannot be traced, nor a wait for it.
REF_SWITCH = "call_rcu_hurry"

COLUMNS = ["freeze", "rcu", "srcu", "quiesce", "hw_queues", "ref_kill", "slow"]
FREE = dict.fromkeys(COLUMNS, 0)


def columns(calls):
    """The table's columns for some calls."""
    return {
        "freeze": max(calls.of(*FREEZE_STARTS), calls.of(*FREEZE_WAITS)),
        "rcu": calls.of(*RCU_WAITS)
        + calls.of(RCU_WAIT, without_callers=RCU_WAITS),
        "srcu": calls.of(*SRCU_WAITS),
        "quiesce": calls.of(*QUIESCES) + calls.of(QUIESCE, without_callers=QUIESCES),
        "hw_queues": calls.of(*HW_QUEUE_CHANGES),
        "ref_kill": calls.of(REF_SWITCH, callers_with="percpu_ref"),
        "slow": calls.of(*SLOW, without_callers=OTHERS_SLOW),
    }


class Row:
    """One line of the table."""

    def __init__(self, operation, calls):
        self.operation = operation
        self.calls = calls
        self.costs = columns(calls)

    def __str__(self):
        return f"{self.operation:52}" + "".join(f"{self.costs[name]:10}" for name in COLUMNS)

    def at_least(self, **bars):
        """Fail unless these columns reach their bars: what is known of the C driver."""
        for name, bar in bars.items():
            ktap.true(self.costs[name] >= bar, f"{name}: {self.costs[name]}, expected {bar}")

    def exactly(self, **bars):
        """Fail unless the columns are these, and nought where none is named."""
        ktap.equal(self.costs, FREE | bars, self.operation)

    def at_most(self, **bars):
        """Fail unless the columns are no more than these, and nought where none is named."""
        for name, bar in (FREE | bars).items():
            ktap.true(self.costs[name] <= bar, f"{name}: {self.costs[name]}, allowed {bar}")


class Costs:
    """Measures operations; keeps the rows."""

    def __init__(self):
        self.rows = []
        functions = [*FREEZE_STARTS, *FREEZE_WAITS, *HW_QUEUE_CHANGES, *RCU_WAITS, RCU_WAIT,
                     *SRCU_WAITS, *QUIESCES, QUIESCE, *SLOW,
                     REF_SWITCH]
        self.counter = kernel_calls.Counter(functions)

    def __enter__(self):
        self.counter.__enter__()
        return self

    def __exit__(self, *details):
        self.counter.__exit__(*details)

    def measure(self, operation, function):
        """Call a function, which returns when the operation has ended; gives its row."""
        with self.counter.counting() as calls:
            started = time.monotonic()
            function()
            time.sleep(IDLE_S)
            length_s = time.monotonic() - started
        with self.counter.counting() as control:
            time.sleep(length_s)
        row = Row(operation, calls.minus(control))
        for line in row.calls.lines():
            ktap.note(line)
        self.rows.append(row)
        return row

    def table(self):
        """All rows, as text."""
        head = f"{'operation':52}" + "".join(f"{name:>10}" for name in COLUMNS)
        return "\n".join([head, *map(str, self.rows)])
