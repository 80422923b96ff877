// SPDX-License-Identifier: GPL-2.0

//! References that keep this module loaded.
//!
//! C header: [`include/linux/module.h`](srctree/include/linux/module.h)

use kernel::{
    bindings,
    module::this_module,
    prelude::*, //
};

/// This module, as the C tables want it (`THIS_MODULE`).
pub(crate) const THIS_MODULE: &ThisModule = this_module::<crate::LocalModule>();

/// One reference to this module: it cannot be unloaded while the value lives.
///
/// # Invariants
///
/// The value owns one count of the module.
pub(crate) struct ModuleRef(());

impl ModuleRef {
    /// Takes a reference; returns [`None`] if the module is on its way out.
    pub(crate) fn try_get() -> Option<Self> {
        // SAFETY: The code that runs belongs to the module, so its `struct module` exists.
        let taken = unsafe { bindings::try_module_get(THIS_MODULE.as_ptr()) };

        // INVARIANT: A count was just taken.
        taken.then_some(Self(()))
    }
}

impl Drop for ModuleRef {
    /// Gives the count back.
    ///
    /// If it may be the last one, the caller has to run from something else that keeps the module
    /// (a file operation, a netlink handler, an own workqueue), as in C.
    fn drop(&mut self) {
        // SAFETY: By the type invariant, there is a count to give back.
        unsafe { bindings::module_put(THIS_MODULE.as_ptr()) };
    }
}
