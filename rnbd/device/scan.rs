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
    new_work,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::Relaxed, //
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

/// One look for partitions.
#[pin_data]
pub(crate) struct Scan {
    disk: ARef<Disk<Device>>,
    #[pin]
    work: Work<Scan>,
}

impl_has_work! {
    impl HasWork<Self> for Scan { self.work }
}

impl Scan {
    /// Of this disk.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(disk: &Disk<Device>) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                disk: disk.into(),
                work <- new_work!("rnbd::Scan"),
            }),
            GFP_KERNEL,
        )
    }
}

impl WorkItem for Scan {
    type Pointer = Pin<KBox<Self>>;

    fn run(this: Pin<KBox<Self>>) {
        let disk = &this.disk;
        // Two scans of a disk wait for each other here, so there is one scanner at a time.
        let _one_at_a_time = disk.scan_lock.lock();
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

    /// Looks for partitions soon. Without memory it is left to the next opener.
    pub(super) fn scan_soon(&self, disk: &Disk<Self>) {
        if !self.numbering.scans_partitions() {
            return;
        }
        if let Ok(scan) = Scan::new(disk) {
            registry::scan(scan);
        }
    }

    /// Drops the partitions of a session that is over: however they have come, they go.
    pub(super) fn drop_partitions(&self, disk: &Disk<Self>, control: &mut Control) {
        let scan = control.last_scan.take();
        if !disk.has_partitions() {
            return;
        }
        disk.request_partition_scan();
        if let Some(scan) = scan {
            registry::scan(scan);
        }
    }
}
