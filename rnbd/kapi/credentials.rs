// SPDX-License-Identifier: GPL-2.0

//! What the current task may do, and scopes that change it: capabilities, memory reserves,
//! kernel credentials.
//!
//! C headers: [`include/linux/capability.h`](srctree/include/linux/capability.h),
//! [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h),
//! [`include/linux/cred.h`](srctree/include/linux/cred.h)

use core::ptr;
use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Atomic,
        Release, //
    },
    task::Task,
    types::NotThreadSafe, //
};

/// Returns whether the current task has `CAP_SYS_ADMIN` in the initial user namespace.
pub(crate) fn capable_sys_admin() -> bool {
    // SAFETY: May be called from any task context; the number is a valid capability.
    unsafe { bindings::capable(bindings::CAP_SYS_ADMIN as c_int) }
}

/// Allocation flags of the current task that this scope has switched on.
///
/// Scopes may end in any order: each only takes away what it added itself.
struct TaskFlags {
    /// The `PF_*` bits that were clear before.
    added: u32,
    _not_send: NotThreadSafe,
}

impl TaskFlags {
    /// Switches `flags` on (`memalloc_flags_save()`).
    fn set(flags: u32) -> Self {
        let current = Task::current_raw();
        // SAFETY: `current` is the running task, and only a task itself writes its `flags`.
        let added = unsafe {
            let added = !(*current).flags & flags;
            (*current).flags |= flags;
            added
        };
        Self {
            added,
            _not_send: NotThreadSafe,
        }
    }
}

impl Drop for TaskFlags {
    fn drop(&mut self) {
        // SAFETY: As in `set()`; the value is not `Send`, so this is the same task.
        unsafe { (*Task::current_raw()).flags &= !self.added };
    }
}

/// While it lives, allocations of the current task start no I/O, whatever flags they are given.
///
/// The kernel crate cannot express `GFP_NOIO`; `GFP_KERNEL` within this scope is the same.
#[must_use = "the scope ends when the value is dropped"]
pub(crate) struct NoIo {
    _flags: TaskFlags,
}

impl NoIo {
    /// Begins the scope.
    pub(crate) fn enter() -> Self {
        Self {
            _flags: TaskFlags::set(bindings::PF_MEMALLOC_NOIO),
        }
    }
}

/// While it lives, the current task acts for memory reclaim.
///
/// Its allocations may use the memory reserves and never enter reclaim themselves, and its
/// credentials are those of the kernel, so that security modules judge the driver and not whoever
/// happened to submit the I/O. Only for work that frees memory soon, such as sending a write.
#[must_use = "the scope ends when the value is dropped"]
pub(crate) struct ReclaimScope {
    _flags: TaskFlags,
    _credentials: KernelCredentials,
}

impl ReclaimScope {
    /// Begins the scope.
    pub(crate) fn enter() -> Self {
        Self {
            _flags: TaskFlags::set(bindings::PF_MEMALLOC),
            _credentials: KernelCredentials::assume(),
        }
    }
}

/// The current task runs with the credentials of the kernel (`scoped_with_kernel_creds()`).
///
/// # Invariants
///
/// `before` is null, or what the current task's `cred` was before; it stays valid, because the
/// task's own reference to it is still held by `real_cred` or by an outer override.
struct KernelCredentials {
    before: *const bindings::cred,
    _not_send: NotThreadSafe,
}

impl KernelCredentials {
    fn assume() -> Self {
        // SAFETY: `init_task` is static and its credentials are never replaced (`kernel_cred()`).
        let kernel = unsafe { bindings::init_task.cred };
        // SAFETY: Only the running task itself replaces its `cred`.
        let before = unsafe { (*Task::current_raw()).cred };

        // A nested scope changes nothing and so restores nothing: whichever order the two end in,
        // the task cannot be left with more than it had.
        if ptr::eq(before, kernel) {
            return Self {
                before: ptr::null(),
                _not_send: NotThreadSafe,
            };
        }
        // SAFETY: The credentials of `init_task` are never freed.
        unsafe { Self::publish(kernel) };
        Self {
            before,
            _not_send: NotThreadSafe,
        }
    }

    /// Makes `cred` the subjective credentials of the current task (`rcu_replace_pointer()`).
    ///
    /// # Safety
    ///
    /// `cred` is valid and stays so until it is replaced.
    unsafe fn publish(cred: *const bindings::cred) {
        // SAFETY: The field is aligned and lives as long as the running task; readers on other
        // CPUs use RCU, for which a release store publishes the pointer.
        unsafe { Atomic::from_ptr(&raw mut (*Task::current_raw()).cred) }
            .store(cred.cast_mut(), Release);
    }
}

impl Drop for KernelCredentials {
    fn drop(&mut self) {
        if !self.before.is_null() {
            // SAFETY: By the type invariant; the value is not `Send`, so this is the same task.
            unsafe { Self::publish(self.before) };
        }
    }
}
