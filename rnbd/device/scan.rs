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
    new_delayed_work,
    new_spinlock,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::Relaxed,
        Arc,
        SpinLock, //
    },
    time::Jiffies,
    workqueue::{
        impl_has_delayed_work,
        DelayedWork,
        WorkItem, //
    }, //
};

use super::{
    super::{
        kapi::{
            gendisk::Disk,
            workqueue::cancel_delayed_arc, //
        },
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
    work: DelayedWork<Scan>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Scan { self.work }
}

/// Whoever starts or resizes a session is not to share its processor with what follows: the task that
/// scans would run before a connect has been answered.
const DELAY_JIFFIES: Jiffies = 1;

impl Scan {
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                disk <- new_spinlock!(None, "rnbd::Scan::disk"),
                work <- new_delayed_work!("rnbd::Scan"),
            }),
            GFP_KERNEL,
        )
    }

    fn take_disk(&self) -> Option<ARef<Disk<Device>>> {
        self.disk.lock().take()
    }

    fn start(self: &Arc<Self>, disk: &Disk<Device>, delay_jiffies: Jiffies) {
        let before = self.disk.lock().replace(disk.into());
        drop(before);
        // While the module is being unloaded there is nobody to show partitions to.
        if registry::scan(self.clone(), delay_jiffies).is_err() {
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
            scan.start(disk, DELAY_JIFFIES);
        }
    }

    /// Drops the partitions of a session that is over: however they have come, they go. No scan is
    /// delayed any more when this returns.
    pub(super) fn drop_partitions(&self, disk: &Disk<Self>, control: &Control) {
        let Some(scan) = &control.scan else { return };
        if disk.has_partitions() {
            disk.request_partition_scan();
            scan.start(disk, 0);
        } else {
            cancel_delayed_arc(scan);
            drop(scan.take_disk());
        }
    }
}
