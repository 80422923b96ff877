// SPDX-License-Identifier: GPL-2.0

//! Workqueues that the driver owns, and taking items out of them again.
//!
//! The kernel crate has work items and the system's queues; here are what it lacks: queues of one's
//! own, cancelling.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::{ops::BitOr, ptr::NonNull};
use kernel::{
    bindings,
    container_of,
    fmt,
    prelude::*,
    str::CString,
    sync::Arc,
    time::Jiffies,
    workqueue::{
        HasDelayedWork,
        HasWork,
        Queue,
        RawDelayedWorkItem,
        RawWorkItem,
        Work,
        WorkItem, //
    }, //
};

/// Properties of a queue, combined by `|`. Each queue is one of [`Flags::PER_CPU`] and
/// [`Flags::UNBOUND`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// Items run on the CPU that queues them, one at a time but for those that sleep.
    pub(crate) const PER_CPU: Self = Self(bindings::wq_flags_WQ_PERCPU);
    /// Items may run on any CPU.
    pub(crate) const UNBOUND: Self = Self(bindings::wq_flags_WQ_UNBOUND);
    /// One worker always exists, so items run even when no memory can be had: for anything that
    /// reclaim may wait for.
    pub(crate) const MEM_RECLAIM: Self = Self(bindings::wq_flags_WQ_MEM_RECLAIM);
    /// Workers have a high priority.
    pub(crate) const HIGHPRI: Self = Self(bindings::wq_flags_WQ_HIGHPRI);
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A queue of the driver's own.
///
/// Dropping it waits for every queued item, and for those that they queue in turn, and then frees
/// the queue; so it must not be dropped by one of its own items. A *delayed* item whose time has
/// not come is not waited for: who uses [`OwnedQueue::enqueue_delayed_anew`] cancels the item with
/// [`cancel_delayed_sync_arc`] before the queue goes.
///
/// # Invariants
///
/// The pointer is a live workqueue that this value alone frees.
pub(crate) struct OwnedQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: A workqueue may be used and freed by any thread.
unsafe impl Send for OwnedQueue {}
// SAFETY: A workqueue has its own locks.
unsafe impl Sync for OwnedQueue {}

impl OwnedQueue {
    /// Creates a queue; of its name the kernel keeps the first 31 bytes.
    ///
    /// At most `max_active` of its items run at the same time (per CPU, unless unbound); 0 is the
    /// kernel's default, 1024.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(name: fmt::Arguments<'_>, flags: Flags, max_active: u16) -> Result<Self> {
        let name = CString::try_from_fmt(name)?;
        // SAFETY: The format takes exactly one string, which the kernel copies.
        let queue = unsafe {
            bindings::alloc_workqueue_noprof(
                c"%s".as_char_ptr(),
                flags.0,
                c_int::from(max_active),
                name.as_char_ptr(),
            )
        };

