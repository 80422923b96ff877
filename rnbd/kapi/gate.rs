// SPDX-License-Identifier: GPL-2.0

//! A reference that many processors use at the same time without writing to memory that they share, and
//! that is taken away by waiting until nobody uses it.
//!
//! Who uses it counts itself in and out on a lane of its own, so there is no lock, no count that all
//! share, and no grace period when it is taken away.

use core::{
    marker::PhantomData,
    ops::Deref,
    ptr, //
};

use kernel::{
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc,
        ArcBorrow, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// How many there are; a power of two. Users of more lanes share them.
const LANES: usize = 16;

/// How long to wait before looking again whether somebody is inside.
const LOOK_AGAIN: Delta = Delta::from_micros(50);

/// How many are inside by this lane, on a cache line of its own.
#[repr(align(64))]
struct Lane(Atomic<i32>);

/// Holds an `Arc<T>` or nothing.
///
/// # Invariants
///
/// `current` is null or comes from `Arc::into_raw()`, and that count is owned here. It is not dropped
/// before every lane was seen at zero after `current` had been made null.
pub(crate) struct Gate<T> {
    current: Atomic<*mut T>,
    lanes: [Lane; LANES],
    owned: PhantomData<Arc<T>>,
}

impl<T> Gate<T> {
    /// A gate that nobody can enter.
    pub(crate) fn new() -> Self {
        // INVARIANT: Nothing is there.
        Self {
            current: Atomic::new(ptr::null_mut()),
            lanes: [const { Lane(Atomic::new(0)) }; LANES],
            owned: PhantomData,
        }
    }

    /// Uses what is there until the result is dropped. [`Gate::close`] waits for that, so it must not
    /// be kept.
    pub(crate) fn enter(&self, lane: u32) -> Option<Inside<'_, T>> {
        // So that a closed gate becomes empty.
        if self.current.load(Relaxed).is_null() {
            return None;
        }
        let lane = self.lanes.get(lane as usize % LANES)?;
        // Before the look at `current`: either `close` sees this, or this sees what `close` has done.
        lane.0.fetch_add(1, Full);
        let inside = Inside {
            lane,
            current: self.current.load(Acquire),
        };
        match inside.current.is_null() {
            true => None,
            false => Some(inside),
        }
    }

    /// A count of one's own.
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        let inside = self.enter(0)?;
        // SAFETY: By the type invariant it came from `Arc::into_raw()`, and is not dropped while
        // somebody is inside.
        Some(unsafe { ArcBorrow::from_raw(inside.current) }.into())
    }

    /// Puts `value` there, after [`Gate::close`].
    pub(crate) fn open(&self, value: Arc<T>) {
        drop(self.close());
        let value = Arc::into_raw(value).cast_mut();
        // INVARIANT: The count of `value` goes here. Whoever else has opened it meanwhile loses.
        let other = self.current.xchg(value, Full);
        drop(self.take(other));
    }

    /// Takes away what is there, and sleeps until nobody uses it.
    pub(crate) fn close(&self) -> Option<Arc<T>> {
        let before = self.current.xchg(ptr::null_mut(), Full);
        self.take(before)
    }

    /// Makes an `Arc` again of what was taken out of `current`, when nobody uses it any more.
    fn take(&self, before: *mut T) -> Option<Arc<T>> {
        if before.is_null() {
            return None;
        }
        for lane in &self.lanes {
            while lane.0.load(Acquire) != 0 {
                fsleep(LOOK_AGAIN);
            }
        }
        // SAFETY: By the type invariant; the count was owned here, and nobody is inside who has seen it.
        Some(unsafe { Arc::from_raw(before) })
    }
}

impl<T> Drop for Gate<T> {
    fn drop(&mut self) {
        drop(self.close());
    }
}

/// What is behind a [`Gate`], in use.
///
/// # Invariants
///
/// Is counted on `lane`; `current` is null or what was in the gate after that.
pub(crate) struct Inside<'a, T> {
    lane: &'a Lane,
    current: *mut T,
}

impl<T> Deref for Inside<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the type invariant, and that of the gate; `enter` gives none out that is null.
        unsafe { &*self.current }
    }
}

impl<T> Drop for Inside<'_, T> {
    fn drop(&mut self) {
        // The gate may be gone as soon as this is done.
        self.lane.0.fetch_add(-1, Release);
    }
}
