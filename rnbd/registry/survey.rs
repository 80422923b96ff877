// SPDX-License-Identifier: GPL-2.0

//! Looking at all devices, one after the other or a few at a time: others get at the registry in
//! between. It owns nothing.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::aref::ARef, //
};

use super::{
    super::{
        device::Device,
        kapi::gendisk::Disk, //
    },
    with,
    Entry,
    Registry, //
};

/// How many devices are listed before others get their turn.
const STATUS_AT_ONCE: usize = 64;

/// Whether the device `index` is connected; [`None`] if there is none. One that is being made or removed
/// is there and not connected.
///
/// # Errors
///
/// See [`numbering`](super::numbering).
pub(crate) fn status(index: u32) -> Result<Option<bool>> {
    with(|registry| Ok(registry.devices.get(&index).map(Entry::is_connected)))
}

/// All devices, as in [`status`]. Others get their turn in between, so it is no picture of one moment.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn status_of_all() -> Result<KVVec<(u32, bool)>> {
    let mut all = KVVec::new();
    let mut from = Some(0);
    while let Some(first) = from {
        all.reserve(STATUS_AT_ONCE, GFP_KERNEL)?;
        from = with(|registry| Ok(status_from(registry, first, &mut all)))?;
    }
    Ok(all)
}

/// Adds the next devices from the index `first` on, and returns where to go on.
fn status_from(registry: &mut Registry, first: u32, all: &mut KVVec<(u32, bool)>) -> Option<u32> {
    let mut cursor = registry.devices.cursor_lower_bound_mut(&first)?;
    for _ in 1..STATUS_AT_ONCE {
        let (index, entry) = cursor.current();
        // There is room for as many.
        let _ = all.push_within_capacity((*index, entry.is_connected()));
        cursor = cursor.move_next()?;
    }
    Some(*cursor.current().0)
}

/// Shows each device that there is to `look`, by index, without a lock. Those that come or go meanwhile
/// may be left out.
pub(crate) fn for_each(mut look: impl FnMut(&Disk<Device>)) {
    let mut from = Some(0);
    while let Some(first) = from {
        // While the module is being unloaded there is nothing to see.
        let Ok(Some((index, disk))) = with(|registry| Ok(next_from(registry, first))) else {
            return;
        };
        if let Some(disk) = disk {
            look(&disk);
        }
        from = index.checked_add(1);
    }
}

/// The first index from `first` on, and its device unless that is being made or removed.
fn next_from(registry: &mut Registry, first: u32) -> Option<(u32, Option<ARef<Disk<Device>>>)> {
    let cursor = registry.devices.cursor_lower_bound_mut(&first)?;
    let (index, entry) = cursor.current();
    let disk = match entry {
        Entry::Live(disk) => Some(disk.reference()),
        Entry::Making | Entry::Removing => None,
    };
    Some((*index, disk))
}
