// SPDX-License-Identifier: GPL-2.0
//! A set of device indexes whose lowest member is found without looking at the others: plain words,
//! owned by whoever lends them, no lock.

#![forbid(unsafe_code)]

use core::ops::DerefMut;

/// Members that one word stands for, and words that one word of the level above stands for.
const FAN_OUT: usize = u64::BITS as usize;

/// Indexes below a limit.
///
/// The words come level by level. A bit of the lowest level is a member; a bit of each level above says
/// that a word of the level below is not 0. The highest level is a single word, so every operation
/// touches one word of each of at most four levels.
pub(crate) struct IndexSet<S> {
    words: S,
    limit: usize,
}

/// How many words a level over `count` bits has.
const fn level_words(count: usize) -> usize {
    count.div_ceil(FAN_OUT)
}

/// How many words a set of the indexes below `limit` needs, all of which have to be 0 at first.
pub(crate) const fn words(limit: usize) -> usize {
    let mut level = level_words(limit);
    let mut total = level;
    while level > 1 {
        level = level_words(level);
        total = total.saturating_add(level);
    }
    total
}

/// The word of a bit, and the bit within it.
const fn place(position: usize) -> (usize, u64) {
    (position / FAN_OUT, 1 << (position % FAN_OUT))
}

impl<S: DerefMut<Target = [u64]>> IndexSet<S> {
    /// The empty set of indexes below `limit`; [`None`] if `words` are not [`words`] of them.
    pub(crate) fn empty(words: S, limit: usize) -> Option<Self> {
        let mut this = Self { words, limit };
        if this.words.len() != self::words(limit) {
            return None;
        }
        this.words.fill(0);
        Some(this)
    }

    /// Adds all indexes below the limit.
    pub(crate) fn fill(&mut self) {
        let (mut offset, mut count) = (0_usize, self.limit);
        loop {
            let length = level_words(count);
            let level = self.words.iter_mut().skip(offset).take(length);
            for (word, first) in level.zip((0..count).step_by(FAN_OUT)) {
                let members = count.saturating_sub(first).min(FAN_OUT);
                *word = !0 >> FAN_OUT.saturating_sub(members);
            }
            if length <= 1 {
                return;
            }
            offset = offset.saturating_add(length);
            count = length;
        }
    }

    /// Adds an index; one at or above the limit is ignored.
    pub(crate) fn insert(&mut self, index: usize) {
        self.update(index, |word, bit| {
            let was_empty = *word == 0;
            *word |= bit;
            was_empty
        });
    }

    /// Removes an index, if it is there.
    pub(crate) fn remove(&mut self, index: usize) {
        self.update(index, |word, bit| {
            let was_empty = *word == 0;
            *word &= !bit;
            *word == 0 && !was_empty
        });
    }

    /// Changes the bit of an index, and those that stand for its word above as long as `change` says
    /// that its word has become empty or is not any more.
    fn update(&mut self, index: usize, change: impl Fn(&mut u64, u64) -> bool) {
        if index >= self.limit {
            return;
        }
        let (mut offset, mut count, mut position) = (0_usize, self.limit, index);
        loop {
            let (number, bit) = place(position);
            let Some(word) = self.words.get_mut(offset.saturating_add(number)) else {
                return;
            };
            let length = level_words(count);
            if !change(word, bit) || length <= 1 {
                return;
            }
            offset = offset.saturating_add(length);
            count = length;
            position = number;
        }
    }

    /// The lowest member.
    pub(crate) fn lowest(&self) -> Option<usize> {
        let mut end = self.words.len();
        let mut number = 0_usize;
        // From the single word at the top down: each level starts where the one above it is told to look.
        loop {
            let (start, is_lowest) = self.level_before(end)?;
            let word = *self.words.get(start.checked_add(number)?)?;
            if word == 0 {
                return None;
            }
            let bit = usize::try_from(word.trailing_zeros()).ok()?;
            number = number.checked_mul(FAN_OUT)?.checked_add(bit)?;
            if is_lowest {
                return Some(number);
            }
            end = start;
        }
    }

    /// Where the level starts that ends before the word `end`, and whether it is the lowest.
    fn level_before(&self, end: usize) -> Option<(usize, bool)> {
        let (mut offset, mut length) = (0_usize, level_words(self.limit));
        loop {
            let next = offset.checked_add(length)?;
            if next == end {
                return Some((offset, offset == 0));
            }
            if length <= 1 {
                return None;
            }
            offset = next;
            length = level_words(length);
        }
    }
}
