// SPDX-License-Identifier: GPL-2.0

//! A blk-mq request as a value that changes type with its state and can be ended only once.
//!
//! C header: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h)
//!
//! The states, and who is responsible for the request in each:
//!
//! 1. [`Idle`]: handed out by `queue_rq` and not started. The block layer's timer does not run.
//!    Leaves by [`Idle::start`], [`Idle::requeue`], [`Idle::fail`], or as the [`Rejected`] result
//!    of `queue_rq`.
//! 2. [`Started`]: in flight, the timer runs. Leaves by [`Started::complete`] or
//!    [`Started::requeue`].
//!
//! Every way out takes the value, so a request cannot be ended twice; dropping one ends it with
//! an I/O error, so it cannot be forgotten either.

mod tag;

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

pub(crate) use self::tag::Tag;
use super::{
    mq::{
        is_end_lost,
        Driver, //
    },
    time::is_past, //
};

/// `REQ_OP_MASK`, a macro that bindgen does not see.
const REQ_OP_MASK: u32 = (1 << bindings::REQ_OP_BITS) - 1;

/// Result of a request: the part of `blk_status_t` that a network block driver uses.
///
/// C header: [`include/linux/blk_types.h`](srctree/include/linux/blk_types.h)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Status {
    /// Success.
    Ok = 0,
    /// `EOPNOTSUPP`.
    NotSupported = 1,
    /// `ETIMEDOUT`.
    #[expect(
        dead_code,
        reason = "completes the C driver's set; the engine fails with IoError"
    )]
    Timeout = 2,
    /// `ENOSPC`.
    NoSpace = 3,
    /// `EIO`.
    IoError = 10,
}

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// `REQ_OP_READ`.
    Read,
    /// `REQ_OP_WRITE`.
    Write,
    /// `REQ_OP_FLUSH`.
    Flush,
    /// `REQ_OP_DISCARD`.
    Discard,
    /// `REQ_OP_WRITE_ZEROES`.
    WriteZeroes,
    /// Anything else.
    Other,
}

/// Names a request without giving any right to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestId(usize);

/// What the driver core keeps behind every `struct request`.
#[repr(C)]
pub(super) struct RequestData {
    /// Written by [`Started::complete`], read by the completion callback.
    status: Atomic<u32>,
}

impl RequestData {
    /// # Safety
    ///
    /// `rq` must be a live request of a tag set whose `cmd_size` is the size of this type.
    unsafe fn of<'a>(rq: *mut bindings::request) -> &'a Self {
        // SAFETY: By contract `cmd_size` bytes follow the request; `init` filled them.
        unsafe { &*rq.add(1).cast::<Self>() }
    }

    /// # Safety
    ///
    /// As for [`RequestData::of`], from the `init_request` callback.
    pub(super) unsafe fn init(rq: *mut bindings::request) {
        // SAFETY: By contract the bytes behind `rq` are ours and nobody uses them yet.
        unsafe {
            rq.add(1).cast::<Self>().write(Self {
                status: Atomic::new(0),
            })
        };
    }

    /// # Safety
    ///
    /// As for [`RequestData::of`].
    pub(super) unsafe fn status(rq: *mut bindings::request) -> bindings::blk_status_t {
        // SAFETY: By contract. Only a `Status`, which fits, was ever stored.
        unsafe { Self::of(rq) }.status.load(Relaxed) as bindings::blk_status_t
    }
}

/// A request of driver `T` that this value alone may end.
///
/// # Invariants
///
/// Points to a live request of a tag set of `T` that blk-mq handed out and that has been neither
/// completed nor requeued since.
struct Owned<T: Driver>(NonNull<bindings::request>, PhantomData<fn(T)>);

// SAFETY: By the type invariant the request is ours alone, and blk-mq lets any thread end it.
unsafe impl<T: Driver> Send for Owned<T> {}
// SAFETY: `&Owned` only reads fields that do not change while it is owned.
unsafe impl<T: Driver> Sync for Owned<T> {}

impl<T: Driver> Owned<T> {
    fn raw(&self) -> *mut bindings::request {
        self.0.as_ptr()
    }

    fn cmd_flags(&self) -> u32 {
        // SAFETY: By the type invariant the request is live.
        unsafe { (*self.raw()).cmd_flags }
    }

