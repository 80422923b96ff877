// SPDX-License-Identifier: GPL-2.0

//! A static protected by a mutex, usable from code that is not allowed to be unsafe.
//!
//! C header: [`include/linux/mutex.h`](srctree/include/linux/mutex.h)

use kernel::sync::{
    atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
    lock::{
        GlobalLock,
        GlobalLockBackend, //
    }, //
};

/// [`Global::init`] has not been called.
const UNUSED: u32 = 0;
/// It is running.
const STARTING: u32 = 1;
/// It has run.
const READY: u32 = 2;

/// A static value behind a lock that is initialised when the module is loaded.
///
/// # Invariants
///
/// `lock` is initialised if `stage` is [`READY`], and used by nobody otherwise.
pub(crate) struct Global<B: GlobalLockBackend> {
    stage: Atomic<u32>,
    lock: GlobalLock<B>,
}

impl<B: GlobalLockBackend> Global<B> {
    /// Use [`global_mutex!`].
    pub(crate) const fn new(value: B::Item) -> Self {
        // INVARIANT: Not initialised.
        Self {
            stage: Atomic::new(UNUSED),
            // SAFETY: By the type invariant it is not used before it is initialised. That no other
            // lock has the type `B` matters only to those who get a guard, which nobody does.
            lock: unsafe { GlobalLock::new(value) },
        }
    }

    /// Makes it usable; only the first call does anything.
    pub(crate) fn init(&'static self) {
        if self.stage.cmpxchg(UNUSED, STARTING, Relaxed).is_ok() {
            // SAFETY: Just once, as the stage never goes back.
            unsafe { self.lock.init() };
            // INVARIANT: Just initialised.
            self.stage.store(READY, Release);
        }
    }

    /// Calls `f` with the lock held; [`None`] before [`Global::init`].
    pub(crate) fn with<R>(&'static self, f: impl FnOnce(&mut B::Item) -> R) -> Option<R>
    where
        B::Item: Unpin,
    {
        if self.stage.load(Acquire) != READY {
            return None;
        }
        Some(f(&mut self.lock.lock()))
    }
}

/// Declares a [`Global`] with a mutex.
macro_rules! global_mutex {
    ($(#[$meta:meta])* static $name:ident: Mutex<$value_type:ty> = $value:expr;) => {
        /// Names the lock.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "named as the static")]
        enum $name {}

        impl ::kernel::sync::lock::GlobalLockBackend for $name {
            const NAME: &'static ::kernel::str::CStr = ::kernel::c_str!(stringify!($name));
            type Item = $value_type;
            type Backend = ::kernel::sync::lock::mutex::MutexBackend;

            fn get_lock_class() -> ::core::pin::Pin<&'static ::kernel::sync::LockClassKey> {
                ::kernel::static_lock_class!()
            }
        }

        $(#[$meta])*
        static $name: $crate::rnbd::kapi::global::Global<$name> =
            $crate::rnbd::kapi::global::Global::new($value);
    };
}
pub(crate) use global_mutex;
