// SPDX-License-Identifier: GPL-2.0
//! What a server says about its export and what a client asks of a device, as two flag types that
//! cannot be mixed up; plain values, no lock.
//!
//! Unknown bits are kept and never an error: the server may know more than this driver.
//!
//! C header: [`include/uapi/linux/nbd.h`](srctree/include/uapi/linux/nbd.h)

#![forbid(unsafe_code)]

/// The transmission flags of an export (`NBD_FLAG_*`).
///
/// Source: "Transmission flags" in the NBD protocol document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerFlags(u32);

impl ServerFlags {
    /// The other bits mean something. Never checked, as old clients leave it out.
    pub(crate) const HAS_FLAGS: Self = Self(1 << 0);

    /// The export refuses every modification.
    pub(crate) const READ_ONLY: Self = Self(1 << 1);

    /// The server understands FLUSH, so it may hold written data in a cache.
    pub(crate) const SEND_FLUSH: Self = Self(1 << 2);

    /// The server understands the FUA command flag.
    pub(crate) const SEND_FUA: Self = Self(1 << 3);

    /// The export behaves like a spinning disk.
    pub(crate) const ROTATIONAL: Self = Self(1 << 4);

    /// The server understands TRIM.
    pub(crate) const SEND_TRIM: Self = Self(1 << 5);

    /// The server understands WRITE_ZEROES.
    pub(crate) const SEND_WRITE_ZEROES: Self = Self(1 << 6);

    /// Several connections to the export see one another's completed writes after a FLUSH.
    pub(crate) const CAN_MULTI_CONN: Self = Self(1 << 8);

    /// Takes the bits as they were given; none is refused.
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns all bits, the unknown ones included.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Says whether every bit of `wanted` is set.
    pub(crate) const fn contains(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// What the user wants to happen to a device around a session (`NBD_CFLAG_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientFlags(u64);

impl ClientFlags {
    /// The device goes away when its session ends.
    pub(crate) const DESTROY_ON_DISCONNECT: Self = Self(1 << 0);

    /// The session ends when the last opener closes the device.
    pub(crate) const DISCONNECT_ON_CLOSE: Self = Self(1 << 1);

    /// Takes the bits as they were given; none is refused.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Says whether every bit of `wanted` is set.
    pub(crate) const fn contains(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}
