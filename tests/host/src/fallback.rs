// SPDX-License-Identifier: GPL-2.0
//! The search for a fallback: every case with up to five connections, and the rules one by one.

#![forbid(unsafe_code)]

use std::cell::Cell;

use crate::rnbd::fallback::find_fallback;

/// The rule once more, in the words of the contract.
fn expected(dead: usize, cached: Option<usize>, live: &[bool]) -> Option<usize> {
    if live.len() < 2 {
        return None;
    }
    if let Some(cached) = cached {
        if cached != dead && live.get(cached) == Some(&true) {
            return Some(cached);
        }
    }
    let mut others = live.iter().enumerate();
    others.position(|(number, live)| *live && number != dead)
}

#[test]
fn every_case_with_few_connections() {
    for count in 0..=5_usize {
        for mask in 0..1_u32 << count {
            let live: Vec<bool> = (0..count).map(|bit| mask & (1 << bit) != 0).collect();
            for dead in 0..=count {
                let caches = (0..=count + 1).map(Some).chain([None, Some(usize::MAX)]);
                for cached in caches {
                    let found = find_fallback(dead, cached, count, |number| live[number]);
                    let wanted = expected(dead, cached, &live);
                    assert_eq!(found, wanted, "{dead} {cached:?} {live:?}");
                }
            }
        }
    }
}

#[test]
fn the_rules_one_by_one() {
    let all = |_| true;
    assert_eq!(find_fallback(0, None, 0, all), None);
    assert_eq!(find_fallback(0, Some(0), 1, all), None);
    assert_eq!(find_fallback(1, None, 1, all), None);
    assert_eq!(find_fallback(0, None, 2, all), Some(1));
    assert_eq!(find_fallback(0, Some(3), 4, all), Some(3));
    assert_eq!(find_fallback(0, Some(4), 4, all), Some(1));
    assert_eq!(find_fallback(2, Some(2), 4, all), Some(0));
    assert_eq!(find_fallback(0, Some(3), 4, |number| number == 2), Some(2));
    assert_eq!(find_fallback(0, Some(3), 4, |_| false), None);
}

#[test]
fn a_good_cache_costs_one_look() {
    let looks = Cell::new(0);
    let found = find_fallback(0, Some(900), 1000, |_| {
        looks.set(looks.get() + 1);
        true
    });
    assert_eq!((found, looks.get()), (Some(900), 1));
}
