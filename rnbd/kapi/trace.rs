// SPDX-License-Identifier: GPL-2.0

//! The tracepoints `nbd:*`, with the names and fields that scripts know from the C driver. Owns
//! nothing.
//!
//! One that nobody listens to costs a no-operation: a static branch jumps over the call.
//!
//! C header: [`include/trace/events/nbd.h`](srctree/include/trace/events/nbd.h)

use kernel::bindings;

use super::{
    mq::Driver,
    request::Started, //
};

/// The bytes of `struct nbd_request`, the header of a request on the wire.
const REQUEST_BYTES: usize = 28;

/// Defines functions that fire the tracepoints of the same names in C.
macro_rules! tracepoints {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident($($argument:ident: $type:ty),*);
    )*) => {
        kernel::macros::paste! {
            #[allow(improper_ctypes, reason = "empty structures without lockdep")]
            extern "C" {
                $(
                    static mut [<__tracepoint_ $name>]: bindings::tracepoint;
                    fn [<rust_do_trace_ $name>]($($argument: $type),*);
                )*
            }
            $(
                $(#[$attribute])*
                #[inline(always)]
                unsafe fn $name($($argument: $type),*) {
                    // SAFETY: `key` is a static key that C defines.
                    if unsafe {
                        kernel::jump_label::static_branch_unlikely!(
                            [<__tracepoint_ $name>],
                            bindings::tracepoint,
                            key
                        )
                    } {
                        // SAFETY: By contract.
                        unsafe { [<rust_do_trace_ $name>]($($argument),*) };
                    }
                }
            )*
        }
    };
}

tracepoints! {
    /// # Safety
    ///
    /// `rq` must be live, and `header` be the bytes of a header that nobody else uses: a BPF
    /// program may write to them.
    fn nbd_send_request(header: *mut [u8; REQUEST_BYTES], index: i32, rq: *mut bindings::request);
    /// # Safety
    ///
    /// `rq` must be live.
    fn nbd_header_sent(rq: *mut bindings::request, handle: u64);
    /// # Safety
    ///
    /// `rq` must be live.
    fn nbd_payload_sent(rq: *mut bindings::request, handle: u64);
    /// # Safety
    ///
    /// `rq` must be live.
    fn nbd_header_received(rq: *mut bindings::request, handle: u64);
    /// # Safety
    ///
    /// `rq` must be live.
    fn nbd_payload_received(rq: *mut bindings::request, handle: u64);
}

/// The header of a request is about to be sent. A BPF program may change it.
pub(crate) fn send_request<T: Driver>(
    header: &mut [u8; REQUEST_BYTES],
    index: u32,
    request: &Started<T>,
) {
    // An index is below the number of minors.
    let index = i32::try_from(index).unwrap_or(i32::MAX);
    // SAFETY: By the type invariant of `Started`; the header is exclusively borrowed.
    unsafe { nbd_send_request(header, index, request.raw()) };
}

/// The request is in the socket, header and payload.
pub(crate) fn sent<T: Driver>(request: &Started<T>, cookie: u64) {
    // SAFETY: By the type invariant of `Started`.
    unsafe {
        nbd_header_sent(request.raw(), cookie);
        nbd_payload_sent(request.raw(), cookie);
    }
}

/// A reply to the request has come.
pub(crate) fn header_received<T: Driver>(request: &Started<T>, cookie: u64) {
    // SAFETY: By the type invariant of `Started`.
    unsafe { nbd_header_received(request.raw(), cookie) };
}

/// The reply is complete, and the request about to be ended.
pub(crate) fn payload_received<T: Driver>(request: &Started<T>, cookie: u64) {
    // SAFETY: By the type invariant of `Started`.
    unsafe { nbd_payload_received(request.raw(), cookie) };
}
