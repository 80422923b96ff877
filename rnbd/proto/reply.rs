// SPDX-License-Identifier: GPL-2.0
//! The 16 bytes by which a server answers a request; a plain value, no lock.
//!
//! Source: "Simple reply message" in the NBD protocol document.

#![forbid(unsafe_code)]

use super::cookie::Cookie;

/// The length of an encoded simple reply, without the payload that may follow.
pub(crate) const REPLY_BYTES: usize = 16;

/// The first four bytes of every simple reply (`NBD_SIMPLE_REPLY_MAGIC`, `NBD_REPLY_MAGIC` in C).
const REPLY_MAGIC: u32 = 0x6744_6698;

/// A simple reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Zero, or one of the protocol's error values; payload follows only a zero.
    pub(crate) error: u32,
    /// The cookie of the request this answers, as far as the server can be believed.
    pub(crate) cookie: Cookie,
}

/// The stream holds no reply where one must start; the value is what stood there.
///
/// The stream cannot be trusted any more and its connection has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadMagic(pub(crate) u32);

impl Reply {
    /// Decodes a reply.
    ///
    /// # Errors
    ///
    /// [`BadMagic`] if the bytes do not start a simple reply.
    pub(crate) const fn decode(bytes: &[u8; REPLY_BYTES]) -> Result<Self, BadMagic> {
        let [m0, m1, m2, m3, e0, e1, e2, e3, c0, c1, c2, c3, c4, c5, c6, c7] = *bytes;
        let magic = u32::from_be_bytes([m0, m1, m2, m3]);
        if magic != REPLY_MAGIC {
            return Err(BadMagic(magic));
        }
        Ok(Self {
            error: u32::from_be_bytes([e0, e1, e2, e3]),
            cookie: Cookie::from_u64(u64::from_be_bytes([c0, c1, c2, c3, c4, c5, c6, c7])),
        })
    }
}
