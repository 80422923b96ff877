// SPDX-License-Identifier: GPL-2.0

//! The partitions of a disk: asking for a scan, having one done, and whether there are any.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)

use core::ptr;

use kernel::{
    bindings,
    error::from_err_ptr,
    prelude::*, //
};

use super::{
    gendisk::Disk,
    mq::Driver, //
};

/// `BLK_OPEN_READ`, a macro that bindgen does not see.
const BLK_OPEN_READ: bindings::blk_mode_t = 1 << 0;

/// `XA_PRESENT`, a macro that bindgen does not see either.
const XA_PRESENT: bindings::xa_mark_t = 8;

impl<T: Driver> Disk<T> {
    /// Makes the next open look for partitions.
    pub(crate) fn request_partition_scan(&self) {
        // SAFETY: Live gendisk; `set_bit()` is atomic.
        unsafe {
            bindings::set_bit(
                bindings::GD_NEED_PART_SCAN as usize,
                &raw mut (*self.raw()).state,
            )
        };
    }

    /// Whether the disk has partitions.
    pub(crate) fn has_partitions(&self) -> bool {
        // The disk itself is number 0.
        let mut number: c_ulong = 1;
        // SAFETY: Live gendisk; `xa_find()` takes care of its own locking, and what it returns is not
        // used.
        let partition = unsafe {
            bindings::xa_find(
                &raw mut (*self.raw()).part_tbl,
                &mut number,
                c_ulong::MAX,
                XA_PRESENT,
            )
        };
        !partition.is_null()
    }

    /// Opens the disk for reading and closes it again, which scans for partitions if that has been
    /// requested. The driver's own `open` and `release` are called by this task. May sleep.
    ///
    /// # Errors
    ///
    /// Whatever opening fails with.
    pub(crate) fn open_and_close(&self) -> Result {
        // SAFETY: Live gendisk; without a holder there is nothing to pass on.
        let file = from_err_ptr(unsafe {
            bindings::bdev_file_open_by_dev(
                (*(*self.raw()).part0).bd_dev,
                BLK_OPEN_READ,
                ptr::null_mut(),
                ptr::null(),
            )
        })?;
        // SAFETY: The file was just opened, and its only reference is ours. May be called by tasks of
        // the kernel, which all work is done by.
        unsafe { bindings::__fput_sync(file) };
        Ok(())
    }
}
