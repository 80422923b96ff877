// SPDX-License-Identifier: GPL-2.0
//! Which live connection takes over for a dead one: a pure function that owns nothing and needs no
//! lock; the caller keeps the cache and knows who lives.

#![forbid(unsafe_code)]

/// Finds the connection that takes over from the connection number `dead`.
///
/// `count` is the number of connections, numbered from zero. `cached` is what this function answered
/// last time for the same dead connection; staying with it keeps the requests of one hardware queue
/// together. If it does not serve any more, the live connection with the lowest number does.
///
/// Returns [`None`] if no other connection lives; a single connection never has a fallback.
pub(crate) fn find_fallback(
    dead: usize,
    cached: Option<usize>,
    count: usize,
    is_live: impl Fn(usize) -> bool,
) -> Option<usize> {
    if count <= 1 {
        return None;
    }
    let serves = |connection: &usize| *connection != dead && is_live(*connection);
    cached
        .filter(|connection| *connection < count)
        .filter(serves)
        .or_else(|| (0..count).find(serves))
}
