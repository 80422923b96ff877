// SPDX-License-Identifier: GPL-2.0
//! Whether an object may be among those that were met before: a set of addresses that is small, needs
//! no search and no lock, and may be mistaken in one direction.

#![forbid(unsafe_code)]

/// So many that of 256 addresses few are mistaken.
const BITS: usize = WORDS * u64::BITS as usize;
const WORDS: usize = 32;

/// Objects of some size differ in the bits above these.
const SKIPPED_BITS: u32 = 6;

/// Addresses that were met.
pub(crate) struct Seen([u64; WORDS]);

impl Seen {
    /// None.
    pub(crate) const fn new() -> Self {
        Self([0; WORDS])
    }

    /// Takes one more. Returns false if it *may* have been met before, and always if it was.
    pub(crate) fn insert(&mut self, address: usize) -> bool {
        let bit = (address >> SKIPPED_BITS) % BITS;
        let mask = 1u64 << (bit % u64::BITS as usize);
        let Some(word) = self.0.get_mut(bit / u64::BITS as usize) else {
            return false;
        };
        let is_new = *word & mask == 0;
        *word |= mask;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel's slab allocator has sockets.
    const APART_BYTES: usize = 832;

    #[test]
    fn one_that_was_met_is_never_new() {
        let mut seen = Seen::new();
        let addresses = (0..256).map(|at| 0xffff_8880_0123_4000 + at * APART_BYTES);
        for address in addresses.clone() {
            seen.insert(address);
        }
        for address in addresses {
            assert!(!seen.insert(address));
        }
    }

    #[test]
    fn those_that_lie_side_by_side_are_told_apart() {
        let mut seen = Seen::new();
        for at in 0..256 {
            assert!(
                seen.insert(0xffff_8880_0123_4000 + at * APART_BYTES),
                "{at}"
            );
        }
    }

    #[test]
    fn the_ends_of_the_address_space_are_addresses() {
        for address in [0, 1, usize::MAX] {
            let mut seen = Seen::new();
            assert!(seen.insert(address));
            assert!(!seen.insert(address));
        }
    }
}
