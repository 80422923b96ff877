// SPDX-License-Identifier: GPL-2.0

//! Removing devices in the background, side by side: deleting a disk takes several grace periods, and may
//! not be done by who has it open or holds one of its locks.

#![forbid(unsafe_code)]

use kernel::{
    new_work,
    prelude::*,
    rbtree::RBTree,
    workqueue::{
        impl_has_work,
        Work,
        WorkItem, //
    }, //
};

use super::{
    super::{
        device::Device,
        kapi::{
            gendisk::AddedDisk,
            workqueue::OwnedQueue, //
        }, //
    },
    forget,
    with,
    Availability,
    Entry, //
};

/// Removes the devices side by side: each takes some grace periods of its own.
pub(super) fn remove_all(mut devices: RBTree<u32, Entry>, removals: &OwnedQueue) {
    loop {
        let Some(index) = devices.keys().next().copied() else {
            return;
        };
        let Some(Entry::Live(disk)) = devices.remove(&index) else {
            continue;
        };
        // Without memory the disk is dropped, and so removed, right here.
        if let Ok(removal) = Removal::new(index, Some(disk)) {
            removals.enqueue(removal);
        }
    }
}

/// The removal of a device, allocated before it is needed so that it cannot fail.
#[pin_data]
pub(crate) struct Removal {
    index: u32,
    disk: Option<AddedDisk<Device>>,
    #[pin]
    work: Work<Removal>,
}

impl_has_work! {
    impl HasWork<Self> for Removal { self.work }
}

impl Removal {
    /// Of the device `index`; its disk, if it is not in the registry any more.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(index: u32, disk: Option<AddedDisk<Device>>) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                index,
                disk,
                work <- new_work!("rnbd::Removal"),
            }),
            GFP_KERNEL,
        )
    }
}

impl WorkItem for Removal {
    type Pointer = Pin<KBox<Self>>;

    fn run(this: Pin<KBox<Self>>) {
        let index = this.index;
        // Of a registry that has been closed only the disk is left to remove.
        drop(this);
        let entry = with(|registry| {
            registry.indexes.set_available(index, Availability::Taken);
            let entry = registry.devices.get_mut(&index).ok_or(ENODEV)?;
            Ok(core::mem::replace(entry, Entry::Removing))
        });
        let Ok(Entry::Live(disk)) = entry else {
            return;
        };
        // The index stays taken until the disk is gone from sysfs. Freeing its tag set takes grace
        // periods more, which nobody has to wait for.
        let rest = disk.reference();
        drop(disk);
        forget(index);
        drop(rest);
    }
}

/// Removes a device in the background.
pub(crate) fn remove_soon(removal: Pin<KBox<Removal>>) {
    // While the registry is closed all devices are removed anyway.
    let _ = with(|registry| {
        registry.removals.enqueue(removal);
        Ok(())
    });
}
