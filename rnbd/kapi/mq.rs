// SPDX-License-Identifier: GPL-2.0

//! The blk-mq side of a driver: the trait it implements, and the shells that C calls.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h)
//!
//! The shells convert and delegate; policy is in the implementation of [`Driver`].

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    types::Opaque, //
};

use super::{
    batch::{
        queue_rqs,
        Batch, //
    },
    gendisk::Disk,
    request::{
        Idle,
        Rejected,
        RequestData,
        Status,
        TimedOut, //
    }, //
};

/// What the timeout callback decided.
pub(crate) enum Timer {
    /// Somebody else deals with the request (`BLK_EH_DONE`).
    Done,
    /// Ask again after another full timeout (`BLK_EH_RESET_TIMER`).
    Rearm,
}

/// A block driver. `Self` is the data of one disk and lives exactly as long as its gendisk.
pub(crate) trait Driver: Sized + Send + Sync + 'static {
    /// Keeps the code in memory while a disk is open.
    const OWNER: &'static ThisModule;

    /// Takes over one request. `last` is false when more follow for this hardware context at once.
    ///
    /// May sleep (`BLK_MQ_F_BLOCKING`). `disk` may only be used until `request` has been ended.
    ///
    /// # Errors
    ///
    /// A refused request is ended by the block layer with the status it was refused with.
    fn queue_rq(
        disk: &Disk<Self>,
        hctx: u32,
        request: Idle<Self>,
        last: bool,
    ) -> Result<(), Rejected<Self>>;

    /// Takes over what it can of `batch`, which is all for one hardware context.
    ///
    /// May sleep, as [`Driver::queue_rq`].
    fn queue_rqs(disk: &Disk<Self>, hctx: u32, batch: &mut Batch<'_, Self>);

    /// The requests queued on `hctx` with `last` unset are not followed by another one after all.
    fn commit_rqs(disk: &Disk<Self>, hctx: u32);

    /// The timer of a started request has run out. May sleep.
    fn timeout(disk: &Disk<Self>, request: &TimedOut) -> Timer;

    /// Another opener, under the disk's `open_mutex`.
    ///
    /// # Errors
    ///
    /// Whatever `open(2)` is to fail with.
    fn open(disk: &Disk<Self>) -> Result;

    /// One opener less, under the disk's `open_mutex`.
    fn release(disk: &Disk<Self>);

    /// An ioctl that the block layer does not know, from a native or a 32-bit caller.
    ///
    /// # Errors
    ///
    /// Whatever `ioctl(2)` is to fail with.
    fn ioctl(disk: &Disk<Self>, command: u32, argument: usize) -> Result<i32>;
}

/// A tag set of driver `T`.
///
/// # Invariants
///
/// Holds a `blk_mq_tag_set` that [`TagSet::new`] allocated.
#[pin_data(PinnedDrop)]
pub(super) struct TagSet<T: Driver> {
    #[pin]
    set: Opaque<bindings::blk_mq_tag_set>,
    driver: PhantomData<fn(T)>,
}

impl<T: Driver> TagSet<T> {
    /// Allocates `hctxs` hardware queues (the block layer cuts them to the number of CPUs) of
    /// `depth` requests each.
    pub(super) fn new(hctxs: u32, depth: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            set <- Opaque::try_ffi_init(|set: *mut bindings::blk_mq_tag_set| {
                // SAFETY: `set` is valid for writes, and all-zero is the documented start.
                unsafe {
                    set.write_bytes(0, 1);
                    (*set).ops = &Shells::<T>::OPS;
                    (*set).nr_hw_queues = hctxs;
                    (*set).queue_depth = depth;
                    (*set).numa_node = bindings::NUMA_NO_NODE;
                    (*set).cmd_size = size_of::<RequestData>() as u32;
                    (*set).flags =
                        bindings::BLK_MQ_F_BLOCKING | bindings::BLK_MQ_F_NO_SCHED_BY_DEFAULT;
                    to_result(bindings::blk_mq_alloc_tag_set(set))
                }
            }),
            driver: PhantomData,
        }? Error)
    }

    pub(super) fn as_raw(&self) -> *mut bindings::blk_mq_tag_set {
        self.set.get()
    }

    /// How many hardware queues there are; never changes.
    pub(super) fn hctxs(&self) -> u32 {
        // SAFETY: By the type invariant; nothing here ever calls `blk_mq_update_nr_hw_queues()`.
        unsafe { (*self.as_raw()).nr_hw_queues }
    }

    /// Requests per hardware queue; never changes.
    pub(super) fn depth(&self) -> u32 {
        // SAFETY: By the type invariant; written by `blk_mq_alloc_tag_set()` only.
        unsafe { (*self.as_raw()).queue_depth }
    }
}

