// SPDX-License-Identifier: GPL-2.0

//! All devices by their index, and what they share: numbering, workqueues, the debugfs directory.
//!
//! One mutex protects the table. It is held for a look-up or an insertion and never over making or
//! removing a disk: an index that is being worked on is marked as such. No other lock of the driver is
//! taken under it. Nothing done under it depends on how many devices there are, beyond the depth of a
//! tree.

#![forbid(unsafe_code)]

mod indexes;
mod load;
mod removal;
mod survey;

use kernel::{
    prelude::*,
    rbtree::RBTree,
    static_lock_class,
    sync::{
        aref::ARef,
        Arc, //
    },
    time::Jiffies, //
};

use self::indexes::Indexes;
pub(crate) use self::{
    indexes::Availability,
    load::make_devices,
    removal::{
        remove_soon,
        Removal, //
    },
    survey::{
        for_each,
        status,
        status_of_all, //
    }, //
};
use super::{
    config::Numbering,
    device::{
        scan::Scan,
        size::idle_limits,
        Device, //
    },
    kapi::{
        debugfs::Root,
        gendisk::{
            AddedDisk,
            Disk,
            Identity,
            NewDisk, //
        },
        global::global_mutex,
        reserve_anchor::ReserveAnchor,
        workqueue::{
            Flags,
            OwnedQueue, //
        }, //
    },
    observe::{
        self,
        Observed, //
    },
    session::Queues, //
};

/// `NBD_MAJOR`.
pub(crate) const MAJOR: u32 = 43;

/// Requests that a hardware queue can have in flight, as in the C driver.
const QUEUE_DEPTH: u32 = 128;

/// How many devices are removed at the same time. Each takes a thread, which mostly waits for grace
/// periods. The queue is per CPU, so that of those which do not wait only one runs: they all need the same
/// locks of the driver core.
const REMOVALS_AT_ONCE: u16 = 256;

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
    indexes: Indexes,
    numbering: Numbering,
    queues: Arc<Queues>,
    /// Removes devices, side by side.
    removals: Arc<OwnedQueue>,
    /// Looks for partitions.
    scans: OwnedQueue,
    debugfs: Option<Arc<Root>>,
    /// From the first session on.
    reserves: Option<Arc<ReserveAnchor>>,
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
    let io_flags = Flags::MEM_RECLAIM | Flags::HIGHPRI;
    let queues = Queues {
        io: OwnedQueue::new(fmt!("nbd-io"), io_flags | Flags::UNBOUND, 0)?,
        near: OwnedQueue::new(fmt!("nbd-near"), io_flags | Flags::PER_CPU, 0)?,
        events: OwnedQueue::new(fmt!("nbd-events"), Flags::UNBOUND, 0)?,
    };
    let registry = Registry {
        devices: RBTree::new(),
        indexes: Indexes::new(&numbering)?,
        numbering,
        queues: Arc::new(queues, GFP_KERNEL)?,
        removals: Arc::new(
            OwnedQueue::new(fmt!("nbd-del"), Flags::PER_CPU, REMOVALS_AT_ONCE)?,
            GFP_KERNEL,
        )?,
        scans: OwnedQueue::new(fmt!("nbd-scan"), Flags::UNBOUND, 0)?,
        // An aid: the driver works without.
        debugfs: observe::root().ok(),
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

/// What a session needs that is not its own.
pub(crate) struct Shared {
    pub(crate) queues: Arc<Queues>,
    pub(crate) reserves: Arc<ReserveAnchor>,
    /// The driver's directory in debugfs, if there is one.
    pub(crate) debugfs: Option<Arc<Root>>,
}

/// What a session needs. With the first one the network's use of memory reserves is switched on, so that
/// marking a socket for them does not patch the kernel's code each time.
///
/// # Errors
///
/// `ENOMEM`, and see [`numbering`].
pub(crate) fn shared() -> Result<Shared> {
    if with(|registry| Ok(registry.reserves.is_none()))? {
        let anchor = Arc::new(ReserveAnchor::new()?, GFP_KERNEL)?;
        let surplus = with(|registry| Ok(registry.reserves.replace(anchor)))?;
        drop(surplus);
    }
    with(|registry| {
        Ok(Shared {
            queues: registry.queues.clone(),
            reserves: registry.reserves.clone().ok_or(ENODEV)?,
            debugfs: registry.debugfs.clone(),
        })
    })
}

/// Looks for partitions in the background, in so many jiffies.
///
/// # Errors
///
/// See [`numbering`].
pub(crate) fn scan(scan: Arc<Scan>, delay_jiffies: Jiffies) -> Result {
    with(|registry| {
        registry.scans.enqueue_delayed_anew(scan, delay_jiffies);
        Ok(())
    })
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

/// Says whether CONNECT may choose the device `index`. What counts is what the device says last, under
/// its control lock.
pub(crate) fn publish(index: u32, availability: Availability) {
    // While the module is being unloaded nobody connects.
    let _ = with(|registry| {
        if let Some(Entry::Live(_)) = registry.devices.get(&index) {
            registry.indexes.set_available(index, availability);
        }
        Ok(())
    });
}

/// Takes the lowest device that is free, preferably one that nobody has open, so that nobody else is
/// sent to it meanwhile. Whoever gets it makes it say what it is afterwards.
///
/// # Errors
///
/// See [`numbering`].
pub(crate) fn take_available() -> Result<Option<ARef<Disk<Device>>>> {
    with(|registry| {
        while let Some(index) = registry.indexes.lowest_available() {
            registry.indexes.set_available(index, Availability::Taken);
            if let Some(Entry::Live(disk)) = registry.devices.get(&index) {
                return Ok(Some(disk.reference()));
            }
        }
        Ok(None)
    })
}

/// Takes the index `wanted`, or the lowest one that is free, for a device to be made.
fn reserve(wanted: Option<u32>) -> Result<(u32, Numbering)> {
    with(|registry| {
        let index = match wanted {
            Some(index) => index,
            None => registry.indexes.lowest_vacant().ok_or(ENOSPC)?,
        };
        if registry.devices.get(&index).is_some() {
            return Err(EEXIST);
        }
        registry
            .devices
            .try_create_and_insert(index, Entry::Making, GFP_KERNEL)?;
        registry.indexes.set_vacant(index, false);
        Ok((index, registry.numbering))
    })
}

/// Removes an index that has no disk any more.
fn forget(index: u32) {
    // While the module is being unloaded it is forgotten already.
    let _ = with(|registry| {
        registry.devices.remove(&index);
        registry.indexes.set_vacant(index, true);
        Ok(())
    });
}

/// Makes the device `wanted`, or the lowest one that does not exist, with hardware queues for
/// `connections`. CONNECT does not choose it before it has said what it is by [`publish`].
///
/// # Errors
///
/// `EEXIST` if there is one, `ENOSPC` if no index is left, `ENOMEM`, and what adding a disk fails
/// with.
pub(crate) fn create(wanted: Option<u32>, connections: u32) -> Result<ARef<Disk<Device>>> {
    let (index, numbering) = reserve(wanted)?;
    let disk = make_disk(index, numbering, connections).inspect_err(|_| forget(index))?;
    let reference = disk.reference();
    let surplus = with(|registry| {
        // The index was reserved above.
        let entry = registry.devices.get_mut(&index).ok_or(ENODEV)?;
        Ok(core::mem::replace(entry, Entry::Live(disk)))
    })?;
    drop(surplus);
    Ok(reference)
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
