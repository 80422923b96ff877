// SPDX-License-Identifier: GPL-2.0

//! Netlink attributes that were received: their policies and readers.
//!
//! C header: [`include/net/netlink.h`](srctree/include/net/netlink.h)

use super::Request;
use core::ptr;
use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

/// Size of an attribute's header in bytes: length and type, 16 bits each.
pub(super) const HEADER_BYTES: usize = 4;

/// Attributes begin at multiples of this many bytes.
pub(super) const ALIGN_BYTES: usize = 4;

/// The bits of the type field that hold the type; the others are flags.
const TYPE_MASK: u16 = 0x3fff;

/// What an attribute may contain.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// At least four bytes, the first four of which are a number.
    U32,
    /// At least eight bytes, the first eight of which are a number.
    U64,
    /// At least one byte of text.
    String,
    /// Nothing, or attributes, of which only the first header is checked.
    Nested,
}

impl Kind {
    const fn as_raw(self) -> u8 {
        (match self {
            Self::U32 => bindings::NLA_U32,
            Self::U64 => bindings::NLA_U64,
            Self::String => bindings::NLA_STRING,
            Self::Nested => bindings::NLA_NESTED,
        }) as u8
    }
}

/// The kinds of the attributes 0 to `N - 1`, to be kept in a static.
#[repr(transparent)]
pub(crate) struct Policy<const N: usize>([bindings::nla_policy; N]);

// SAFETY: It is never written, and all pointers in it are null.
unsafe impl<const N: usize> Sync for Policy<N> {}

impl<const N: usize> Policy<N> {
    /// Makes a policy of pairs of type and kind; types not mentioned may contain anything.
    ///
    /// A type that is too large is a build error, provided that the result goes into a static.
    pub(crate) const fn new<const M: usize>(rules: [(u16, Kind); M]) -> Self {
        let mut policy = [pin_init::zeroed::<bindings::nla_policy>(); N];
        let mut i = 0;

        while i < M {
            policy[rules[i].0 as usize].type_ = rules[i].1.as_raw();
            i += 1;
        }
        Self(policy)
    }

    pub(super) const fn as_ptr(&self) -> *const bindings::nla_policy {
        self.0.as_ptr()
    }
}

/// One attribute of a request.
#[derive(Clone, Copy)]
pub(crate) struct Attr<'a> {
    ty: u16,
    payload: &'a [u8],
}

impl<'a> Attr<'a> {
    /// Wraps an attribute of C; null becomes [`None`].
    ///
    /// # Safety
    ///
    /// `attr` is null, or an attribute whose length has been checked to lie within its message,
    /// which stays valid and unchanged for `'a`.
    pub(super) unsafe fn from_raw(attr: *const bindings::nlattr) -> Option<Self> {
        if attr.is_null() {
            return None;
        }
        // SAFETY: By the function contract.
        let (ty, len_bytes) = unsafe { ((*attr).nla_type, usize::from((*attr).nla_len)) };
        // SAFETY: By the function contract; the payload follows the header.
        let payload = unsafe {
            core::slice::from_raw_parts(
                attr.cast::<u8>().add(HEADER_BYTES),
                len_bytes.saturating_sub(HEADER_BYTES),
            )
        };
        Some(Self {
            ty: ty & TYPE_MASK,
            payload,
        })
    }

    /// Returns the type without its flags.
    pub(crate) fn ty(&self) -> u16 {
        self.ty
    }

    /// Returns the payload without padding.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.payload
    }

    /// Reads a number of 32 bits in the byte order of the machine.
    ///
    /// # Errors
    ///
    /// `ERANGE` if the attribute is too short, which a policy of [`Kind::U32`] excludes.
    pub(crate) fn u32(&self) -> Result<u32> {
        let number = self.payload.first_chunk().ok_or(ERANGE)?;
        Ok(u32::from_ne_bytes(*number))
    }

    /// Reads a number of 64 bits in the byte order of the machine.
    ///
    /// # Errors
    ///
    /// `ERANGE` if the attribute is too short, which a policy of [`Kind::U64`] excludes.
    pub(crate) fn u64(&self) -> Result<u64> {
        let number = self.payload.first_chunk().ok_or(ERANGE)?;
        Ok(u64::from_ne_bytes(*number))
    }

    /// Reads a number of 32 bits that is of type `ty` and all that is inside.
    pub(crate) fn only_u32(&self, ty: u16) -> Option<u32> {
        let mut inside = self.nested();
        let attr = inside.next().filter(|attr| attr.ty == ty)?;
        let number = <[u8; 4]>::try_from(attr.payload).ok()?;

        inside.0.is_empty().then(|| u32::from_ne_bytes(number))
    }

    /// Returns the attributes inside, up to the first one that does not fit
    /// (`nla_for_each_nested()`).
    pub(crate) fn nested(&self) -> Nested<'a> {
        Nested(self.payload)
    }

    /// Checks the attributes inside against `policy`, liberally, and returns them by their type
    /// (`nla_parse_nested_deprecated()`). Of several of one type, the last counts.
    ///
    /// # Errors
    ///
    /// `ERANGE` or `EINVAL` if one does not follow the policy; the request's extended error says
    /// which one.
    pub(crate) fn parse<const N: usize>(
        &self,
        policy: &'static Policy<N>,
        request: &Request<'_>,
    ) -> Result<[Option<Attr<'a>>; N]> {
        let max_type = c_int::try_from(N).map_err(|_| EINVAL)?.saturating_sub(1);
        let len_bytes = c_int::try_from(self.payload.len()).map_err(|_| EMSGSIZE)?;
        let mut table = [ptr::null_mut::<bindings::nlattr>(); N];

        // SAFETY: `table` and `policy` have `max_type + 1` entries, and the payload is readable for
        // `len_bytes`. The request's extended error is null or valid.
        to_result(unsafe {
            bindings::__nla_parse(
                table.as_mut_ptr(),
                max_type,
                self.payload.as_ptr().cast(),
                len_bytes,
                policy.as_ptr(),
                bindings::netlink_validation_NL_VALIDATE_LIBERAL,
                request.extack(),
            )
        })?;
        // SAFETY: Each entry is null, or an attribute within the payload that was just checked.
        Ok(table.map(|attr| unsafe { Attr::from_raw(attr) }))
    }
}

/// Iterator over the attributes inside another one.
pub(crate) struct Nested<'a>(&'a [u8]);

impl<'a> Iterator for Nested<'a> {
    type Item = Attr<'a>;

    fn next(&mut self) -> Option<Attr<'a>> {
        let (len, rest) = self.0.split_first_chunk()?;
        let (ty, _) = rest.split_first_chunk()?;
        let len_bytes = usize::from(u16::from_ne_bytes(*len));
        let payload = self.0.get(HEADER_BYTES..len_bytes)?;

        self.0 = self
            .0
            .get(len_bytes.next_multiple_of(ALIGN_BYTES)..)
            .unwrap_or_default();
        Some(Attr {
            ty: u16::from_ne_bytes(*ty) & TYPE_MASK,
            payload,
        })
    }
}