    fn operation(&self) -> Operation {
        match self.cmd_flags() & REQ_OP_MASK {
            bindings::req_op_REQ_OP_READ => Operation::Read,
            bindings::req_op_REQ_OP_WRITE => Operation::Write,
            bindings::req_op_REQ_OP_FLUSH => Operation::Flush,
            bindings::req_op_REQ_OP_DISCARD => Operation::Discard,
            bindings::req_op_REQ_OP_WRITE_ZEROES => Operation::WriteZeroes,
            _ => Operation::Other,
        }
    }

    fn tag(&self) -> Tag {
        // SAFETY: By the type invariant the request is live and has been dispatched.
        unsafe { Tag::of(self.raw()) }
    }

    fn id(&self) -> RequestId {
        RequestId(self.raw().addr())
    }

    fn into_raw(self) -> *mut bindings::request {
        ManuallyDrop::new(self).raw()
    }

    fn start(&self) {
        // SAFETY: By the type invariant ours, and the caller knows it to be idle.
        unsafe { bindings::blk_mq_start_request(self.raw()) };
    }

    fn complete(self, status: Status) {
        let rq = self.into_raw();
        // SAFETY: By the type invariant ours; started by every caller. Ownership ends here.
        unsafe {
            RequestData::of(rq).status.store(status as u32, Relaxed);
            bindings::blk_mq_complete_request(rq);
        }
    }

    fn requeue(self) {
        // SAFETY: By the type invariant ours; ownership goes back to blk-mq.
        unsafe { bindings::blk_mq_requeue_request(self.into_raw(), true) };
    }
}

impl<T: Driver> Drop for Owned<T> {
    fn drop(&mut self) {
        pr_err!("a request was dropped unended; failing it\n");
        // SAFETY: By the type invariant live.
        let state = unsafe { ptr::read_volatile(&raw const (*self.raw()).state) };
        if state == bindings::mq_rq_state_MQ_RQ_IDLE {
            self.start();
        }
        // SAFETY: By the type invariant ours, and started now. Nobody uses it after the drop.
        unsafe {
            RequestData::of(self.raw())
                .status
                .store(Status::IoError as u32, Relaxed);
            bindings::blk_mq_complete_request(self.raw());
        }
    }
}

/// A request that `queue_rq` was given and that has not been started.
#[must_use]
pub(crate) struct Idle<T: Driver>(Owned<T>);

impl<T: Driver> Idle<T> {
    /// # Safety
    ///
    /// `rq` must be the request that `queue_rq` of a tag set of `T` was just called for.
    pub(super) unsafe fn from_raw(rq: NonNull<bindings::request>) -> Self {
        // INVARIANT: By contract blk-mq has just handed it out.
        Self(Owned(rq, PhantomData))
    }

    pub(super) fn into_raw(self) -> *mut bindings::request {
        self.0.into_raw()
    }

    /// What the request asks for.
    pub(crate) fn operation(&self) -> Operation {
        self.0.operation()
    }

    /// Where it sits in the tag set.
    pub(crate) fn tag(&self) -> Tag {
        self.0.tag()
    }

    /// Starts the block layer's timer.
    pub(crate) fn start(self) -> Started<T> {
        self.0.start();
        Started(self.0)
    }

    /// Gives it back to be dispatched again.
    pub(crate) fn requeue(self) {
        self.0.requeue();
    }

    /// Ends it with an error, from outside `queue_rq`.
    pub(crate) fn fail(self, status: Status) {
        self.start().complete(status);
    }

    /// Refuses it, from inside `queue_rq`.
    pub(crate) fn reject(self, status: Status) -> Rejected<T> {
        Rejected {
            request: self,
            status,
        }
    }
}

/// A request that was refused in `queue_rq`; returning it makes the block layer end the request.
#[must_use]
pub(crate) struct Rejected<T: Driver> {
    request: Idle<T>,
    status: Status,
}

