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

/// Data of one file, given up by its owner.
///
/// # Invariants
///
/// `data` comes from [`ForeignOwnable::into_foreign`] of the type that `release` is made for.
struct Held {
    data: *mut c_void,
    release: unsafe fn(*mut c_void),
}

/// A directory; dropping it removes it with everything in it, then lets go of the data.
///
/// A subdirectory keeps its parent, so a parent is never removed under it.
///
/// # Invariants
///
/// `dentry` is a directory made by debugfs that nobody else removes. Each element of `held` is the
/// data of at most one file in it.
pub(crate) struct Dir {
    dentry: *mut bindings::dentry,
    held: KVec<Held>,
    _parent: Option<Arc<Dir>>,
}

// SAFETY: debugfs has its own locks, and `Dir::file` only takes data that may change threads.
unsafe impl Send for Dir {}
// SAFETY: A shared `Dir` offers nothing but being a parent, for which debugfs has its own locks.
unsafe impl Sync for Dir {}

impl Dir {
    /// Creates the directory `name` in `parent`, or at the root of debugfs, with room for so many
    /// `files`; more make it allocate again.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the name is taken, `ENODEV` if the kernel has no debugfs, `EPERM` if it is
    /// locked, `ENOMEM`. debugfs is an aid: callers may go on without the directory.
    pub(crate) fn new(name: &CStr, parent: Option<&Arc<Dir>>, files: usize) -> Result<Self> {
        let held = KVec::with_capacity(files, GFP_KERNEL)?;
        let parent_dentry = parent.map_or(ptr::null_mut(), |parent| parent.dentry);
        // SAFETY: The name is copied; the parent is null or, by the type invariant, a directory.
        let dentry = from_err_ptr(unsafe {
            bindings::debugfs_create_dir(name.as_char_ptr(), parent_dentry)
        })?;

        // INVARIANT: Just created, without any file.
        Ok(Self {
            dentry,
            held,
            _parent: parent.cloned(),
        })
    }

    /// Adds the file `name`, readable by whoever may look into debugfs, that shows `data` by `V`.
    ///
    /// The directory owns `data` until it has been removed: data that owns the directory makes a
    /// cycle, to be broken by dropping the directory.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the name is taken, `ENOMEM`. Nothing has been added then.
    pub(crate) fn file<V, D>(&mut self, name: &CStr, data: D) -> Result
    where
        V: View<D>,
        D: ForeignOwnable + Send + Sync + 'static,
    {
        self.held.reserve(1, GFP_KERNEL)?;

        let data = data.into_foreign();
        // SAFETY: By the type invariant, the parent is a directory. `data` stays valid until the
        // file has been removed, because it is put into `held` or the file does not exist. The
        // operations are those for data of type `D`.
        let created = from_err_ptr(unsafe {
            bindings::debugfs_create_file_full(
                name.as_char_ptr(),
                0o444,
                self.dentry,
                data,
                ptr::null(),
                &Operations::<V, D>::TABLE,
            )
        });

        if let Err(error) = created {
            // SAFETY: `data` was just made by `into_foreign()`, and no file uses it.
            drop(unsafe { D::from_foreign(data) });
            return Err(error);
        }
        // INVARIANT: `data` belongs to the file just created, and `release` fits its type.
        let held = Held {
            data,
            release: release::<D>,
        };
        self.held.push_within_capacity(held).map_err(|_| ENOMEM)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Afterwards no reader is left and none can come.
        unsafe { bindings::debugfs_remove(self.dentry) };

        for held in &self.held {
            // SAFETY: By the type invariants, and no file uses the data any more.
            unsafe { (held.release)(held.data) };
        }
    }
}

/// Turns data back into its owner and drops it.
///
/// # Safety
///
/// `data` comes from `D::into_foreign()` and is not used any more.
unsafe fn release<D: ForeignOwnable>(data: *mut c_void) {
    // SAFETY: By the function contract.
    drop(unsafe { D::from_foreign(data) });
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
