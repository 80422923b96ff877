// SPDX-License-Identifier: GPL-2.0
//! What a client may ask of a server and the 28 bytes that ask it; plain values, no lock.
//!
//! Source: "Request message" and "Request types" in the NBD protocol document.

#![forbid(unsafe_code)]

use super::cookie::Cookie;

/// The length of an encoded request header.
pub(crate) const REQUEST_BYTES: usize = 28;

/// The first four bytes of every request (`NBD_REQUEST_MAGIC`).
const REQUEST_MAGIC: u32 = 0x2560_9513;

/// `NBD_CMD_FLAG_FUA`, as it stands in the type field.
const FUA_BIT: u32 = 1 << 16;

/// `NBD_CMD_FLAG_NO_HOLE`, as it stands in the type field.
const NO_HOLE_BIT: u32 = 1 << 17;

/// What a request asks the server to do (`NBD_CMD_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Send bytes of the export.
    Read,
    /// Store the bytes that follow the header.
    Write,
    /// Make every completed write durable.
    Flush,
    /// Forget a range; its content is undefined afterwards.
    Trim,
    /// Make a range read as zeroes.
    WriteZeroes,
    /// End the session; the server answers by closing, not by a reply.
    Disconnect,
}

impl Command {
    /// Returns the number of the command on the wire.
    const fn wire(self) -> u32 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::WriteZeroes => 6,
        }
    }

    /// Says whether payload follows the request header.
    pub(crate) const fn sends_payload(self) -> bool {
        matches!(self, Self::Write)
    }

    /// Says whether payload follows a reply without error.
    pub(crate) const fn receives_payload(self) -> bool {
        matches!(self, Self::Read)
    }

    /// Says whether the command changes the export, which a read-only one refuses.
    pub(crate) const fn modifies(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }

    /// Says whether offset and length mean anything; the protocol wants zeroes where they do not.
    const fn has_range(self) -> bool {
        !matches!(self, Self::Flush | Self::Disconnect)
    }
}

/// How a request wants its command carried out (`NBD_CMD_FLAG_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandFlags {
    /// The effect must be durable before the reply.
    pub(crate) fua: bool,
    /// WRITE_ZEROES must keep the range allocated.
    pub(crate) no_hole: bool,
}

impl CommandFlags {
    /// Returns the flags as bits of the type field.
    const fn wire(self) -> u32 {
        let fua = if self.fua { FUA_BIT } else { 0 };
        let no_hole = if self.no_hole { NO_HOLE_BIT } else { 0 };
        fua | no_hole
    }
}

/// A request header before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// What to do.
    pub(crate) command: Command,
    /// How to do it.
    pub(crate) flags: CommandFlags,
    /// The name the reply will carry.
    pub(crate) cookie: Cookie,
    /// Where in the export the range starts.
    pub(crate) offset_bytes: u64,
    /// How long the range is, and so the payload of a WRITE or of the reply to a READ.
    pub(crate) length_bytes: u32,
}

impl Request {
    /// Encodes the header.
    ///
    /// FLUSH and DISC carry no range, and DISC neither flags nor a cookie, whatever the fields say.
    pub(crate) fn encode(&self) -> [u8; REQUEST_BYTES] {
        let (offset_bytes, length_bytes) = if self.command.has_range() {
            (self.offset_bytes, self.length_bytes)
        } else {
            (0, 0)
        };
        let (flags, cookie) = match self.command {
            Command::Disconnect => (CommandFlags::default(), Cookie::default()),
            _ => (self.flags, self.cookie),
        };
        let kind = self.command.wire() | flags.wire();

        let mut bytes = [0; REQUEST_BYTES];
        let room = put(&mut bytes, REQUEST_MAGIC.to_be_bytes());
        let room = put(room, kind.to_be_bytes());
        let room = put(room, cookie.to_u64().to_be_bytes());
        let room = put(room, offset_bytes.to_be_bytes());
        put(room, length_bytes.to_be_bytes());
        bytes
    }
}

/// Writes `field` at the start of `room` and returns what is left of it.
#[inline]
fn put<const N: usize>(room: &mut [u8], field: [u8; N]) -> &mut [u8] {
    match room.split_first_chunk_mut() {
        Some((slot, rest)) => {
            *slot = field;
            rest
        }
        // The five fields fill the header exactly, so that this is never reached.
        None => &mut [],
    }
}
