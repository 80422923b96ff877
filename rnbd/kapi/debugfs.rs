// SPDX-License-Identifier: GPL-2.0

//! debugfs directories with read-only text files.
//!
//! The debugfs of the kernel crate leaves `file_operations.owner` empty, so a module could be
//! unloaded under an open file. Here an open file keeps the module, and a directory owns what its
//! files show.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)

use super::module_ref::THIS_MODULE;
use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::{
    bindings,
    error::from_err_ptr,
    prelude::*,
    seq_file::SeqFile,
    sync::Arc,
    types::ForeignOwnable, //
};

/// How a file shows data that is held by a `D`, for instance an `Arc<T>` or an `ARef<T>`.
///
/// For something that is static, `D` may be `()`.
pub(crate) trait View<D: ForeignOwnable> {
    /// Writes the text.
    ///
    /// Removing the directory waits for this to return, so it must not wait for anything that the
    /// remover holds.
    fn show(data: D::Borrowed<'_>, out: &SeqFile);
}

/// A directory at the root of debugfs; dropping it removes it.
///
/// # Invariants
///
/// Is a directory made by debugfs that nobody else removes.
pub(crate) struct Root(*mut bindings::dentry);

// SAFETY: debugfs has its own locks.
unsafe impl Send for Root {}
// SAFETY: As above.
unsafe impl Sync for Root {}

impl Root {
    /// Creates the directory `name`.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the name is taken, `ENODEV` if the kernel has no debugfs, `EPERM` if it is
    /// locked, `ENOMEM`. debugfs is an aid: callers may go on without the directory.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        // INVARIANT: Just created.
        create(name, ptr::null_mut()).map(Self)
    }

    /// Adds the file `name`, readable by whoever may look into debugfs, that shows something static by
    /// `V`.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the name is taken, `ENOMEM`.
    pub(crate) fn file<V: View<()>>(&self, name: &CStr) -> Result {
        // SAFETY: By the type invariant it is a directory. What stands for no data is always valid.
        unsafe { create_file::<V, ()>(name, self.0, ().into_foreign()) }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::debugfs_remove(self.0) };
    }
}

/// Creates a directory in `parent`, which is null or a directory of debugfs.
fn create(name: &CStr, parent: *mut bindings::dentry) -> Result<*mut bindings::dentry> {
    // SAFETY: The name is copied; the parent is one of this module's.
    from_err_ptr(unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), parent) })
}

/// Creates a file in `parent` that shows `data` by `V`.
///
/// # Safety
///
/// `parent` is a directory of debugfs. `data` comes from `D::into_foreign()`, and stays valid until the
/// file has been removed.
unsafe fn create_file<V, D>(name: &CStr, parent: *mut bindings::dentry, data: *mut c_void) -> Result
where
    V: View<D>,
    D: ForeignOwnable + Send + Sync + 'static,
{
    // SAFETY: By contract; the operations are those for data of type `D`.
    from_err_ptr(unsafe {
        bindings::debugfs_create_file_full(
            name.as_char_ptr(),
            0o444,
            parent,
            data,
            ptr::null(),
            &Operations::<V, D>::TABLE,
        )
    })
    .map(|_| ())
}

/// A directory whose files show `data`; dropping it removes it with everything in it, then lets go of
/// the data.
///
/// # Invariants
///
/// `dentry` is a directory made by debugfs that nobody else removes. `data` comes from
/// [`ForeignOwnable::into_foreign`] and is only used by the files in it.
pub(crate) struct Dir<D: ForeignOwnable + Send + Sync + 'static> {
    dentry: *mut bindings::dentry,
    data: *mut c_void,
    /// Is not removed under it.
    _root: Arc<Root>,
    owned: PhantomData<D>,
}

// SAFETY: debugfs has its own locks, and the data may change threads.
unsafe impl<D: ForeignOwnable + Send + Sync + 'static> Send for Dir<D> {}

impl<D: ForeignOwnable + Send + Sync + 'static> Dir<D> {
    /// Creates the directory `name`.
    ///
    /// It owns `data` until it has been removed: data that owns the directory makes a cycle, to be
    /// broken by dropping the directory.
    ///
    /// # Errors
    ///
    /// As for [`Root::new`].
    pub(crate) fn new(name: &CStr, root: Arc<Root>, data: D) -> Result<Self> {
        let dentry = create(name, root.0)?;
        // INVARIANT: Just created, without any file.
        Ok(Self {
            dentry,
            data: data.into_foreign(),
            _root: root,
            owned: PhantomData,
        })
    }

    /// Adds the file `name`, readable by whoever may look into debugfs, that shows the data by `V`.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the name is taken, `ENOMEM`. Nothing has been added then.
    pub(crate) fn file<V: View<D>>(&self, name: &CStr) -> Result {
        // SAFETY: By the type invariant, it is a directory, and `data` stays valid until the file has
        // been removed with it.
        unsafe { create_file::<V, D>(name, self.dentry, self.data) }
    }
}

impl<D: ForeignOwnable + Send + Sync + 'static> Drop for Dir<D> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Afterwards no reader is left and none can come.
        unsafe { bindings::debugfs_remove(self.dentry) };
        // SAFETY: By the type invariant, and no file uses the data any more.
        drop(unsafe { D::from_foreign(self.data) });
    }
}

/// The file operations for data of type `D` shown by `V`.
struct Operations<V, D>(PhantomData<fn(V, D)>);

impl<V, D> Operations<V, D>
where
    V: View<D>,
    D: ForeignOwnable + Send + Sync + 'static,
{
    const TABLE: bindings::file_operations = bindings::file_operations {
        owner: THIS_MODULE.as_ptr(),
        open: Some(Self::open),
        read: Some(bindings::seq_read),
        llseek: Some(bindings::seq_lseek),
        release: Some(bindings::single_release),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `inode` and `file` are those of a file made by [`Dir::file`] that is being opened.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: By the function contract; `i_private` is the data given at creation.
        unsafe { bindings::single_open(file, Some(Self::show), (*inode).i_private) }
    }

    /// # Safety
    ///
    /// `seq` belongs to a file opened by [`Self::open`] that is being read.
    unsafe extern "C" fn show(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
        // SAFETY: By the function contract; debugfs does not let the file be removed during a
        // read, so the data is still held, and shared by `D: Sync`.
        let data = unsafe { D::borrow((*seq).private) };
        // SAFETY: By the function contract; the reader has the sequence to itself.
        V::show(data, unsafe { SeqFile::from_raw(seq) });
        0
    }
}
