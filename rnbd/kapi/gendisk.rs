// SPDX-License-Identifier: GPL-2.0

//! A gendisk with the driver's own open, release and ioctl, from allocation to removal.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)
//!
//! [`NewDisk`] (allocated, seen by nobody) becomes [`AddedDisk`] (in `/dev`; dropping it removes
//! it). [`Disk`] is the shared view, counted by the gendisk's own device; the driver's data lives
//! exactly as long.

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    error::{
        from_err_ptr,
        from_result,
        to_result, //
    },
    fmt::{
        self,
        Write, //
    },
    prelude::*,
    str::NullTerminatedFormatter,
    sync::{
        aref::{
            ARef,
            AlwaysRefCounted, //
        },
        LockClassKey, //
    },
    types::Opaque, //
};

use super::{
    limits::QueueLimits,
    mq::{
        Driver,
        TagSet, //
    }, //
};

/// What `private_data` points to.
///
/// The fields are dropped in this order: the driver's data may still use the tag set.
#[pin_data]
struct Private<T: Driver> {
    #[pin]
    data: T,
    #[pin]
    tag_set: TagSet<T>,
}

/// A `struct gendisk` of driver `T`.
///
/// # Invariants
///
/// `private_data` points to a live `Private<T>`, and `queue->disk` is this gendisk.
#[repr(transparent)]
pub(crate) struct Disk<T: Driver>(Opaque<bindings::gendisk>, PhantomData<T>);

// SAFETY: The block layer's functions used here lock for themselves, and `T: Send + Sync`.
unsafe impl<T: Driver> Send for Disk<T> {}
// SAFETY: As above.
unsafe impl<T: Driver> Sync for Disk<T> {}

// SAFETY: The count of the gendisk's device keeps the gendisk and its private data alive.
unsafe impl<T: Driver> AlwaysRefCounted for Disk<T> {
    fn inc_ref(&self) {
        // SAFETY: `&self` proves a live device.
        unsafe { bindings::get_device(self.device_raw()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: By contract the caller gives up a count, so the device is live.
        unsafe { bindings::put_device(obj.as_ref().device_raw()) };
    }
}

impl<T: Driver> Deref for Disk<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.private().data
    }
}

impl<T: Driver> AsRef<kernel::device::Device> for Disk<T> {
    fn as_ref(&self) -> &kernel::device::Device {
        // SAFETY: The device is part of the gendisk and lives as long as `self`.
        unsafe { kernel::device::Device::from_raw(self.device_raw()) }
    }
}

impl<T: Driver> Disk<T> {
    /// # Safety
    ///
    /// `disk` must be a gendisk made by [`NewDisk::alloc`] with the same `T`, live for `'a`.
    pub(super) unsafe fn from_raw<'a>(disk: *mut bindings::gendisk) -> &'a Self {
        // SAFETY: By contract; `Disk` is transparent.
        unsafe { &*disk.cast() }
    }

    /// # Safety
    ///
    /// `device` must be the device of a gendisk as in [`Disk::from_raw`].
    pub(super) unsafe fn from_device<'a>(device: *mut bindings::device) -> &'a Self {
        // SAFETY: By contract; this is `dev_to_disk()`.
        unsafe {
            let bdev = kernel::container_of!(device, bindings::block_device, bd_device);
            Self::from_raw((*bdev).bd_disk)
        }
    }

    pub(super) fn raw(&self) -> *mut bindings::gendisk {
        self.0.get()
    }

    pub(super) fn device_raw(&self) -> *mut bindings::device {
        // SAFETY: `part0` is set for the life of the gendisk.
        unsafe { &raw mut (*(*self.raw()).part0).bd_device }
    }

    pub(super) fn queue(&self) -> *mut bindings::request_queue {
        // SAFETY: `queue` is set for the life of the gendisk.
        unsafe { (*self.raw()).queue }
    }

    fn private(&self) -> &Private<T> {
        // SAFETY: By the type invariant.
        unsafe { &*(*self.raw()).private_data.cast::<Private<T>>() }
    }

    /// The name in `/dev`.
    pub(crate) fn name(&self) -> &CStr {
        // SAFETY: It was written before the disk was added, and never changes.
        unsafe { CStr::from_char_ptr((*self.raw()).disk_name.as_ptr()) }
    }

    /// How many hardware queues the disk has; never changes.
    pub(crate) fn hctxs(&self) -> u32 {
        self.private().tag_set.hctxs()
    }

