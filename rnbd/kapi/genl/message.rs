// SPDX-License-Identifier: GPL-2.0

//! Generic netlink messages to be sent.
//!
//! C headers: [`include/net/genetlink.h`](srctree/include/net/genetlink.h),
//! [`include/net/netlink.h`](srctree/include/net/netlink.h)

use super::{
    attribute::{
        ALIGN_BYTES,
        HEADER_BYTES, //
    },
    Family,
    Request, //
};
use core::{
    mem::ManuallyDrop,
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::NonNull,
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

/// Largest size of the attributes inside a nest, in bytes: its length, which counts its own header,
/// has 16 bits.
pub(crate) const NEST_MAX_BYTES: usize = u16::MAX as usize - HEADER_BYTES;

/// Returns the bytes that an attribute with `payload_bytes` of payload takes (`nla_total_size()`).
pub(crate) const fn attr_size_bytes(payload_bytes: usize) -> usize {
    HEADER_BYTES
        .saturating_add(payload_bytes)
        .next_multiple_of(ALIGN_BYTES)
}

/// A message under construction; dropped unless it is sent.
///
/// # Invariants
///
/// `skb` is a linear buffer owned by this value, with a header for `family` at `header`.
pub(crate) struct Message {
    skb: NonNull<bindings::sk_buff>,
    header: NonNull<c_void>,
    family: &'static Family,
}

impl Message {
    /// Begins an event, that is a message that answers no request, with room for `payload_bytes` of
    /// attributes; see [`attr_size_bytes`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn event(
        family: &'static Family,
        command: u8,
        payload_bytes: usize,
    ) -> Result<Self> {
        Self::with_header(family, 0, 0, command, payload_bytes)
    }

    /// Begins a message to `portid`, numbered `seq`.
    pub(super) fn with_header(
        family: &'static Family,
        portid: u32,
        seq: u32,
        command: u8,
        payload_bytes: usize,
    ) -> Result<Self> {
        // SAFETY: Only allocates.
        let skb = unsafe { bindings::genlmsg_new(payload_bytes, bindings::GFP_KERNEL) };
        let skb = NonNull::new(skb).ok_or(ENOMEM)?;
        // SAFETY: The buffer is new; the family is valid by its type invariant.
        let header = unsafe {
            bindings::genlmsg_put(skb.as_ptr(), portid, seq, family.inner.get(), 0, command)
        };

        let Some(header) = NonNull::new(header) else {
            // SAFETY: The buffer is ours.
            unsafe { bindings::nlmsg_free(skb.as_ptr()) };
            return Err(EMSGSIZE);
        };
        // INVARIANT: As just made.
        Ok(Self {
            skb,
            header,
            family,
        })
    }

    pub(super) fn family(&self) -> &'static Family {
        self.family
    }

    /// Appends an attribute.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if there is no room.
    pub(crate) fn put(&mut self, ty: u16, payload: &[u8]) -> Result {
        let len_bytes = u16::try_from(payload.len()).map_err(|_| EMSGSIZE)?;
        if payload.len() > NEST_MAX_BYTES {
            return Err(EMSGSIZE);
        }
        // SAFETY: By the type invariant; the payload is copied.
        to_result(unsafe {
            bindings::nla_put(
                self.skb.as_ptr(),
                c_int::from(ty),
                c_int::from(len_bytes),
                payload.as_ptr().cast(),
            )
        })
    }

    /// Appends a number of 8 bits; see [`Message::put`].
    pub(crate) fn put_u8(&mut self, ty: u16, number: u8) -> Result {
        self.put(ty, &[number])
    }

    /// Appends a number of 32 bits; see [`Message::put`].
    pub(crate) fn put_u32(&mut self, ty: u16, number: u32) -> Result {
        self.put(ty, &number.to_ne_bytes())
    }

    /// Appends an attribute that contains what `fill` appends. Its type has no `NLA_F_NESTED`
    /// (`nla_nest_start_noflag()`).
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if there is no room, or if it grows beyond [`NEST_MAX_BYTES`]; errors of `fill`.
    /// Nothing of the nest remains in the message then.
    pub(crate) fn nest(&mut self, ty: u16, fill: impl FnOnce(&mut Self) -> Result) -> Result {
        let start_bytes = self.len_bytes();
        let filled = self
            .put(ty, &[])
            .and_then(|()| fill(self))
            .and_then(|()| self.close_nest(start_bytes));

        if filled.is_err() {
            // SAFETY: By the type invariant; the buffer is at least that long.
            unsafe { bindings::skb_trim(self.skb.as_ptr(), start_bytes) };
        }
        filled
    }

    /// Writes the length of the nest whose header is at `start_bytes`, now that it is known.
    fn close_nest(&mut self, start_bytes: u32) -> Result {
        let nest_bytes = self.len_bytes().saturating_sub(start_bytes);
        let nest_bytes = u16::try_from(nest_bytes).map_err(|_| EMSGSIZE)?;

        // SAFETY: By the type invariant; `nest()` has put an attribute there, and a buffer that is
        // being filled does not move.
        unsafe {
            let data = (*self.skb.as_ptr()).data;
            let header = data.add(start_bytes as usize).cast::<bindings::nlattr>();
            (*header).nla_len = nest_bytes;
        }
        Ok(())
    }

    /// Returns how much of the buffer is in use.
    fn len_bytes(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.skb.as_ptr()).len }
    }

    /// Completes the message and gives up its buffer, which the caller has to send or to free.
    pub(super) fn finish(self) -> NonNull<bindings::sk_buff> {
        let message = ManuallyDrop::new(self);

        // SAFETY: By the type invariant.
        unsafe { bindings::genlmsg_end(message.skb.as_ptr(), message.header.as_ptr()) };
        message.skb
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::nlmsg_free(self.skb.as_ptr()) };
    }
}

/// A message that answers a request; see [`Request::reply`].
pub(crate) struct Reply<'r, 'a> {
    message: Message,
    request: &'r Request<'a>,
}

impl<'r, 'a> Reply<'r, 'a> {
    pub(super) fn new(message: Message, request: &'r Request<'a>) -> Self {
        Self { message, request }
    }

    /// Queues the reply on the sender's socket (`genlmsg_reply()`).
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the socket has no room, `ECONNREFUSED` if it is closed.
    pub(crate) fn send(self) -> Result {
        let info = self.request.info;
        let skb = self.message.finish();
        // SAFETY: By the type invariant of the request, `info` is valid, and its namespace lives as
        // long as the request. The call consumes `skb`.
        let sent = unsafe {
            bindings::netlink_unicast(
                (*(*info)._net.net).genl_sock,
                skb.as_ptr(),
                (*info).snd_portid,
                bindings::MSG_DONTWAIT as c_int,
            )
        };
        // A positive result is the number of bytes.
        to_result(sent.min(0))
    }
}

impl Deref for Reply<'_, '_> {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.message
    }
}

impl DerefMut for Reply<'_, '_> {
    fn deref_mut(&mut self) -> &mut Message {
        &mut self.message
    }
}
