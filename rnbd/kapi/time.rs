// SPDX-License-Identifier: GPL-2.0

//! Reading clocks: jiffies and their rate, and the monotonic clock.
//!
//! C headers: [`include/linux/jiffies.h`](srctree/include/linux/jiffies.h),
//! [`include/linux/timekeeping.h`](srctree/include/linux/timekeeping.h)

use kernel::{
    bindings,
    time::Jiffies, //
};

/// Jiffies per second of the running kernel.
///
/// This is the configured rate; `bindings::HZ` is the fixed rate of 100 that user space sees.
pub(crate) const HZ: u32 = bindings::CONFIG_HZ;

const NS_PER_MS: u64 = 1_000_000;

/// Returns the current time in jiffies. The counter wraps; compare by [`elapsed_jiffies`].
pub(crate) fn jiffies() -> Jiffies {
    // SAFETY: `jiffies` is a kernel global that is always readable; the timer interrupt writes it
    // concurrently, which the volatile access accounts for, like the C declaration does.
    unsafe { (&raw const bindings::jiffies).read_volatile() }
}

/// Returns the time since boot on the monotonic clock, which the times in the kernel's log follow.
pub(crate) fn monotonic_ms() -> u64 {
    // SAFETY: May be called everywhere but in an NMI.
    let now_ns = unsafe { bindings::ktime_get() };
    u64::try_from(now_ns).unwrap_or(0) / NS_PER_MS
}

/// Returns how many jiffies have passed since `since_jiffies`, correct across a wrap.
pub(crate) fn elapsed_jiffies(since_jiffies: Jiffies) -> Jiffies {
    jiffies().wrapping_sub(since_jiffies)
}

/// Returns whether `deadline_jiffies` has come, correct across a wrap.
pub(crate) fn is_past(deadline_jiffies: Jiffies) -> bool {
    elapsed_jiffies(deadline_jiffies) <= Jiffies::MAX / 2
}
