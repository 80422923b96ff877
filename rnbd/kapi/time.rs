// SPDX-License-Identifier: GPL-2.0

//! The jiffies clock: reading it and its rate.
//!
//! C header: [`include/linux/jiffies.h`](srctree/include/linux/jiffies.h)

use kernel::{
    bindings,
    time::Jiffies, //
};

/// Jiffies per second of the running kernel.
///
/// This is the configured rate; `bindings::HZ` is the fixed rate of 100 that user space sees.
pub(crate) const HZ: u32 = bindings::CONFIG_HZ;

/// Returns the current time in jiffies. The counter wraps; compare by [`elapsed_jiffies`].
pub(crate) fn jiffies() -> Jiffies {
    // SAFETY: `jiffies` is a kernel global that is always readable; the timer interrupt writes it
    // concurrently, which the volatile access accounts for, like the C declaration does.
    unsafe { (&raw const bindings::jiffies).read_volatile() }
}

/// Returns how many jiffies have passed since `since_jiffies`, correct across a wrap.
pub(crate) fn elapsed_jiffies(since_jiffies: Jiffies) -> Jiffies {
    jiffies().wrapping_sub(since_jiffies)
}

/// Returns whether `deadline_jiffies` has come, correct across a wrap.
pub(crate) fn is_past(deadline_jiffies: Jiffies) -> bool {
    elapsed_jiffies(deadline_jiffies) <= Jiffies::MAX / 2
}
