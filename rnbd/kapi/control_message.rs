// SPDX-License-Identifier: GPL-2.0

//! What a socket says beside the data it hands out: for kernel TLS, what kind of record they came in.
//!
//! C headers: [`include/linux/socket.h`](srctree/include/linux/socket.h),
//! [`include/uapi/linux/tls.h`](srctree/include/uapi/linux/tls.h)

use core::mem::{
    offset_of,
    MaybeUninit, //
};

use kernel::bindings;

/// `SOL_TLS`.
const SOL_TLS: i32 = 282;
/// `TLS_GET_RECORD_TYPE`.
const TLS_GET_RECORD_TYPE: i32 = 2;

// Record types of TLS, RFC 8446 section 5.1.
const TLS_ALERT: u8 = 21;
const TLS_HANDSHAKE: u8 = 22;
const TLS_APPLICATION_DATA: u8 = 23;

/// Room for one control message of up to 16 bytes, aligned as such.
const ROOM_WORDS: usize = 4;

/// What the bytes are that a receive has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Record {
    /// Data of the stream.
    Data,
    /// An alert, after which nothing comes.
    Alert,
    /// Something between the two ends of TLS, such as a new session ticket.
    Housekeeping,
    /// Nothing that belongs here.
    Unknown,
}

/// A buffer for a control message, which the receiver of a message brings along.
pub(super) struct ControlBuffer([u64; ROOM_WORDS]);

impl ControlBuffer {
    pub(super) fn new() -> Self {
        Self([0; ROOM_WORDS])
    }

    /// Gives the buffer to `message`.
    ///
    /// # Safety
    ///
    /// `message` is valid, and `self` lives and stays in place until it is not used any more.
    pub(super) unsafe fn attach(&mut self, message: &mut MaybeUninit<bindings::msghdr>) {
        let message = message.as_mut_ptr();
        // SAFETY: By contract. The message says by default that the buffer is the kernel's.
        unsafe {
            (*message).__bindgen_anon_1.msg_control = self.0.as_mut_ptr().cast();
            (*message).msg_controllen = size_of_val(&self.0);
        }
    }

    /// What `message` has brought, which the buffer was given to or which has none.
    ///
    /// # Safety
    ///
    /// `message` is valid and has been received into.
    pub(super) unsafe fn record(&self, message: &MaybeUninit<bindings::msghdr>) -> Record {
        // SAFETY: By contract.
        let (control, left_bytes) = unsafe {
            let message = &*message.as_ptr();
            (message.__bindgen_anon_1.msg_control, message.msg_controllen)
        };
        if control.is_null() {
            return Record::Data;
        }
        let used_bytes = size_of_val(&self.0).saturating_sub(left_bytes);
        if used_bytes <= size_of::<bindings::cmsghdr>() {
            // A stream without TLS.
            return Record::Data;
        }
        let start: *const u8 = self.0.as_ptr().cast();
        // SAFETY: The buffer is aligned for, and holds, a header and at least one byte behind it.
        let (level, kind, value) = unsafe {
            (
                start
                    .add(offset_of!(bindings::cmsghdr, cmsg_level))
                    .cast::<i32>()
                    .read(),
                start
                    .add(offset_of!(bindings::cmsghdr, cmsg_type))
                    .cast::<i32>()
                    .read(),
                start.add(size_of::<bindings::cmsghdr>()).read(),
            )
        };
        match (level, kind, value) {
            (SOL_TLS, TLS_GET_RECORD_TYPE, TLS_APPLICATION_DATA) => Record::Data,
            (SOL_TLS, TLS_GET_RECORD_TYPE, TLS_ALERT) => Record::Alert,
            (SOL_TLS, TLS_GET_RECORD_TYPE, TLS_HANDSHAKE) => Record::Housekeeping,
            (SOL_TLS, TLS_GET_RECORD_TYPE, _) => Record::Unknown,
            // Something that the socket's owner has asked for, such as time stamps.
            _ => Record::Data,
        }
    }
}
