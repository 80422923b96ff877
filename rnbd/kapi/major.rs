// SPDX-License-Identifier: GPL-2.0

//! A block major number that the driver has registered.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)

use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

/// A registered block major number.
pub(crate) struct Major {
    number: u32,
    name: &'static CStr,
}

impl Major {
    /// Registers `number` under `name` (`/proc/devices`).
    ///
    /// # Errors
    ///
    /// `EBUSY` if somebody has it.
    pub(crate) fn register(number: u32, name: &'static CStr) -> Result<Self> {
        // SAFETY: `name` is static and NUL-terminated.
        to_result(unsafe { bindings::__register_blkdev(number, name.as_char_ptr(), None) })?;
        Ok(Self { number, name })
    }
}

impl Drop for Major {
    fn drop(&mut self) {
        // SAFETY: Registered by `register` with the same arguments.
        unsafe { bindings::unregister_blkdev(self.number, self.name.as_char_ptr()) };
    }
}
