// SPDX-License-Identifier: GPL-2.0
//! The NBD language of the transmission phase: pure values and their byte forms; owns no state and
//! needs no lock.
//!
//! Only simple replies are spoken: no structured replies, no extended headers, no block status.
//! Everything on the wire is big-endian.
//!
//! Source: "Transmission" in the NBD protocol document, `doc/proto.md` of
//! <https://github.com/NetworkBlockDevice/nbd>.
//!
//! C header: [`include/uapi/linux/nbd.h`](srctree/include/uapi/linux/nbd.h)

#![forbid(unsafe_code)]

mod command;
mod cookie;
mod errno;
mod flags;
mod reply;

pub(crate) use self::command::{
    Command,
    CommandFlags,
    Request,
    REQUEST_BYTES, //
};
pub(crate) use self::cookie::Cookie;
pub(crate) use self::errno::{
    outcome,
    Outcome, //
};
pub(crate) use self::flags::{
    ClientFlags,
    ServerFlags, //
};
pub(crate) use self::reply::{
    BadMagic,
    Reply,
    REPLY_BYTES, //
};
