// SPDX-License-Identifier: GPL-2.0

//! A limit on how often something may be said.
//!
//! C header: [`include/linux/ratelimit_types.h`](srctree/include/linux/ratelimit_types.h)

use super::time::{
    elapsed_jiffies,
    jiffies,
    HZ, //
};
use kernel::{
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    time::Jiffies, //
};

/// Length of one window: five seconds.
const INTERVAL_JIFFIES: Jiffies = 5 * HZ as Jiffies;

/// How many are allowed within one window.
const BURST: u32 = 10;

/// Allows [`BURST`] events per window of [`INTERVAL_JIFFIES`], the kernel's usual limit.
///
/// It takes no lock and may be used from any context. Two threads that meet at the start of a
/// window may let one event more through, which does no harm.
///
/// # Examples
///
/// ```ignore
/// static LIMIT: RateLimit = RateLimit::new();
///
/// if LIMIT.allow() {
///     pr_warn!("nbd0: the server sent nonsense\n");
/// }
/// ```
pub(crate) struct RateLimit {
    /// Start of the current window, in jiffies.
    window_start_jiffies: Atomic<Jiffies>,
    /// Events allowed in the current window; 0 means that no window has been opened yet.
    used: Atomic<u32>,
}

impl RateLimit {
    /// Creates a limit of which nothing has been used.
    pub(crate) const fn new() -> Self {
        Self {
            window_start_jiffies: Atomic::new(0),
            used: Atomic::new(0),
        }
    }

    /// Takes one event; returns whether it is within the limit.
    pub(crate) fn allow(&self) -> bool {
        let start_jiffies = self.window_start_jiffies.load(Relaxed);
        let used = self.used.load(Relaxed);

        if used == 0 || elapsed_jiffies(start_jiffies) >= INTERVAL_JIFFIES {
            return self.open_window(start_jiffies);
        }
        self.take_one(used)
    }

    /// Opens a new window and takes its first event.
    fn open_window(&self, old_start_jiffies: Jiffies) -> bool {
        let won = self
            .window_start_jiffies
            .cmpxchg(old_start_jiffies, jiffies(), Relaxed)
            .is_ok();

        if won {
            self.used.store(1, Relaxed);
            return true;
        }
        // Somebody else has just opened it.
        self.take_one(self.used.load(Relaxed))
    }

    /// Takes one event out of the current window, of which `used` have gone.
    fn take_one(&self, mut used: u32) -> bool {
        // The count stops at the burst, so it cannot wrap however many events there are.
        while used < BURST {
            match self.used.cmpxchg(used, used.saturating_add(1), Relaxed) {
                Ok(_) => return true,
                Err(now) => used = now,
            }
        }
        false
    }
}
