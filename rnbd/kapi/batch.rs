// SPDX-License-Identifier: GPL-2.0

//! Requests that blk-mq hands out together.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h)

use core::{
    marker::PhantomData,
    ptr,
    ptr::NonNull, //
};

use kernel::bindings;

use super::{
    gendisk::Disk,
    mq::Driver,
    request::Idle, //
};

/// Those at the head of a list that are for one hardware queue, in their order. What is left of them when
/// it is dropped, or was put back, blk-mq hands out one by one afterwards.
///
/// # Invariants
///
/// `from` and `left` are lists of requests that blk-mq has handed out and that are idle; `hctx` is live.
pub(crate) struct Batch<'a, T: Driver> {
    from: &'a mut bindings::rq_list,
    left: &'a mut bindings::rq_list,
    hctx: *mut bindings::blk_mq_hw_ctx,
    driver: PhantomData<fn(T)>,
}

impl<T: Driver> Batch<'_, T> {
    /// The next one; the caller has it for itself.
    pub(crate) fn next(&mut self) -> Option<Idle<T>> {
        // SAFETY: By the type invariant it was handed out, and it is not on the list any more.
        self.pop().map(|rq| unsafe { Idle::from_raw(rq) })
    }

    /// Gives one back, for blk-mq to hand it out once more.
    pub(crate) fn put_back(&mut self, request: Idle<T>) {
        // SAFETY: It came out of `next`, and nobody has it any more.
        unsafe { push(self.left, request.into_raw()) };
    }

    fn pop(&mut self) -> Option<NonNull<bindings::request>> {
        let rq = NonNull::new(self.from.head)?;
        // SAFETY: By the type invariant a live request.
        unsafe {
            if (*rq.as_ptr()).mq_hctx != self.hctx {
                return None;
            }
            self.from.head = (*rq.as_ptr()).__bindgen_anon_1.rq_next;
            (*rq.as_ptr()).__bindgen_anon_1.rq_next = ptr::null_mut();
        }
        if self.from.head.is_null() {
            self.from.tail = ptr::null_mut();
        }
        Some(rq)
    }
}

impl<T: Driver> Drop for Batch<'_, T> {
    fn drop(&mut self) {
        while let Some(rq) = self.pop() {
            // SAFETY: Just taken off the other list.
            unsafe { push(self.left, rq.as_ptr()) };
        }
    }
}

/// # Safety
///
/// `rq` is a request that is on no list, and `list` one of requests.
unsafe fn push(list: &mut bindings::rq_list, rq: *mut bindings::request) {
    // SAFETY: By contract.
    unsafe {
        (*rq).__bindgen_anon_1.rq_next = ptr::null_mut();
        match NonNull::new(list.tail) {
            Some(tail) => (*tail.as_ptr()).__bindgen_anon_1.rq_next = rq,
            None => list.head = rq,
        }
    }
    list.tail = rq;
}

/// # Safety
///
/// `blk_mq_ops::queue_rqs` of a tag set of `T`.
pub(super) unsafe extern "C" fn queue_rqs<T: Driver>(list: *mut bindings::rq_list) {
    // SAFETY: blk-mq passes a list that nobody else uses meanwhile.
    let from = unsafe { &mut *list };
    let mut left = bindings::rq_list {
        head: ptr::null_mut(),
        tail: ptr::null_mut(),
    };
    while let Some(rq) = NonNull::new(from.head) {
        // SAFETY: blk-mq passes requests of one live queue with a disk, each with its live hctx.
        let (disk, hctx, number) = unsafe {
            let hctx = (*rq.as_ptr()).mq_hctx;
            (
                Disk::<T>::from_raw((*(*rq.as_ptr()).q).disk),
                hctx,
                (*hctx).queue_num,
            )
        };
        // INVARIANT: As above. Takes at least the first one off the list.
        let mut batch = Batch {
            from,
            left: &mut left,
            hctx,
            driver: PhantomData,
        };
        T::queue_rqs(disk, number, &mut batch);
    }
    *from = left;
}
