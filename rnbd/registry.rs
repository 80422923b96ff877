// SPDX-License-Identifier: GPL-2.0

//! All devices by their index, and what they share: numbering, workqueues, the debugfs directory.
//!
//! One mutex protects the table. It is held for a look-up or an insertion and never over making or
//! removing a disk: an index that is being worked on is marked as such. No other lock of the driver is
//! taken under it.

#![forbid(unsafe_code)]

mod removal;

use kernel::{
    prelude::*,
    rbtree::RBTree,
    static_lock_class,
    sync::{
        aref::ARef,
        Arc, //
    }, //
};

pub(crate) use self::removal::{
    remove_soon,
    Removal, //
};
use super::{
    config::Numbering,
    device::{
        scan::Scan,
        size::idle_limits,
        Device, //
    },
    kapi::{
        debugfs::Dir,
        gendisk::{
            AddedDisk,
            Disk,
            Identity,
            NewDisk, //
        },
        global::global_mutex,
        socket::ReserveAnchor,
        workqueue::{
            Flags,
            OwnedQueue, //
        }, //
    },
    observe::Observed,
    session::Queues, //
};

/// `NBD_MAJOR`.
pub(crate) const MAJOR: u32 = 43;

/// Requests that a hardware queue can have in flight, as in the C driver.
const QUEUE_DEPTH: u32 = 128;

/// What is known about an index.
enum Entry {
    /// A disk is being made.
    Making,
    /// There is a device.
    Live(AddedDisk<Device>),
    /// Its disk is being removed.
    Removing,
}

impl Entry {
    fn is_connected(&self) -> bool {
        match self {
            Self::Live(disk) => disk.is_connected(),
            Self::Making | Self::Removing => false,
        }
    }
}

struct Registry {
    devices: RBTree<u32, Entry>,
    numbering: Numbering,
    queues: Arc<Queues>,
    /// Removes devices, side by side.
    removals: Arc<OwnedQueue>,
    /// Looks for partitions.
    scans: OwnedQueue,
    debugfs: Option<Arc<Dir>>,
    /// From the first session on.
    reserves: Option<ReserveAnchor>,
}

global_mutex! {
    static REGISTRY: Mutex<Option<Registry>> = None;
}

/// The registry's life: dropping it removes all devices, which must be free by then.
pub(crate) struct Registration(());

/// Opens the registry, without devices.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn open(numbering: Numbering) -> Result<Registration> {
    let io_flags = Flags::MEM_RECLAIM | Flags::HIGHPRI | Flags::UNBOUND;
    let queues = Queues {
        io: OwnedQueue::new(fmt!("nbd-io"), io_flags, 0)?,
        events: OwnedQueue::new(fmt!("nbd-events"), Flags::UNBOUND, 0)?,
    };
    let registry = Registry {
        devices: RBTree::new(),
        numbering,
        queues: Arc::new(queues, GFP_KERNEL)?,
        removals: Arc::new(
            OwnedQueue::new(fmt!("nbd-del"), Flags::UNBOUND, 0)?,
            GFP_KERNEL,
        )?,
        scans: OwnedQueue::new(fmt!("nbd-scan"), Flags::UNBOUND, 0)?,
        // An aid: the driver works without.
        debugfs: Dir::new(c"nbd", None)
            .and_then(|dir| Ok(Arc::new(dir, GFP_KERNEL)?))
            .ok(),
        reserves: None,
    };
    REGISTRY.init();
    REGISTRY.with(|slot| *slot = Some(registry));
    Ok(Registration(()))
}

impl Drop for Registration {
    fn drop(&mut self) {
        let Some(registry) = REGISTRY.with(Option::take).flatten() else {
            return;
        };
        let Registry {
            devices,
            queues,
            removals,
            scans,
            debugfs,
            reserves,
            ..
        } = registry;
        drop(scans);
        removal::remove_all(devices, &removals);
        // Waits for the removals.
        drop(removals);
        drop(queues);
        drop(debugfs);
        drop(reserves);
    }
}

fn with<R>(f: impl FnOnce(&mut Registry) -> Result<R>) -> Result<R> {
    REGISTRY
        .with(|slot| f(slot.as_mut().ok_or(ENODEV)?))
        .unwrap_or(Err(ENODEV))
}

/// How devices are numbered.
///
/// # Errors
///
/// `ENODEV` while the module is being unloaded, as for all functions here.
pub(crate) fn numbering() -> Result<Numbering> {
    with(|registry| Ok(registry.numbering))
}

/// The workqueues for sessions.
///
/// # Errors
///
/// See [`numbering`].
pub(crate) fn queues() -> Result<Arc<Queues>> {
    with(|registry| Ok(registry.queues.clone()))
}

/// Looks for partitions in the background.
pub(crate) fn scan(scan: Pin<KBox<Scan>>) {
    // While the module is being unloaded there is nobody to show partitions to.
    let _ = with(|registry| {
        registry.scans.enqueue(scan);
        Ok(())
    });
}

/// The driver's directory in debugfs.
///
/// # Errors
///
/// `ENOENT` if there is none.
pub(crate) fn debugfs_root() -> Result<Arc<Dir>> {
    with(|registry| registry.debugfs.clone().ok_or(ENOENT))
}

