// SPDX-License-Identifier: GPL-2.0
//! Seconds as the user gives them, jiffies as the timers take them: two pure functions, no lock.
//!
//! Both saturate: a wait too long to be told from "for ever" becomes the longest one (about 24 days
//! at 1000 Hz), never a short one.

#![forbid(unsafe_code)]

/// The longest timeout, just below [`i32::MAX`], so that it is positive in every C type it meets.
const LONGEST_JIFFIES: u32 = (u32::MAX >> 1) - 1;

/// Converts a request timeout from seconds to jiffies; `hz` is the number of jiffies in a second.
///
/// Zero stays zero and means that no timeout is set. The result is below [`i32::MAX`].
pub(crate) fn timeout_jiffies(seconds: u64, hz: u32) -> u32 {
    u32::try_from(seconds.saturating_mul(u64::from(hz)))
        .unwrap_or(u32::MAX)
        .min(LONGEST_JIFFIES)
}

/// Converts a dead-connection timeout from seconds to jiffies, for a wait that takes a signed long.
///
/// Zero stays zero and means that a request without a live connection fails at once. The result is
/// below [`i32::MAX`], and so positive in a signed long of any width.
pub(crate) fn dead_connection_jiffies(seconds: u64, hz: u32) -> u64 {
    u64::from(timeout_jiffies(seconds, hz))
}