impl<T: Driver> Rejected<T> {
    /// What to return from the `queue_rq` that was called for `rq`.
    pub(super) fn into_status(self, rq: *mut bindings::request) -> Status {
        if self.request.0.raw() == rq {
            // The block layer ends the request itself when `queue_rq` returns a status.
            let _ = self.request.0.into_raw();
            return self.status;
        }
        // Another one that the driver had kept.
        self.request.fail(self.status);
        Status::Ok
    }
}

/// A request in flight.
#[must_use]
pub(crate) struct Started<T: Driver>(Owned<T>);

impl<T: Driver> Started<T> {
    pub(super) fn raw(&self) -> *mut bindings::request {
        self.0.raw()
    }

    /// Where it sits in the tag set.
    pub(crate) fn tag(&self) -> Tag {
        self.0.tag()
    }

    /// What the request asks for.
    pub(crate) fn operation(&self) -> Operation {
        self.0.operation()
    }

    /// Names it.
    pub(crate) fn id(&self) -> RequestId {
        self.0.id()
    }

    /// First byte on the disk.
    pub(crate) fn offset_bytes(&self) -> u64 {
        // SAFETY: `Owned`'s type invariant.
        let sector = unsafe { (*self.raw()).__sector };
        sector << bindings::SECTOR_SHIFT
    }

    /// Length in bytes.
    pub(crate) fn length_bytes(&self) -> u32 {
        // SAFETY: `Owned`'s type invariant.
        unsafe { (*self.raw()).__data_len }
    }

    /// Whether the data must be stable when the request ends (`REQ_FUA`).
    pub(crate) fn is_fua(&self) -> bool {
        self.0.cmd_flags() & (1 << bindings::req_flag_bits___REQ_FUA) != 0
    }

    /// Whether zeroes must stay allocated (`REQ_NOUNMAP`).
    pub(crate) fn is_no_unmap(&self) -> bool {
        self.0.cmd_flags() & (1 << bindings::req_flag_bits___REQ_NOUNMAP) != 0
    }

    /// Whether fault injection (`io-timeout-fail` of the disk) wants this end to be lost, so that
    /// the request times out. Each call draws anew.
    pub(crate) fn is_end_lost(&self) -> bool {
        // SAFETY: `Owned`'s type invariant.
        unsafe { is_end_lost(self.raw()) }
    }

    /// Ends the request: `status` goes to whoever submitted it.
    pub(crate) fn complete(self, status: Status) {
        self.0.complete(status);
    }

    /// Ends the request in this very context, which must be a task's: without the way through a soft
    /// interrupt, and without waking the task that would carry that out.
    pub(crate) fn complete_here(self, status: Status) {
        // SAFETY: `Owned`'s type invariant; it is started, and ownership ends here.
        unsafe {
            bindings::blk_mq_end_request(self.0.into_raw(), status as bindings::blk_status_t)
        };
    }

    /// Gives it back to be dispatched again, with a new deadline and perhaps a new tag.
    pub(crate) fn requeue(self) {
        self.0.requeue();
    }
}

/// The request that the timeout callback was called for: a name, and no right to it.
///
/// Its memory stays valid for the callback, since blk-mq holds a reference meanwhile; whoever owns
/// it may end it at the same time.
pub(crate) struct TimedOut(NonNull<bindings::request>);

impl TimedOut {
    /// # Safety
    ///
    /// `rq` must be the argument of a running timeout callback.
    pub(super) unsafe fn from_raw(rq: NonNull<bindings::request>) -> Self {
        Self(rq)
    }

    /// Names it.
    pub(crate) fn id(&self) -> RequestId {
        RequestId(self.0.as_ptr().addr())
    }

    /// Whether its deadline has passed: not so if it has been started again since the timer ran out.
    pub(crate) fn is_overdue(&self) -> bool {
        // SAFETY: By the contract of `from_raw` the memory is valid; others write it meanwhile.
        let deadline = unsafe { ptr::read_volatile(&raw const (*self.0.as_ptr()).deadline) };
        is_past(deadline)
    }

    /// Where it sat in the tag set when it was looked at; it may have moved on since.
    pub(crate) fn tag(&self) -> Tag {
        // SAFETY: By the contract of `from_raw` the memory is valid. `blk_mq_unique_tag()` reads
        // `mq_hctx`, which never changes for a request, and `tag`.
        unsafe { Tag::of(self.0.as_ptr()) }
    }
}