/// Makes sure that marking a socket for memory reserves does not patch the kernel's code each time.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn keep_reserves() -> Result {
    if with(|registry| Ok(registry.reserves.is_some()))? {
        return Ok(());
    }
    let anchor = ReserveAnchor::new()?;
    let surplus = with(|registry| Ok(registry.reserves.replace(anchor)))?;
    drop(surplus);
    Ok(())
}

/// What a look-up found.
pub(crate) enum Found {
    /// The device.
    Device(ARef<Disk<Device>>),
    /// It is being made.
    Making,
    /// It is being removed.
    Removing,
    /// Nothing.
    Nothing,
}

/// Looks for the device `index`.
///
/// # Errors
///
/// See [`numbering`].
pub(crate) fn find(index: u32) -> Result<Found> {
    with(|registry| {
        Ok(match registry.devices.get(&index) {
            Some(Entry::Live(disk)) => Found::Device(disk.reference()),
            Some(Entry::Making) => Found::Making,
            Some(Entry::Removing) => Found::Removing,
            None => Found::Nothing,
        })
    })
}

/// The first device from index `from` on.
///
/// # Errors
///
/// See [`numbering`].
pub(crate) fn next_from(from: u32) -> Result<Option<(u32, ARef<Disk<Device>>)>> {
    with(|registry| {
        let mut from = from;
        while let Some(cursor) = registry.devices.cursor_lower_bound(&from) {
            let (index, entry) = cursor.current();
            if let Entry::Live(disk) = entry {
                return Ok(Some((*index, disk.reference())));
            }
            let Some(next) = index.checked_add(1) else {
                break;
            };
            from = next;
        }
        Ok(None)
    })
}

/// Whether the device `index` is connected; [`None`] if there is none. One that is being made or removed
/// is there and not connected.
///
/// # Errors
///
/// See [`numbering`].
pub(crate) fn status(index: u32) -> Result<Option<bool>> {
    with(|registry| Ok(registry.devices.get(&index).map(Entry::is_connected)))
}

/// All devices, as in [`status`].
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn status_of_all() -> Result<KVVec<(u32, bool)>> {
    with(|registry| {
        let mut all = KVVec::with_capacity(registry.devices.values().count(), GFP_KERNEL)?;
        for (index, entry) in &registry.devices {
            all.push((*index, entry.is_connected()), GFP_KERNEL)?;
        }
        Ok(all)
    })
}

/// Takes the index `wanted`, or the lowest one that is free, for a device to be made.
fn reserve(wanted: Option<u32>) -> Result<(u32, Numbering)> {
    with(|registry| {
        let index = match wanted {
            Some(index) => index,
            None => lowest_free(registry)?,
        };
        if registry.devices.get(&index).is_some() {
            return Err(EEXIST);
        }
        registry
            .devices
            .try_create_and_insert(index, Entry::Making, GFP_KERNEL)?;
        Ok((index, registry.numbering))
    })
}

fn lowest_free(registry: &Registry) -> Result<u32> {
    let mut free: u32 = 0;
    for index in registry.devices.keys() {
        if *index != free {
            break;
        }
        free = free.checked_add(1).ok_or(ENOSPC)?;
    }
    if free > registry.numbering.max_index() {
        return Err(ENOSPC);
    }
    Ok(free)
}

/// Makes the device `wanted`, or the lowest one that does not exist, with hardware queues for
/// `connections`.
///
/// # Errors
///
/// `EEXIST` if there is one, `ENOSPC` if no index is left, `ENOMEM`, and what adding a disk fails
/// with.
pub(crate) fn create(wanted: Option<u32>, connections: u32) -> Result<ARef<Disk<Device>>> {
    let (index, numbering) = reserve(wanted)?;
    let added = make_disk(index, numbering, connections);
    let reference = added.as_ref().ok().map(AddedDisk::reference);
    let surplus = with(|registry| {
        match added {
            Ok(disk) => {
                if let Some(entry) = registry.devices.get_mut(&index) {
                    *entry = Entry::Live(disk);
                    return Ok(None);
                }
                // Cannot be: the index was reserved above.
                Ok(Some(Ok(disk)))
            }
            Err(error) => {
                registry.devices.remove(&index);
                Ok(Some(Err(error)))
            }
        }
    })?;
    match (surplus, reference) {
        (None, Some(reference)) => Ok(reference),
        (Some(Err(error)), _) => Err(error),
        _ => Err(ENODEV),
    }
}

fn make_disk(index: u32, numbering: Numbering, connections: u32) -> Result<AddedDisk<Device>> {
    let observed = Observed::new()?;
    let disk = NewDisk::alloc(
        connections,
        QUEUE_DEPTH,
        &idle_limits(),
        static_lock_class!(),
        Device::new(index, numbering, observed),
    )?;
    disk.add(Identity {
        name: fmt!("nbd{index}"),
        major: MAJOR,
        first_minor: numbering.first_minor(index),
        minors: numbering.minors_per_disk(),
    })
}
