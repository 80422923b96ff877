// SPDX-License-Identifier: GPL-2.0

//! Wait queues whose waiters sleep until a condition holds, a time has passed or a signal comes.
//!
//! C header: [`include/linux/wait.h`](srctree/include/linux/wait.h)

use core::{
    mem::MaybeUninit,
    ptr, //
};

use kernel::{
    bindings,
    prelude::*,
    sync::LockClassKey,
    types::Opaque, //
};

/// Why [`WaitQueue::wait`] came back without the condition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Woken {
    /// The time has passed.
    TimedOut,
    /// A signal that the chosen [`Sleep`] reacts to is pending.
    Signal,
}

/// Which signals end a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Sleep {
    /// None: only for waits that something else bounds.
    Uninterruptible = bindings::TASK_UNINTERRUPTIBLE,
    /// Any signal.
    Interruptible = bindings::TASK_INTERRUPTIBLE,
    /// Fatal signals.
    Killable = bindings::TASK_KILLABLE,
}

/// No time limit.
pub(crate) const FOREVER_JIFFIES: usize = c_long::MAX as usize;

/// A `wait_queue_head_t`.
///
/// # Invariants
///
/// `head` is initialised.
#[pin_data]
pub(crate) struct WaitQueue {
    #[pin]
    head: Opaque<bindings::wait_queue_head>,
}

// SAFETY: The head has its own lock.
unsafe impl Send for WaitQueue {}
// SAFETY: As above.
unsafe impl Sync for WaitQueue {}

/// Initialises a [`WaitQueue`] with a lock class of its own.
macro_rules! new_wait_queue {
    ($name:literal) => {
        $crate::rnbd::kapi::wait::WaitQueue::new(
            ::kernel::c_str!($name),
            ::kernel::static_lock_class!(),
        )
    };
}
pub(crate) use new_wait_queue;

impl WaitQueue {
    /// Use [`new_wait_queue!`].
    pub(crate) fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        // INVARIANT: `__init_waitqueue_head()` initialises it.
        pin_init!(Self {
            head <- Opaque::ffi_init(|head| {
                // SAFETY: `head` is valid for writes, and the other arguments are static.
                unsafe {
                    bindings::__init_waitqueue_head(head, name.as_char_ptr(), key.as_ptr())
                }
            }),
        })
    }

    /// Makes every waiter look at its condition again.
    pub(crate) fn wake_all(&self) {
        // SAFETY: By the type invariant; 0 means all exclusive waiters as well.
        unsafe {
            bindings::__wake_up(self.head.get(), bindings::TASK_NORMAL, 0, ptr::null_mut());
        }
    }

    /// Sleeps until `condition` holds. It is called with the task state set, so it must not sleep.
    ///
    /// # Errors
    ///
    /// Says why the condition does not hold.
    pub(crate) fn wait(
        &self,
        sleep: Sleep,
        timeout_jiffies: usize,
        mut condition: impl FnMut() -> bool,
    ) -> Result<(), Woken> {
        kernel::task::might_sleep();
        let mut left = c_long::try_from(timeout_jiffies).unwrap_or(c_long::MAX);
        let mut entry = MaybeUninit::<bindings::wait_queue_entry>::uninit();
        let entry = entry.as_mut_ptr();
        // SAFETY: `entry` is valid for writes.
        unsafe { bindings::init_wait_entry(entry, 0) };
        let result = loop {
            // SAFETY: By the type invariant, and `entry` stays in place until `finish_wait()`.
            let signal =
                unsafe { bindings::prepare_to_wait_event(self.head.get(), entry, sleep as c_int) };
            if condition() {
                break Ok(());
            }
            if left == 0 {
                break Err(Woken::TimedOut);
            }
            if signal != 0 {
                break Err(Woken::Signal);
            }
            // SAFETY: The task state was set by `prepare_to_wait_event()`.
            left = unsafe { bindings::schedule_timeout(left) };
        };
        // SAFETY: Pairs with `prepare_to_wait_event()`; harmless if that has removed the entry.
        unsafe { bindings::finish_wait(self.head.get(), entry) };
        result
    }
}
