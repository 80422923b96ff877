// SPDX-License-Identifier: GPL-2.0
//! The name a request carries on the wire and the only place that packs and unpacks it; a plain
//! value, no lock.

#![forbid(unsafe_code)]

/// Names one transmission of one request; the server echoes it in its reply.
///
/// On the wire it is one 64-bit number: the generation in bits 32 to 63, the hardware queue in bits
/// 16 to 31, the driver tag in bits 0 to 15. Queue and tag find the request again, the generation
/// tells this transmission from every earlier one, so that a late reply cannot be taken for the
/// reply to a later user of the same tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cookie {
    /// Counts the transmissions of this request object; the first one is 1.
    pub(crate) generation: u32,
    /// The number of the hardware queue.
    pub(crate) hctx: u16,
    /// The driver tag within that hardware queue.
    pub(crate) tag: u16,
}

impl Cookie {
    /// Packs the cookie into the number that goes over the wire.
    pub(crate) fn to_u64(self) -> u64 {
        (u64::from(self.generation) << 32) | (u64::from(self.hctx) << 16) | u64::from(self.tag)
    }

    /// Unpacks a number that came over the wire; every number is some cookie.
    pub(crate) const fn from_u64(raw: u64) -> Self {
        let [g0, g1, g2, g3, h0, h1, t0, t1] = raw.to_be_bytes();
        Self {
            generation: u32::from_be_bytes([g0, g1, g2, g3]),
            hctx: u16::from_be_bytes([h0, h1]),
            tag: u16::from_be_bytes([t0, t1]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_has_its_place() {
        let cookie = Cookie {
            generation: 0x0102_0304,
            hctx: 0x0506,
            tag: 0x0708,
        };
        assert_eq!(cookie.to_u64(), 0x0102_0304_0506_0708);
        assert_eq!(Cookie::from_u64(0x0102_0304_0506_0708), cookie);
    }

    #[test]
    fn no_field_spills_into_its_neighbour() {
        for (generation, hctx, tag, raw) in [
            (u32::MAX, 0, 0, 0xffff_ffff_0000_0000),
            (0, u16::MAX, 0, 0x0000_0000_ffff_0000),
            (0, 0, u16::MAX, 0x0000_0000_0000_ffff),
        ] {
            let cookie = Cookie {
                generation,
                hctx,
                tag,
            };
            assert_eq!(cookie.to_u64(), raw);
            assert_eq!(Cookie::from_u64(raw), cookie);
        }
    }
}