        // INVARIANT: Just created, and not known to anybody else.
        NonNull::new(queue).map(Self).ok_or(ENOMEM)
    }

    /// Queues `item` to run soon; what comes back says whether it was queued already.
    pub(crate) fn enqueue<W, const ID: u64>(&self, item: W) -> W::EnqueueOutput
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        self.queue().enqueue(item)
    }

    /// Queues `item` to run soon on the processor with the number `cpu`, or on another one if that
    /// goes offline; for a queue of [`Flags::PER_CPU`].
    pub(crate) fn enqueue_on<W, const ID: u64>(&self, cpu: u32, item: W) -> W::EnqueueOutput
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        let queue = self.0.as_ptr();
        let cpu = c_int::try_from(cpu).unwrap_or(0);
        // SAFETY: By the type invariant the queue is live; the work is valid by the contract of
        // `__enqueue()`, and false says that it is queued already.
        unsafe { item.__enqueue(move |work| bindings::queue_work_on(cpu, queue, work)) }
    }

    fn queue(&self) -> &Queue {
        // SAFETY: By the type invariant, it lives as long as `self`.
        unsafe { Queue::from_raw(self.0.as_ptr()) }
    }

    /// Queues `item` to run in `delay_jiffies` from now, whether or not it was already waiting.
    ///
    /// An item that runs just now runs once more. Where two threads do this at the same time, one
    /// of the two delays holds.
    pub(crate) fn enqueue_delayed_anew<T, const ID: u64>(
        &self,
        item: Arc<T>,
        delay_jiffies: Jiffies,
    ) where
        T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>> + Send + Sync + 'static,
        Arc<T>: RawDelayedWorkItem<ID, EnqueueOutput = Result<(), Arc<T>>>,
    {
        cancel_delayed_arc::<T, ID>(&item);
        // If this fails, another thread has queued the item in between.
        let _ = self
            .queue()
            .enqueue_delayed::<Arc<T>, ID>(item, delay_jiffies);
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the queue is drained first.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// Takes `item` out of its queue, and waits if it is running just now.
///
/// Afterwards it neither waits nor runs, unless somebody queues it again. Returns whether it was
/// waiting, so that this run will not happen. Must not be called by the item itself.
pub(crate) fn cancel_sync_arc<T, const ID: u64>(item: &Arc<T>) -> bool
where
    T: HasWork<T, ID> + WorkItem<ID, Pointer = Arc<T>>,
{
    let item_ptr = (&raw const **item).cast_mut();
    // SAFETY: The item is alive; `raw_get_work()` only computes the place of its work.
    let work = unsafe { Work::raw_get(T::raw_get_work(item_ptr)) };
    // SAFETY: `item` keeps the work, which was initialised when the item was made.
    let was_waiting = unsafe { bindings::cancel_work_sync(work) };

    if was_waiting {
        // SAFETY: The item was taken out before it ran.
        unsafe { drop_count_of_queue(item) };
    }
    was_waiting
}

/// Takes a delayed `item` out of its queue, whether its time has come or not. It may be running just now.
pub(crate) fn cancel_delayed_arc<T, const ID: u64>(item: &Arc<T>)
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>>,
{
    let work = delayed_work_of::<T, ID>(item);
    // SAFETY: By `delayed_work_of()`, and `item` keeps it.
    let was_waiting = unsafe { bindings::cancel_delayed_work(work) };

    if was_waiting {
        // SAFETY: The item was taken out before it ran.
        unsafe { drop_count_of_queue(item) };
    }
}

/// [`cancel_sync_arc`] for a delayed item: also one whose time has not come is taken out.
pub(crate) fn cancel_delayed_sync_arc<T, const ID: u64>(item: &Arc<T>) -> bool
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>>,
{
    let work = delayed_work_of::<T, ID>(item);
    // SAFETY: By `delayed_work_of()`, and `item` keeps it.
    let was_waiting = unsafe { bindings::cancel_delayed_work_sync(work) };

    if was_waiting {
        // SAFETY: The item was taken out before it ran.
        unsafe { drop_count_of_queue(item) };
    }
    was_waiting
}

/// Returns the initialised `delayed_work` inside `item`, valid as long as `item` is.
fn delayed_work_of<T, const ID: u64>(item: &Arc<T>) -> *mut bindings::delayed_work
where
    T: HasDelayedWork<T, ID>,
{
    let item_ptr = (&raw const **item).cast_mut();
    // SAFETY: The item is alive; `raw_get_work()` only computes the place of its work.
    let work = unsafe { Work::raw_get(T::raw_get_work(item_ptr)) };

    // SAFETY: By `HasDelayedWork`, that work lies within a `delayed_work`.
    unsafe { container_of!(work, bindings::delayed_work, work) }
}

/// Drops the reference count that a queue held on `item` while it was waiting there.
///
/// # Safety
///
/// The item has just been taken out of its queue, where it had been put as an [`Arc`], before it
/// ran: so nobody else drops this count.
unsafe fn drop_count_of_queue<T>(item: &Arc<T>) {
    // SAFETY: By the function contract, there is a count that was given up by `Arc::into_raw()`,
    // which returned this very address.
    drop(unsafe { Arc::from_raw(&raw const **item) });
}
