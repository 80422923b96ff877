// SPDX-License-Identifier: GPL-2.0

//! Read-only sysfs attributes of a disk's device, such as `/sys/block/<disk>/pid`.
//!
//! C headers: [`include/linux/device.h`](srctree/include/linux/device.h),
//! [`include/linux/sysfs.h`](srctree/include/linux/sysfs.h)

use super::{
    gendisk::Disk,
    mq::Driver, //
};
use core::marker::PhantomData;
use kernel::{
    bindings,
    error::to_result,
    fmt,
    page::PAGE_SIZE,
    prelude::*,
    str::as_char_ptr_in_const_context,
    sync::aref::ARef, //
};

/// The text of one attribute while it is being written.
///
/// It holds at most `PAGE_SIZE - 1` bytes; what does not fit is cut off, whoever chose its length.
pub(crate) struct Text<'a> {
    buffer: &'a mut [u8],
    len_bytes: usize,
}

impl Text<'_> {
    /// Appends raw bytes: not everything that is shown has to be UTF-8.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = self.buffer.get_mut(self.len_bytes..).unwrap_or_default();

        for (to, from) in room.iter_mut().zip(bytes) {
            *to = *from;
            self.len_bytes = self.len_bytes.saturating_add(1);
        }
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// What an attribute of disks of `T` shows.
pub(crate) trait Show<T: Driver> {
    /// Writes the text.
    ///
    /// Removing the attribute waits for this to return, so it must not wait for anything that the
    /// remover holds.
    ///
    /// # Errors
    ///
    /// Whatever reading the attribute shall fail with.
    fn show(disk: &Disk<T>, text: &mut Text<'_>) -> Result;
}

/// One attribute with mode 0444, to be kept in a static.
///
/// # Invariants
///
/// The attribute's name is static, and its callback expects the device of a disk of `T`.
#[repr(transparent)]
pub(crate) struct Attribute<T>(bindings::device_attribute, PhantomData<fn(T)>);

// SAFETY: It is never written, and what it points to is static.
unsafe impl<T> Sync for Attribute<T> {}

impl<T: Driver> Attribute<T> {
    /// Describes the attribute `name`, which shows what `S` writes.
    pub(crate) const fn new<S: Show<T>>(name: &'static CStr) -> Self {
        #[allow(clippy::needless_update, reason = "lockdep adds fields")]
        let attr = bindings::attribute {
            name: as_char_ptr_in_const_context(name),
            mode: 0o444,
            ..pin_init::zeroed()
        };

        // INVARIANT: By the arguments and by the callback's instance.
        Self(
            bindings::device_attribute {
                attr,
                __bindgen_anon_1: bindings::device_attribute__bindgen_ty_1 {
                    show: Some(show::<T, S>),
                },
                ..pin_init::zeroed()
            },
            PhantomData,
        )
    }

    /// Creates the file; it exists until the returned value is dropped.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the disk has a file of that name, `ENOMEM` if there is no memory.
    pub(crate) fn create(&'static self, disk: &Disk<T>) -> Result<File<T>> {
        // SAFETY: The device lives as long as the disk; by the type invariant, the attribute is
        // meant for it.
        to_result(unsafe { bindings::device_create_file(disk.device_raw(), &self.0) })?;

        // INVARIANT: The file was just created.
        Ok(File {
            disk: disk.into(),
            attribute: self,
        })
    }
}

/// The shell around [`Show::show`].
///
/// # Safety
///
/// `device` is the device of a live disk of `T`, and `buffer` a page, both for the call.
unsafe extern "C" fn show<T: Driver, S: Show<T>>(
    device: *mut bindings::device,
    _attribute: *mut bindings::device_attribute,
    buffer: *mut c_char,
) -> isize {
    // SAFETY: By the function contract.
    let disk = unsafe { Disk::<T>::from_device(device) };
    // SAFETY: By the function contract; nobody else uses the page meanwhile.
    let buffer = unsafe { core::slice::from_raw_parts_mut(buffer.cast::<u8>(), PAGE_SIZE - 1) };
    let mut text = Text {
        buffer,
        len_bytes: 0,
    };

    match S::show(disk, &mut text) {
        Ok(()) => isize::try_from(text.len_bytes).unwrap_or(0),
        Err(error) => error.to_errno() as isize,
    }
}

/// An attribute file that exists.
///
/// Dropping it removes the file and waits for those who read it just now. That has to happen
/// before the disk is deleted.
///
/// # Invariants
///
/// The file of `attribute` exists on the device of `disk`.
#[must_use = "the file is removed when the value is dropped"]
pub(crate) struct File<T: Driver> {
    disk: ARef<Disk<T>>,
    attribute: &'static Attribute<T>,
}

impl<T: Driver> Drop for File<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::device_remove_file(self.disk.device_raw(), &self.attribute.0) };
    }
}