#[pinned_drop]
impl<T: Driver> PinnedDrop for TagSet<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant; the queue that used it is gone, as its owner drops this
        // last.
        unsafe { bindings::blk_mq_free_tag_set(self.as_raw()) };
    }
}

/// The C side of a [`Driver`].
struct Shells<T: Driver>(PhantomData<T>);

impl<T: Driver> Shells<T> {
    const OPS: bindings::blk_mq_ops = bindings::blk_mq_ops {
        queue_rq: Some(Self::queue_rq),
        commit_rqs: Some(Self::commit_rqs),
        queue_rqs: Some(queue_rqs::<T>),
        complete: Some(Self::complete),
        timeout: Some(Self::timeout),
        init_request: Some(Self::init_request),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `blk_mq_ops::queue_rq`.
    unsafe extern "C" fn queue_rq(
        hctx: *mut bindings::blk_mq_hw_ctx,
        bd: *const bindings::blk_mq_queue_data,
    ) -> bindings::blk_status_t {
        // SAFETY: blk-mq passes a live hctx and a request that it hands over by this call.
        let (disk, number, request, last) = unsafe {
            (
                Disk::<T>::from_raw((*(*hctx).queue).disk),
                (*hctx).queue_num,
                Idle::from_raw(NonNull::new_unchecked((*bd).rq)),
                (*bd).last,
            )
        };
        match T::queue_rq(disk, number, request, last) {
            Ok(()) => Status::Ok as bindings::blk_status_t,
            // SAFETY: `bd` is valid for the call.
            Err(rejected) => rejected.into_status(unsafe { (*bd).rq }) as bindings::blk_status_t,
        }
    }

    /// # Safety
    ///
    /// `blk_mq_ops::commit_rqs`.
    unsafe extern "C" fn commit_rqs(hctx: *mut bindings::blk_mq_hw_ctx) {
        // SAFETY: blk-mq passes a live hctx.
        let (disk, number) = unsafe {
            (
                Disk::<T>::from_raw((*(*hctx).queue).disk),
                (*hctx).queue_num,
            )
        };
        T::commit_rqs(disk, number);
    }

    /// # Safety
    ///
    /// `blk_mq_ops::complete`.
    unsafe extern "C" fn complete(rq: *mut bindings::request) {
        // SAFETY: A completed request of our tag set; ending it is this callback's job.
        unsafe { bindings::blk_mq_end_request(rq, RequestData::status(rq)) };
    }

    /// # Safety
    ///
    /// `blk_mq_ops::timeout`.
    unsafe extern "C" fn timeout(rq: *mut bindings::request) -> bindings::blk_eh_timer_return {
        // SAFETY: blk-mq holds a reference to the request during the callback, and the queue's
        // disk lives as long as its requests.
        let (disk, request) = unsafe {
            (
                Disk::<T>::from_raw((*(*rq).q).disk),
                TimedOut::from_raw(NonNull::new_unchecked(rq)),
            )
        };
        match T::timeout(disk, &request) {
            Timer::Done => bindings::blk_eh_timer_return_BLK_EH_DONE,
            Timer::Rearm => bindings::blk_eh_timer_return_BLK_EH_RESET_TIMER,
        }
    }

    /// # Safety
    ///
    /// `blk_mq_ops::init_request`.
    unsafe extern "C" fn init_request(
        _set: *mut bindings::blk_mq_tag_set,
        rq: *mut bindings::request,
        _hctx: c_uint,
        _node: c_int,
    ) -> c_int {
        // SAFETY: `cmd_size` makes room behind the request, and it is not in use yet.
        unsafe { RequestData::init(rq) };
        0
    }
}

/// `blk_should_fake_timeout()`, an inline function without a helper: whether fault injection wants
/// the end of this request to be lost.
///
/// # Safety
///
/// `rq` must be a live request.
#[cfg_attr(not(CONFIG_FAIL_IO_TIMEOUT), expect(unused_variables))]
pub(super) unsafe fn is_end_lost(rq: *mut bindings::request) -> bool {
    #[cfg(CONFIG_FAIL_IO_TIMEOUT)]
    {
        // SAFETY: By contract live, and so is its queue, whose flags others change meanwhile.
        let (queue, flags) = unsafe {
            let queue = (*rq).q;
            (queue, (&raw const (*queue).queue_flags).read_volatile())
        };
        if flags & (1 << bindings::QUEUE_FLAG_FAIL_IO) != 0 {
            // SAFETY: As above.
            return unsafe { bindings::__blk_should_fake_timeout(queue) };
        }
    }
    false
}

/// The number of the processor that this runs on; it may be another one as soon as this returns.
pub(crate) fn this_processor() -> u32 {
    // SAFETY: May be called anywhere.
    unsafe { bindings::raw_smp_processor_id() }
}
