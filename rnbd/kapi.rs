// SPDX-License-Identifier: GPL-2.0

//! The kernel as the driver sees it: the only room with `unsafe` and with the C bindings. It wraps one
//! concept per file, decides nothing, and imports none of the driver's other rooms.
//!
//! Each file is a candidate for the kernel crate, and is named after what it wraps.

pub(crate) mod batch;
mod control_message;
pub(crate) mod credentials;
pub(crate) mod debugfs;
pub(crate) mod gate;
pub(crate) mod gather;
pub(crate) mod gendisk;
pub(crate) mod genl;
pub(crate) mod global;
#[cfg(CONFIG_KUNIT = "y")]
mod kernel_tests;
pub(crate) mod limits;
pub(crate) mod major;
pub(crate) mod module_ref;
pub(crate) mod mq;
pub(crate) mod param;
mod partitions;
pub(crate) mod pinned_slice;
pub(crate) mod poll;
pub(crate) mod ratelimit;
pub(crate) mod request;
pub(crate) mod reserve_anchor;
pub(crate) mod scratch;
pub(crate) mod socket;
pub(crate) mod sysfs;
pub(crate) mod time;
pub(crate) mod trace;
pub(crate) mod wait;
pub(crate) mod workqueue;
