// SPDX-License-Identifier: GPL-2.0

//! Size, block size and queue limits of a device. Runs under its control lock, and takes the queue's
//! limits lock within.

#![forbid(unsafe_code)]

use kernel::prelude::*;

use super::{
    super::{
        config::{
            ExportSize,
            Splice, //
        },
        kapi::{
            gendisk::Disk,
            limits::{
                Feature,
                QueueLimits, //
            },
            time::HZ, //
        },
        limits::{
            commit_mode,
            resize_kind,
            Commit,
            Limits,
            Resize, //
        }, //
    },
    refusal,
    state::State,
    Control,
    Device, //
};
use crate::parameters::splice;

/// How long a change of a device's limits waits for others who change them, and on a live device for the
/// requests in flight.
const WAIT_MAX_JIFFIES: usize = 2 * HZ as usize;

/// The limits of a device without a session, for a new disk.
pub(crate) fn idle_limits() -> QueueLimits {
    let mut limits = QueueLimits::new();
    write(&mut limits, &Limits::idle(), Splice::Off);
    limits
}

/// What the user chose when the module was loaded.
pub(crate) fn splicing() -> Splice {
    Splice::parse(splice.get()).unwrap_or_default()
}

/// Hands limits to the block layer.
///
/// What is spliced is read when it leaves, and perhaps again: it must not change until then.
fn write(queue: &mut QueueLimits, limits: &Limits, splicing: Splice) {
    queue.set_block_size(
        limits.logical_block_size_bytes,
        limits.physical_block_size_bytes,
    );
    queue.set_io_size(limits.io_min_bytes, limits.io_opt_bytes);
    queue.set_max_hw_sectors(limits.max_hw_sectors);
    queue.set_max_discard_sectors(limits.max_hw_discard_sectors);
    queue.set_max_write_zeroes_sectors(limits.max_write_zeroes_sectors);
    queue.set_feature(Feature::WriteCache, limits.write_cache);
    queue.set_feature(Feature::Fua, limits.fua);
    queue.set_feature(Feature::Rotational, limits.rotational);
    queue.set_feature(Feature::StableWrites, splicing != Splice::Off);
}

impl Device {
    /// Sets the size: for later if no session runs, at once otherwise.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the block size of a running device cannot be changed because its requests do not
    /// end.
    pub(crate) fn set_size(
        &self,
        disk: &Disk<Self>,
        control: &mut Control,
        size: ExportSize,
    ) -> Result {
        if control.state != State::Running {
            control.settings.size = size;
            return Ok(());
        }
        let flags_changed = control.limits_flags != control.settings.server_flags;
        match resize_kind(control.settings.size, size) {
            Resize::Nothing if !flags_changed => return Ok(()),
            Resize::SizeOnly if !flags_changed => control.settings.size = size,
            _ => {
                let before = core::mem::replace(&mut control.settings.size, size);
                if let Err(error) = self.apply_limits(disk, control) {
                    refusal!(
                        disk,
                        "the limits cannot be changed now: {:?}; try again with less I/O\n",
                        error
                    );
                    control.settings.size = before;
                    return Err(error);
                }
            }
        }
        if !self.apply_capacity(disk, control) {
            disk.notify_change();
        }
        self.scan_soon(disk, control);
        Ok(())
    }

    /// Makes the queue limits those of the export. Without a freeze if no I/O can reach the device.
    pub(super) fn apply_limits(&self, disk: &Disk<Self>, control: &mut Control) -> Result {
        let settings = &control.settings;
        let mut update = disk.limits_update(WAIT_MAX_JIFFIES)?;
        let mode = commit_mode(disk.capacity_sectors(), update.is_write_cache_on());
        write(
            &mut update,
            &Limits::for_export(settings.size, settings.server_flags),
            splicing(),
        );
        match mode {
            Commit::Unfrozen => update.commit_unfrozen()?,
            Commit::Frozen => update.commit_frozen(WAIT_MAX_JIFFIES)?,
        }
        control.limits_flags = settings.server_flags;
        Ok(())
    }

    /// Makes the queue limits those of a device without a session. Nobody has it open, or nothing
    /// is in flight any more, so there is nothing to freeze.
    pub(super) fn reset_limits(&self, disk: &Disk<Self>) {
        let result = disk.limits_update(WAIT_MAX_JIFFIES).and_then(|mut update| {
            write(&mut update, &Limits::idle(), Splice::Off);
            update.commit_unfrozen()
        });
        // The limits are those that the device was made with, and nobody has a reason to hold the lock.
        if let Err(error) = result {
            dev_err!(disk, "cannot reset the queue limits: {:?}\n", error);
        }
    }

    /// Makes the disk as large as the export. Returns whether that has sent a uevent, which it does
    /// only between two sizes that are not 0.
    pub(super) fn apply_capacity(&self, disk: &Disk<Self>, control: &Control) -> bool {
        let size = control.settings.size;
        self.observed.set_size(size);
        let tail_bytes = size.unreachable_tail_bytes();
        if tail_bytes != 0 {
            dev_info!(
                disk,
                "the last {} bytes are no whole block: direct I/O cannot reach them\n",
                tail_bytes
            );
        }
        let told = disk.set_capacity_and_notify(size.capacity_sectors());
        // Not before: an opener who still sees the old size would use the request up.
        self.request_partition_scan(disk);
        told
    }
}
