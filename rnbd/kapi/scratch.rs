// SPDX-License-Identifier: GPL-2.0

//! Memory for small pieces that a socket may refer to: whole pages, written once from the start to the
//! end, which live as long as anybody refers to them.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)

use kernel::{
    bindings,
    page::{
        Page,
        PAGE_SIZE, //
    },
    prelude::*, //
};

/// The page that is being filled.
#[derive(Default)]
pub(crate) struct Scratch {
    page: Option<Page>,
    used_bytes: usize,
}

impl Scratch {
    /// Makes sure that there is room for so many bytes, in a new page if they do not fit into the one
    /// at hand. Returns false if there is no memory.
    pub(crate) fn make_room(&mut self, bytes: usize) -> bool {
        let is_there = self.page.is_some()
            && self
                .used_bytes
                .checked_add(bytes)
                .is_some_and(|end| end <= PAGE_SIZE);
        if is_there {
            return true;
        }
        // Whoever refers to the old page keeps it.
        self.page = Page::alloc_page(GFP_NOWAIT | __GFP_NOWARN).ok();
        self.used_bytes = 0;
        self.page.is_some() && bytes <= PAGE_SIZE
    }

    /// Writes `bytes` where nothing has been written before. [`None`] if there is no room.
    ///
    /// The place is valid until the next [`Scratch::make_room`].
    pub(super) fn write(&mut self, bytes: &[u8]) -> Option<bindings::bio_vec> {
        let page = self.page.as_ref()?;
        let (offset_bytes, length_bytes) = (self.used_bytes, bytes.len());
        let end = offset_bytes.checked_add(length_bytes)?;
        // SAFETY: `bytes` is readable, and nobody reads or writes this part of the page.
        unsafe { page.write_raw(bytes.as_ptr(), offset_bytes, length_bytes) }.ok()?;
        self.used_bytes = end;
        Some(bindings::bio_vec {
            bv_page: page.as_ptr(),
            bv_len: u32::try_from(length_bytes).ok()?,
            bv_offset: u32::try_from(offset_bytes).ok()?,
        })
    }
}
