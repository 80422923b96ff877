// SPDX-License-Identifier: GPL-2.0

//! Queue limits: setting them for a new disk, and changing them on a live one with or without a
//! freeze.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)
//!
//! A change holds the queue's `limits_lock` from [`Disk::limits_update`] to the commit.

use core::{
    mem::ManuallyDrop,
    ops::{
        Deref,
        DerefMut, //
    }, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    time::{
        delay::fsleep,
        Delta,
        Jiffies, //
    }, //
};

use super::{
    credentials::NoIo,
    gendisk::Disk,
    mq::Driver,
    time::{
        elapsed_jiffies,
        jiffies, //
    }, //
};

/// What a queue can do besides reading and writing (`BLK_FEAT_*`, of which bindgen sees one).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Feature {
    /// There is a volatile write cache, so flushes matter.
    WriteCache = 1 << 0,
    /// A write can be made durable by a flag of its own.
    Fua = 1 << 1,
    /// Pages do not change while they are written.
    StableWrites = 1 << 5,
    /// Seeking costs time.
    Rotational = bindings::BLK_FEAT_ROTATIONAL,
}

/// `BLK_FLAG_WRITE_CACHE_DISABLED`: the user has switched the write cache off in sysfs.
const FLAG_WRITE_CACHE_DISABLED: u32 = 1 << 0;

/// How long to wait before the lock of the limits is tried again.
const LOCK_RETRY: Delta = Delta::from_millis(5);

/// The limits of a queue, before the block layer validates them.
pub(crate) struct QueueLimits(bindings::queue_limits);

impl QueueLimits {
    /// Everything at the block layer's default; segments of a request are not limited, since a
    /// stream socket takes any number.
    pub(crate) fn new() -> Self {
        Self(bindings::queue_limits {
            max_segments: u16::MAX,
            max_segment_size: u32::MAX,
            ..pin_init::zeroed()
        })
    }

    pub(super) fn initial(&self) -> bindings::queue_limits {
        self.0
    }

    /// Smallest unit that can be addressed, and that can be written without read-modify-write.
    pub(crate) fn set_block_size(&mut self, logical_bytes: u32, physical_bytes: u32) {
        self.0.logical_block_size = logical_bytes;
        self.0.physical_block_size = physical_bytes;
    }

    /// Smallest and best request sizes, as hints.
    pub(crate) fn set_io_size(&mut self, min_bytes: u32, opt_bytes: u32) {
        self.0.io_min = min_bytes;
        self.0.io_opt = opt_bytes;
    }

    /// Largest request.
    pub(crate) fn set_max_hw_sectors(&mut self, sectors: u32) {
        self.0.max_hw_sectors = sectors;
    }

    /// Largest discard; 0 if there is none.
    pub(crate) fn set_max_discard_sectors(&mut self, sectors: u32) {
        self.0.max_hw_discard_sectors = sectors;
    }

    /// Largest write-zeroes; 0 if there is none.
    pub(crate) fn set_max_write_zeroes_sectors(&mut self, sectors: u32) {
        self.0.max_write_zeroes_sectors = sectors;
    }

    /// Switches a feature on or off.
    pub(crate) fn set_feature(&mut self, feature: Feature, on: bool) {
        if on {
            self.0.features |= feature as u32;
        } else {
            self.0.features &= !(feature as u32);
        }
    }

    /// Whether flushes are sent: the feature is there and the user has not switched it off.
    pub(crate) fn is_write_cache_on(&self) -> bool {
        self.0.features & Feature::WriteCache as u32 != 0
            && self.0.flags & FLAG_WRITE_CACHE_DISABLED == 0
    }
}

/// A change of a disk's limits in progress. Dropping it leaves the limits as they were.
///
/// # Invariants
///
/// The queue's `limits_lock` is held by the current task.
pub(crate) struct LimitsUpdate<'a, T: Driver> {
    disk: &'a Disk<T>,
    limits: QueueLimits,
    _not_send: kernel::types::NotThreadSafe,
}

impl<T: Driver> Disk<T> {
    /// Starts a change of the limits (`queue_limits_start_update()`).
    ///
    /// Sleeps for at most `timeout_jiffies`: a write to the queue's sysfs files holds the lock while
    /// it waits for requests in flight.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the lock was not to be had in time.
    pub(crate) fn limits_update(&self, timeout_jiffies: Jiffies) -> Result<LimitsUpdate<'_, T>> {
        let queue = self.queue();
        let start_jiffies = jiffies();
        // SAFETY: Live queue.
        while unsafe { bindings::mutex_trylock(&raw mut (*queue).limits_lock) } == 0 {
            if elapsed_jiffies(start_jiffies) >= timeout_jiffies {
                return Err(EBUSY);
            }
            fsleep(LOCK_RETRY);
        }
        // INVARIANT: Just locked.
        Ok(LimitsUpdate {
            disk: self,
            // SAFETY: Live queue; its limits may be read under this lock.
            limits: QueueLimits(unsafe { (*queue).limits }),
            _not_send: kernel::types::NotThreadSafe,
        })
    }
}

impl<T: Driver> Deref for LimitsUpdate<'_, T> {
    type Target = QueueLimits;

    fn deref(&self) -> &QueueLimits {
        &self.limits
    }
}

impl<T: Driver> DerefMut for LimitsUpdate<'_, T> {
    fn deref_mut(&mut self) -> &mut QueueLimits {
        &mut self.limits
    }
}

impl<T: Driver> LimitsUpdate<'_, T> {
    /// Commits without a freeze: for a queue that no I/O can reach, or which does not care.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the block layer does not accept the limits; they stay as they were.
    pub(crate) fn commit_unfrozen(self) -> Result {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: Live queue, and by the type invariant the lock is held, which this releases.
        to_result(unsafe {
            bindings::queue_limits_commit_update(this.disk.queue(), &mut this.limits.0)
        })
    }

    /// Commits with the queue frozen, waiting at most `timeout_jiffies` for requests in flight.
    ///
    /// # Errors
    ///
    /// `EBUSY` if they did not end in time, `EINVAL` as for [`LimitsUpdate::commit_unfrozen`]. The
    /// limits stay as they were.
    pub(crate) fn commit_frozen(self, timeout_jiffies: usize) -> Result {
        let queue = self.disk.queue();
        // Memory must not be reclaimed through a queue that this task has frozen.
        let _no_io = NoIo::enter();
        // SAFETY: Live queue; every start is paired with the unfreeze below.
        let drained = unsafe {
            bindings::blk_freeze_queue_start(queue);
            bindings::blk_mq_freeze_queue_wait_timeout(queue, timeout_jiffies) != 0
        };
        let result = if drained {
            self.commit_unfrozen()
        } else {
            drop(self);
            Err(EBUSY)
        };
        // SAFETY: Frozen above.
        unsafe { bindings::blk_mq_unfreeze_queue_nomemrestore(queue) };
        result
    }
}

impl<T: Driver> Drop for LimitsUpdate<'_, T> {
    fn drop(&mut self) {
        // SAFETY: Live queue, and by the type invariant the lock is held.
        unsafe { bindings::mutex_unlock(&raw mut (*self.disk.queue()).limits_lock) };
    }
}
