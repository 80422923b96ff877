// SPDX-License-Identifier: GPL-2.0
//! The rooms of rnbd that know nothing of the kernel, mounted as the module mounts them, and their
//! property tests.

#![cfg_attr(not(test), no_std)]
#![cfg_attr(
    not(test),
    expect(dead_code, reason = "only the tests call into the rooms")
)]
#![cfg_attr(
    not(test),
    expect(unused_imports, reason = "only the tests use what a room re-exports")
)]

#[path = "../../../rnbd"]
mod rnbd {
    pub(crate) mod config;
    pub(crate) mod expiry;
    pub(crate) mod fallback;
    pub(crate) mod index_set;
    pub(crate) mod limits;
    pub(crate) mod proto;
    pub(crate) mod seen;
    pub(crate) mod spread;
    pub(crate) mod tally;

    pub(crate) mod connection {
        pub(crate) mod rx;
        pub(crate) mod tx;
    }

    pub(crate) mod device {
        pub(crate) mod state;
    }
}

#[cfg(test)]
mod config;
#[cfg(test)]
mod fallback;
#[cfg(test)]
mod flags;
#[cfg(test)]
mod index_set;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod proto;
#[cfg(test)]
mod rx;
#[cfg(test)]
mod rx_ahead;
#[cfg(test)]
mod spread;
#[cfg(test)]
mod states;
#[cfg(test)]
mod tx;
