// SPDX-License-Identifier: GPL-2.0

//! Which indexes have no device, and which devices are free, so that neither is searched for. Part of
//! what the registry's mutex protects.

#![forbid(unsafe_code)]

use kernel::prelude::*;

use super::super::{
    config::Numbering,
    index_set::{
        words,
        IndexSet, //
    }, //
};

/// Whether CONNECT may take a device that it was not told the index of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Availability {
    /// Nobody uses it.
    Unopened,
    /// It is free, but open: second choice.
    Opened,
    /// It is not free.
    Taken,
}

type Set = IndexSet<KVVec<u64>>;

/// What is free.
pub(super) struct Indexes {
    /// Indexes without a device.
    vacant: Set,
    /// Devices that are [`Availability::Unopened`].
    unopened: Set,
    /// Devices that are [`Availability::Opened`].
    opened: Set,
}

fn empty(limit: usize) -> Result<Set> {
    let words = KVVec::from_elem(0, words(limit), GFP_KERNEL)?;
    IndexSet::empty(words, limit).ok_or(ENOMEM)
}

impl Indexes {
    /// No index has a device.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(numbering: &Numbering) -> Result<Self> {
        let limit = usize::try_from(numbering.max_index())?.saturating_add(1);
        let mut vacant = empty(limit)?;
        vacant.fill();
        Ok(Self {
            vacant,
            unopened: empty(limit)?,
            opened: empty(limit)?,
        })
    }

    /// The lowest index without a device.
    pub(super) fn lowest_vacant(&self) -> Option<u32> {
        u32::try_from(self.vacant.lowest()?).ok()
    }

    /// An index has got a device, or has lost it.
    pub(super) fn set_vacant(&mut self, index: u32, is_vacant: bool) {
        change(&mut self.vacant, index, is_vacant);
    }

    /// A device has become free, or is not any more.
    pub(super) fn set_available(&mut self, index: u32, availability: Availability) {
        let is_unopened = availability == Availability::Unopened;
        change(&mut self.unopened, index, is_unopened);
        let is_opened = availability == Availability::Opened;
        change(&mut self.opened, index, is_opened);
    }

    /// The lowest device that is free, preferably one that nobody has open.
    pub(super) fn lowest_available(&self) -> Option<u32> {
        let lowest = self.unopened.lowest().or_else(|| self.opened.lowest());
        u32::try_from(lowest?).ok()
    }
}

fn change(set: &mut Set, index: u32, is_member: bool) {
    // An index that does not fit is beyond the limit as well.
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    if is_member {
        set.insert(index);
    } else {
        set.remove(index);
    }
}
