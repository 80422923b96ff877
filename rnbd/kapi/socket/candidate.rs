// SPDX-License-Identifier: GPL-2.0

//! A socket that user space has handed in, from its file descriptor to its first use.

use core::{
    mem::MaybeUninit,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    prelude::*, //
};

use super::{
    super::reserve_anchor::ReserveAnchor,
    rnbd_socket_engage,
    rnbd_socket_reclassify,
    Handle,
    Socket, //
};

#[expect(improper_ctypes, reason = "an empty lock_class_key without lockdep")]
extern "C" {
    fn rnbd_socket_fitness(sock: *const bindings::socket) -> Fitness;
}

/// `enum rnbd_socket_fitness`.
#[repr(C)]
#[expect(dead_code, reason = "C makes them")]
enum Fitness {
    Fit,
    NoStream,
    NoShutdown,
    NotConnected,
}

/// Why a file descriptor cannot be a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unfit {
    /// Not open, or not a socket: the errno says which.
    NotASocket(Error),
    /// Not a TCP, UNIX or vsock stream.
    NotAStream,
    /// It cannot be shut down.
    NoShutdown,
    /// It was never connected.
    NotConnected,
}

/// A stream socket that has been checked, and not been changed in any way.
pub(crate) struct Candidate(Handle);

impl Candidate {
    /// Takes a reference to the socket behind `fd` of the current task.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub(crate) fn from_fd(fd: i32) -> Result<Self, Unfit> {
        let mut errno = 0;
        // SAFETY: Any number may be looked up.
        let sock = unsafe { bindings::sockfd_lookup(fd, &mut errno) };
        let handle = match NonNull::new(sock) {
            // INVARIANT: `sockfd_lookup()` took a count.
            Some(sock) => Handle(sock),
            None => return Err(Unfit::NotASocket(Error::from_errno(errno))),
        };
        // SAFETY: `Handle`'s type invariant.
        match unsafe { rnbd_socket_fitness(handle.raw()) } {
            Fitness::Fit => Ok(Self(handle)),
            Fitness::NoStream => Err(Unfit::NotAStream),
            Fitness::NoShutdown => Err(Unfit::NoShutdown),
            Fitness::NotConnected => Err(Unfit::NotConnected),
        }
    }

    /// A number that it shares with nothing but the same socket.
    pub(crate) fn identity(&self) -> usize {
        self.0.raw().addr()
    }

    /// Ends both directions before it was ever used.
    pub(crate) fn shutdown(&self) {
        self.0.shutdown(bindings::sock_shutdown_cmd_SHUT_RDWR);
    }

    /// Makes it a connection of a block device: it may use memory reserves, and its allocations
    /// start no I/O. May sleep. The anchor stays as long as the socket is in use.
    pub(crate) fn engage(self, _anchor: &ReserveAnchor) -> Socket {
        let mut before = MaybeUninit::uninit();
        // SAFETY: `Handle`'s type invariant; `before` is filled.
        let before = unsafe {
            rnbd_socket_reclassify(self.0.raw());
            rnbd_socket_engage(self.0.raw(), before.as_mut_ptr());
            before.assume_init()
        };
        Socket {
            handle: self.0,
            before,
        }
    }
}
