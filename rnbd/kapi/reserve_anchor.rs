// SPDX-License-Identifier: GPL-2.0

//! The network's use of memory reserves, kept switched on while the module is there.
//!
//! C header: [`include/net/sock.h`](srctree/include/net/sock.h)

use core::{
    ptr,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

extern "C" {
    fn sk_set_memalloc(sk: *mut bindings::sock);
    fn sk_clear_memalloc(sk: *mut bindings::sock);
}

/// A private socket that stays marked for memory reserves, so that marking and clearing other
/// sockets does not patch the kernel's code each time.
///
/// # Invariants
///
/// Holds a live kernel socket that was marked.
pub(crate) struct ReserveAnchor(NonNull<bindings::socket>);

// SAFETY: The socket is not used for anything.
unsafe impl Send for ReserveAnchor {}
// SAFETY: As above.
unsafe impl Sync for ReserveAnchor {}

impl ReserveAnchor {
    /// Makes and marks the socket.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and whatever the socket layer says.
    pub(crate) fn new() -> Result<Self> {
        let mut sock = ptr::null_mut();
        // SAFETY: `init_net` is static, and `sock` is written on success.
        to_result(unsafe {
            bindings::sock_create_kern(
                &raw mut bindings::init_net,
                bindings::AF_UNIX as c_int,
                bindings::sock_type_SOCK_STREAM as c_int,
                0,
                &mut sock,
            )
        })?;
        let sock = NonNull::new(sock).ok_or(ENOMEM)?;
        // SAFETY: A fresh socket.
        unsafe { sk_set_memalloc((*sock.as_ptr()).sk) };
        // INVARIANT: Just made and marked.
        Ok(Self(sock))
    }
}

impl Drop for ReserveAnchor {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; nobody else knows the socket.
        unsafe {
            sk_clear_memalloc((*self.0.as_ptr()).sk);
            bindings::sock_release(self.0.as_ptr());
        }
    }
}