    /// Requests per hardware queue; never changes.
    pub(crate) fn depth(&self) -> u32 {
        self.private().tag_set.depth()
    }

    /// Size in sectors of 512 bytes.
    pub(crate) fn capacity_sectors(&self) -> u64 {
        // SAFETY: `part0` is set for the life of the gendisk; a 64-bit load does not tear here.
        unsafe { ptr::read_volatile(&raw const (*(*self.raw()).part0).bd_nr_sectors) }
    }

    /// Sets the size; returns whether a `RESIZE=1` uevent was sent.
    pub(crate) fn set_capacity_and_notify(&self, sectors: u64) -> bool {
        // SAFETY: Live gendisk.
        unsafe { bindings::set_capacity_and_notify(self.raw(), sectors) }
    }

    /// Sends a plain change uevent.
    pub(crate) fn notify_change(&self) {
        // SAFETY: Live device.
        unsafe {
            bindings::kobject_uevent(
                &raw mut (*self.device_raw()).kobj,
                bindings::kobject_action_KOBJ_CHANGE,
            )
        };
    }

    /// Sets or clears the disk's read-only state; a change sends a uevent.
    pub(crate) fn set_read_only(&self, read_only: bool) {
        // SAFETY: Live gendisk.
        unsafe { bindings::set_disk_ro(self.raw(), read_only) };
    }

    /// Sets the block layer's request timeout.
    pub(crate) fn set_request_timeout(&self, jiffies: u32) {
        // SAFETY: Live queue.
        unsafe { bindings::blk_queue_rq_timeout(self.queue(), jiffies) };
    }

    /// Tells whoever holds the disk that its medium is gone: marks it dead for its holder, drops
    /// cached pages, gives it a new sequence number. May sleep.
    pub(crate) fn force_media_change(&self) {
        // SAFETY: Live gendisk.
        unsafe { bindings::disk_force_media_change(self.raw()) };
    }

    /// Drops clean cached pages and a recorded write error, and sets the capacity to 0. May sleep.
    pub(crate) fn invalidate(&self) {
        // SAFETY: Live gendisk.
        unsafe { bindings::invalidate_disk(self.raw()) };
    }
}

/// Numbers and name of a disk.
pub(crate) struct Identity<'a> {
    pub(crate) name: fmt::Arguments<'a>,
    pub(crate) major: u32,
    pub(crate) first_minor: u32,
    /// Minors reserved for the disk and its partitions.
    pub(crate) minors: u32,
}

/// A disk that has been allocated and not added.
///
/// It gives out no `&Disk`, so nobody can hold a reference when it is dropped.
///
/// # Invariants
///
/// Points to a gendisk for which [`Disk`]'s invariants hold, with a single reference, owned here.
pub(crate) struct NewDisk<T: Driver>(NonNull<bindings::gendisk>, PhantomData<T>);

impl<T: Driver> NewDisk<T> {
    /// Allocates tag set, queue and gendisk around `data`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and `EINVAL` for impossible limits.
    pub(crate) fn alloc(
        hctxs: u32,
        depth: u32,
        limits: &QueueLimits,
        key: Pin<&'static LockClassKey>,
        data: impl PinInit<T, Error>,
    ) -> Result<Self> {
        let private = KBox::try_pin_init(
            try_pin_init!(Private {
                data <- data,
                tag_set <- TagSet::new(hctxs, depth),
            }? Error),
            GFP_KERNEL,
        )?;
        let mut limits = limits.initial();
        // SAFETY: The tag set is initialised, and `limits` is read during the call only.
        let disk = from_err_ptr(unsafe {
            bindings::__blk_mq_alloc_disk(
                private.tag_set.as_raw(),
                &mut limits,
                ptr::null_mut(),
                key.as_ptr(),
            )
        })?;
        // SAFETY: It is not moved until `free` makes it a box again.
        let private = KBox::into_raw(unsafe { Pin::into_inner_unchecked(private) });
        // SAFETY: `disk` is fresh and not null.
        unsafe {
            (*disk).private_data = private.cast();
            (*disk).fops = &Shells::<T>::FOPS;
            // INVARIANT: `private_data` is set, and `disk` carries one reference.
            Ok(Self(NonNull::new_unchecked(disk), PhantomData))
        }
    }

