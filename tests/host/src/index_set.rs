// SPDX-License-Identifier: GPL-2.0
//! The set of indexes against the standard library's ordered set, around every change of its height.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::rnbd::index_set::{words, IndexSet};

/// Limits with no word, one word, full words, and each number of levels.
const LIMITS: [usize; 12] = [
    0,
    1,
    2,
    63,
    64,
    65,
    4095,
    4096,
    4097,
    1 << 18,
    (1 << 18) + 1,
    1 << 20,
];

fn empty(limit: usize) -> IndexSet<Vec<u64>> {
    IndexSet::empty(vec![!0; words(limit)], limit).expect("as many words as it needs")
}

/// Some indexes of a set, among them the first, the last and those beside word boundaries.
fn telling(limit: usize) -> Vec<usize> {
    let all = [
        0, 1, 62, 63, 64, 65, 127, 128, 4095, 4096, 4097, 262_143, 262_144, 262_145,
    ];
    let near_the_end = (0..3).map(|less| limit.wrapping_sub(less + 1));
    let found: BTreeSet<_> = all.into_iter().chain(near_the_end).collect();
    found.into_iter().filter(|index| *index < limit).collect()
}

#[test]
fn a_set_needs_a_word_for_64_and_for_64_words() {
    let needed: Vec<_> = LIMITS.iter().map(|limit| words(*limit)).collect();
    assert_eq!(
        needed,
        [
            0,
            1,
            1,
            1,
            1,
            3,
            65,
            65,
            68,
            4161,
            4097 + 65 + 2 + 1,
            16644 + 1
        ]
    );
}

#[test]
fn the_wrong_number_of_words_makes_no_set() {
    for limit in LIMITS {
        assert!(IndexSet::empty(vec![0; words(limit) + 1], limit).is_none());
    }
}

#[test]
fn an_empty_set_has_no_lowest_member() {
    for limit in LIMITS {
        assert_eq!(empty(limit).lowest(), None, "{limit}");
    }
}

#[test]
fn a_single_member_is_the_lowest_until_it_is_removed() {
    for limit in LIMITS {
        for index in telling(limit) {
            let mut set = empty(limit);
            set.insert(index);
            set.insert(index);
            assert_eq!(set.lowest(), Some(index), "{limit}");
            set.remove(index);
            assert_eq!(set.lowest(), None, "{limit}");
            set.remove(index);
            assert_eq!(set.lowest(), None, "{limit}");
        }
    }
}

#[test]
fn a_full_set_is_emptied_from_below_and_has_nothing_at_its_limit() {
    for limit in LIMITS {
        let mut set = empty(limit);
        set.fill();
        for index in 0..limit {
            assert_eq!(set.lowest(), Some(index));
            set.remove(index);
        }
        assert_eq!(set.lowest(), None);
        set.insert(limit);
        set.insert(usize::MAX);
        assert_eq!(set.lowest(), None);
    }
}

proptest! {
    #[test]
    fn it_is_a_set(
        limit in 1_usize..10_000,
        is_full in any::<bool>(),
        steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..400),
    ) {
        let mut set = empty(limit);
        let mut model = BTreeSet::new();
        if is_full {
            set.fill();
            model.extend(0..limit);
        }
        for (inserts, index) in steps {
            // Low ones often: there the lowest member changes.
            let index = index.index(limit) % if inserts { limit } else { limit.min(70) };
            if inserts {
                set.insert(index);
                model.insert(index);
            } else {
                set.remove(index);
                model.remove(&index);
            }
            prop_assert_eq!(set.lowest(), model.first().copied());
        }
    }
}
