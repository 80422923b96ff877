// SPDX-License-Identifier: GPL-2.0

//! Looking for partitions in a work item of the driver's own, so that they appear and vanish without
//! anybody's help.
//!
//! The block layer scans when a disk with a pending request for it is opened. So the work opens the disk
//! and closes it again. That is no opener in the sense of [`Control::openers`]: it keeps no session from
//! ending and no device from being connected, and its close ends nothing.

#![forbid(unsafe_code)]

use kernel::{
    current,
    new_spinlock,
    new_work,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::Relaxed,
        Arc,
        SpinLock, //
    },
    workqueue::{
        impl_has_work,
        Work,
        WorkItem, //
    }, //
};

use super::{
    super::{
        kapi::gendisk::Disk,
        registry, //
    },
    Control,
    Device, //
};

/// Looks for the partitions of a disk, once after each time that it was asked to.
#[pin_data]
pub(crate) struct Scan {
    /// Set as long as the work is queued.
    #[pin]
    disk: SpinLock<Option<ARef<Disk<Device>>>>,
    #[pin]
    work: Work<Scan>,
}

impl_has_work! {
    impl HasWork<Self> for Scan { self.work }
}

impl Scan {
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                disk <- new_spinlock!(None, "rnbd::Scan::disk"),
                work <- new_work!("rnbd::Scan"),
            }),
            GFP_KERNEL,
        )
    }

    fn take_disk(&self) -> Option<ARef<Disk<Device>>> {
        self.disk.lock().take()
    }

    fn soon(self: &Arc<Self>, disk: &Disk<Device>) {
        let before = self.disk.lock().replace(disk.into());
        drop(before);
        // While the module is being unloaded there is nobody to show partitions to.
        if registry::scan(self.clone()).is_err() {
            drop(self.take_disk());
        }
    }
}

impl WorkItem for Scan {
    type Pointer = Arc<Self>;

    /// Two of one disk never run at the same time.
    fn run(this: Arc<Self>) {
        let Some(disk) = this.take_disk() else { return };
        disk.scanner.store(current!().pid(), Relaxed);
        // A disk that cannot be opened is on its way out; an error while reading is in the log.
        let _ = disk.open_and_close();
        disk.scanner.store(NO_SCANNER, Relaxed);
    }
}

/// No task has this number.
pub(super) const NO_SCANNER: i32 = 0;

impl Device {
    /// Whether the running task is the one that scans this disk.
    pub(super) fn is_scanner(&self) -> bool {
        self.scanner.load(Relaxed) == current!().pid()
    }

    /// Asks for a scan by whoever opens the disk next, if the user wants partitions at all.
    pub(super) fn request_partition_scan(&self, disk: &Disk<Self>) {
        if self.numbering.scans_partitions() {
            disk.request_partition_scan();
        }
    }

    /// Looks for partitions soon, if the user wants any.
    pub(super) fn scan_soon(&self, disk: &Disk<Self>, control: &Control) {
        if !self.numbering.scans_partitions() {
            return;
        }
        if let Some(scan) = &control.scan {
            scan.soon(disk);
        }
    }

    /// Drops the partitions of a session that is over: however they have come, they go.
    pub(super) fn drop_partitions(&self, disk: &Disk<Self>, control: &Control) {
        if !disk.has_partitions() {
            return;
        }
        disk.request_partition_scan();
        if let Some(scan) = &control.scan {
            scan.soon(disk);
        }
    }
}
