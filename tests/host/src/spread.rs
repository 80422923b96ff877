// SPDX-License-Identifier: GPL-2.0
//! The spread of connections over hardware queues: every pair of small counts, and the edges of the
//! number range.

#![forbid(unsafe_code)]

use proptest::prelude::*;

use crate::rnbd::spread::Spread;

/// The connections that a queue serves, by trying each of them.
fn served(queues: u32, connections: u32, queue: u32) -> Vec<u32> {
    if connections >= queues {
        let all = 0..connections;
        all.filter(|c| c % queues == queue).collect()
    } else {
        let own = queue.checked_rem(connections);
        own.into_iter().collect()
    }
}

#[test]
fn every_queue_serves_its_connections_in_turn() {
    for queues in 1..=12 {
        for connections in 0..=30 {
            let spread = Spread {
                queues,
                connections,
            };
            for queue in 0..queues {
                let wanted = served(queues, connections, queue);
                assert_eq!(spread.count(queue) as usize, wanted.len());
                let turns = wanted.iter().copied().cycle().take(3 * wanted.len());
                for (turn, connection) in (0..).zip(turns) {
                    assert_eq!(spread.nth(queue, turn), Some(connection));
                }
            }
        }
    }
}

#[test]
fn every_connection_serves_and_none_twice_if_there_are_enough() {
    for queues in 1..=12 {
        for connections in queues..=30 {
            let spread = Spread {
                queues,
                connections,
            };
            let mut seen: Vec<u32> = (0..queues)
                .flat_map(|queue| (0..spread.count(queue)).map(move |turn| (queue, turn)))
                .map(|(queue, turn)| spread.nth(queue, turn).unwrap())
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..connections).collect::<Vec<_>>());
        }
    }
}

#[test]
fn too_few_connections_are_shared_evenly() {
    let spread = Spread {
        queues: 7,
        connections: 3,
    };
    let picks: Vec<_> = (0..7).map(|queue| spread.nth(queue, 99).unwrap()).collect();
    assert_eq!(picks, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn nothing_to_serve_is_no_fault() {
    for (queues, connections, queue) in [
        (0, 0, 0),
        (0, 4, 0),
        (4, 0, 0),
        (4, 4, 4),
        (4, 2, 4),
        (4, 9, u32::MAX),
    ] {
        let spread = Spread {
            queues,
            connections,
        };
        assert_eq!(spread.count(queue), 0);
        for turn in [0, 1, u32::MAX] {
            assert_eq!(spread.nth(queue, turn), None);
        }
    }
}

#[test]
fn the_ends_of_the_number_range_hold() {
    let one_queue = Spread {
        queues: 1,
        connections: u32::MAX,
    };
    assert_eq!(one_queue.count(0), u32::MAX);
    assert_eq!(one_queue.nth(0, u32::MAX - 1), Some(u32::MAX - 1));
    assert_eq!(one_queue.nth(0, u32::MAX), Some(0));
    let all_queues = Spread {
        queues: u32::MAX,
        connections: u32::MAX,
    };
    assert_eq!(all_queues.count(u32::MAX - 1), 1);
    assert_eq!(all_queues.nth(u32::MAX - 1, u32::MAX), Some(u32::MAX - 1));
}

proptest! {
    #[test]
    fn whatever_is_picked_exists_and_fits_its_queue(
        queues in 1_u32..,
        connections in 1_u32..,
        queue: u32,
        turn: u32,
    ) {
        let queue = queue % queues;
        let picked = Spread { queues, connections }.nth(queue, turn);
        let picked = picked.expect("every queue serves some connection");
        prop_assert!(picked < connections);
        if connections >= queues {
            prop_assert_eq!(picked % queues, queue);
        } else {
            prop_assert_eq!(picked, queue % connections);
        }
    }
}