    /// Publishes the disk. `open` may run before this returns.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the name is too long, and whatever `device_add_disk()` fails with.
    pub(crate) fn add(self, identity: Identity<'_>) -> Result<AddedDisk<T>> {
        let disk = self.0.as_ptr();
        // SAFETY: By the type invariant exclusively ours until `device_add_disk()`, which cannot
        // fail any more once the disk can be opened.
        unsafe {
            (*disk).major = identity.major as c_int;
            (*disk).first_minor = identity.first_minor as c_int;
            (*disk).minors = identity.minors as c_int;
            let name: &mut [u8; 32] = &mut *(&raw mut (*disk).disk_name).cast();
            NullTerminatedFormatter::new(name)
                .ok_or(EINVAL)?
                .write_fmt(identity.name)?;
            to_result(bindings::device_add_disk(
                ptr::null_mut(),
                disk,
                ptr::null_mut(),
            ))?;
        }
        // SAFETY: The reference owned by `self` moves into the `ARef`.
        Ok(AddedDisk(unsafe {
            ARef::from_raw(ManuallyDrop::new(self).0.cast())
        }))
    }
}

impl<T: Driver> Drop for NewDisk<T> {
    fn drop(&mut self) {
        let disk = self.0.as_ptr();
        // The block layer calls `free_disk` only for disks that were added; and the last put of
        // one that was not still exits its queue, so the tag set has to outlive it.
        // SAFETY: By the type invariant we own the only reference.
        unsafe {
            let private = (*disk).private_data;
            bindings::put_disk(disk);
            free_private::<T>(private);
        }
    }
}

/// # Safety
///
/// `private` must come from [`NewDisk::alloc`] of the same `T`, and not be used any more.
unsafe fn free_private<T: Driver>(private: *mut c_void) {
    // SAFETY: By contract the box whose pointer was stored in `private_data`.
    drop(unsafe { Pin::new_unchecked(KBox::from_raw(private.cast::<Private<T>>())) });
}

/// A disk that is in `/dev`. Dropping it removes it, which sleeps.
pub(crate) struct AddedDisk<T: Driver>(ARef<Disk<T>>);

impl<T: Driver> AddedDisk<T> {
    /// Another reference to the disk, which may outlive its presence in `/dev`.
    pub(crate) fn reference(&self) -> ARef<Disk<T>> {
        self.0.clone()
    }
}

impl<T: Driver> Deref for AddedDisk<T> {
    type Target = Disk<T>;

    fn deref(&self) -> &Disk<T> {
        &self.0
    }
}

impl<T: Driver> Drop for AddedDisk<T> {
    fn drop(&mut self) {
        // SAFETY: It was added, and is deleted once, here.
        unsafe { bindings::del_gendisk(self.0.raw()) };
    }
}

/// The C side of a [`Driver`]'s block device operations.
struct Shells<T: Driver>(PhantomData<T>);

impl<T: Driver> Shells<T> {
    const FOPS: bindings::block_device_operations = bindings::block_device_operations {
        owner: T::OWNER.as_ptr(),
        open: Some(Self::open),
        release: Some(Self::release),
        ioctl: Some(Self::ioctl),
        compat_ioctl: Some(Self::ioctl),
        free_disk: Some(Self::free_disk),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `block_device_operations::open`.
    unsafe extern "C" fn open(disk: *mut bindings::gendisk, _mode: bindings::blk_mode_t) -> c_int {
        // SAFETY: The block layer passes a live gendisk with these operations.
        let disk = unsafe { Disk::from_raw(disk) };
        from_result(|| T::open(disk).map(|()| 0))
    }

    /// # Safety
    ///
    /// `block_device_operations::release`.
    unsafe extern "C" fn release(disk: *mut bindings::gendisk) {
        // SAFETY: The block layer passes a live gendisk with these operations.
        T::release(unsafe { Disk::from_raw(disk) });
    }

    /// # Safety
    ///
    /// `block_device_operations::ioctl` and `compat_ioctl`.
    unsafe extern "C" fn ioctl(
        bdev: *mut bindings::block_device,
        _mode: bindings::blk_mode_t,
        command: c_uint,
        argument: c_ulong,
    ) -> c_int {
        // SAFETY: The block layer passes an open block device of a disk with these operations.
        let disk = unsafe { Disk::from_raw((*bdev).bd_disk) };
        from_result(|| T::ioctl(disk, command, argument))
    }

    /// # Safety
    ///
    /// `block_device_operations::free_disk`.
    unsafe extern "C" fn free_disk(disk: *mut bindings::gendisk) {
        // SAFETY: The last use of an added gendisk with these operations.
        unsafe { free_private::<T>((*disk).private_data) };
    }
}
