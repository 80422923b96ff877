// SPDX-License-Identifier: GPL-2.0
//! The picture of a device's states in the documentation shows the moves that are legal, and no others.

use crate::rnbd::device::state::MOVES;

const PAGE: &str = include_str!("../../../Documentation/life-of-a-connect.rst");

/// The arrows of the graph `name` on the page.
fn arrows(name: &str) -> Vec<(String, String)> {
    let begin = PAGE.find(&format!("digraph {name} {{")).expect("the graph");
    let graph = PAGE[begin..].split("\n   }").next().expect("its end");
    graph
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';')?.split_once(" -> "))
        .map(|(from, to)| (from.replace('"', ""), to.replace('"', "")))
        .collect()
}

#[test]
fn the_picture_has_every_legal_move_once_and_no_other() {
    let mut shown = arrows("states");
    let mut legal: Vec<(String, String)> = MOVES
        .iter()
        .map(|(from, to)| (from.name().into(), to.name().into()))
        .collect();
    shown.sort();
    legal.sort();
    assert_eq!(shown, legal);
}
