// SPDX-License-Identifier: GPL-2.0
//! Which connections a hardware queue serves: pure arithmetic on two counts, no lock.
//!
//! The number of hardware queues is fixed when a device is made, the number of connections changes
//! with every session. Mapping one onto the other by arithmetic means that a connect never has to
//! change the queues, and so never has to freeze them.

#![forbid(unsafe_code)]

/// The spread of connections over hardware queues, both numbered from zero.
///
/// | counts                 | queue `q` serves                                     |
/// | ---------------------- | ---------------------------------------------------- |
/// | connections >= queues  | every connection `c` with `c % queues == q`, in turn |
/// | connections < queues   | connection `q % connections`                         |
///
/// With as many connections as queues each queue has its own connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    /// The number of hardware queues.
    pub(crate) queues: u32,
    /// The number of connections.
    pub(crate) connections: u32,
}

impl Spread {
    /// Returns how many connections `queue` serves: none if there is no such queue or no connection.
    pub(crate) fn count(&self, queue: u32) -> u32 {
        if queue >= self.queues || self.connections == 0 {
            return 0;
        }
        if self.connections < self.queues {
            return 1;
        }
        // Those of `queue..connections` whose distance from `queue` is a multiple of `queues`.
        self.connections.saturating_sub(queue).div_ceil(self.queues)
    }

    /// Returns the connection whose turn it is, or [`None`] if `queue` serves none.
    ///
    /// The turns may count on without end: they wrap around the connections that `queue` serves.
    pub(crate) fn nth(&self, queue: u32, turn: u32) -> Option<u32> {
        let round = turn.checked_rem(self.count(queue))?;
        if self.connections < self.queues {
            return queue.checked_rem(self.connections);
        }
        round.checked_mul(self.queues)?.checked_add(queue)
    }
}
