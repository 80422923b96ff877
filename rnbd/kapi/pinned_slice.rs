// SPDX-License-Identifier: GPL-2.0

//! A slice of fixed length whose elements are initialised in place and never move.

use core::ops::Deref;

use kernel::prelude::*;

/// Like a `KVVec<T>` of elements that must not move, such as locks.
///
/// # Invariants
///
/// The vector is never grown, so its elements stay where they were initialised; no `&mut T` to an
/// element is ever given out.
pub(crate) struct PinnedSlice<T>(KVVec<T>);

impl<T> PinnedSlice<T> {
    /// Initialises `length` elements with what `init` makes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what an initialiser fails with.
    pub(crate) fn new<I: PinInit<T, E>, E>(
        length: usize,
        mut init: impl FnMut() -> I,
    ) -> Result<Self>
    where
        Error: From<E>,
    {
        Self::try_new(length, || Ok(init()))
    }

    /// As [`PinnedSlice::new`], where even making the initialiser may fail.
    ///
    /// # Errors
    ///
    /// As for [`PinnedSlice::new`], and what `init` fails with.
    pub(crate) fn try_new<I: PinInit<T, E>, E>(
        length: usize,
        mut init: impl FnMut() -> Result<I>,
    ) -> Result<Self>
    where
        Error: From<E>,
    {
        let mut elements = KVVec::with_capacity(length, GFP_KERNEL)?;
        for _ in 0..length {
            let init = init()?;
            let room = elements.spare_capacity_mut().first_mut().ok_or(ENOMEM)?;
            // SAFETY: The room is valid for writes and does not move: the capacity was reserved,
            // and by the type invariant nothing grows the vector. On failure it stays spare.
            unsafe { pin_init::raw_try_init(room.as_mut_ptr(), init) }?;
            // SAFETY: There was room for one more element, which has just been initialised.
            unsafe { elements.inc_len(1) };
        }
        // INVARIANT: Nothing here grows it or gives out its elements mutably.
        Ok(Self(elements))
    }
}

impl<T> Deref for PinnedSlice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}
