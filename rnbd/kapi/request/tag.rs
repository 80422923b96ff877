// SPDX-License-Identifier: GPL-2.0

//! The place of a request in a tag set.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h)

use kernel::bindings;

/// Where a request sits in the tag set: stable from dispatch until it is ended or requeued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag {
    /// Number of the hardware context.
    pub(crate) hctx: u16,
    /// Driver tag in that hardware context.
    pub(crate) tag: u16,
}

impl Tag {
    /// # Safety
    ///
    /// `rq` must be the valid memory of a request that has been dispatched.
    pub(super) unsafe fn of(rq: *mut bindings::request) -> Self {
        // SAFETY: By contract.
        let unique = unsafe { bindings::blk_mq_unique_tag(rq) };
        Self {
            hctx: (unique >> bindings::BLK_MQ_UNIQUE_TAG_BITS) as u16,
            tag: (unique & bindings::BLK_MQ_UNIQUE_TAG_MASK) as u16,
        }
    }
}
