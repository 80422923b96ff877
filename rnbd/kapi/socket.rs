// SPDX-License-Identifier: GPL-2.0

//! A connected stream socket that user space handed in: taking it, sending and receiving without
//! waiting, shutting it down.
//!
//! C header: [`include/linux/net.h`](srctree/include/linux/net.h)
//!
//! [`Candidate`] is a socket that was checked and not touched; [`Socket`] is one in use.

mod candidate;

use core::{
    mem::MaybeUninit,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

pub(crate) use self::candidate::{
    Candidate,
    Unfit, //
};
use super::{
    control_message::{
        ControlBuffer,
        Record, //
    },
    credentials::ReclaimScope,
    gather::{
        Destination,
        Source, //
    }, //
};

/// `struct rnbd_socket_state`.
#[repr(C)]
struct StateBefore {
    allocation: bindings::gfp_t,
    use_task_frag: bool,
    send_buffer: c_int,
}

#[expect(improper_ctypes, reason = "an empty lock_class_key without lockdep")]
extern "C" {
    fn rnbd_socket_is_tcp(sock: *const bindings::socket) -> bool;
    fn rnbd_socket_is_bare_tcp(sock: *const bindings::socket) -> bool;
    fn rnbd_socket_is_unix(sock: *const bindings::socket) -> bool;
    fn rnbd_socket_holds_sent(sock: *const bindings::socket) -> bool;
    fn rnbd_socket_has_ended(sock: *const bindings::socket) -> bool;
    fn rnbd_socket_reclassify(sock: *mut bindings::socket);
    fn rnbd_socket_abort(sock: *mut bindings::socket);
    fn rnbd_socket_engage(sock: *mut bindings::socket, before: *mut StateBefore);
    fn rnbd_socket_widen(sock: *mut bindings::socket, before: *mut StateBefore, bytes: c_int);
    fn rnbd_socket_release(sock: *mut bindings::socket, before: *const StateBefore);
}

/// An owned reference, through its file, to a socket.
///
/// # Invariants
///
/// Points to a live socket, of whose file one count is owned here.
struct Handle(NonNull<bindings::socket>);

// SAFETY: The socket layer locks for itself, and a file may be put from any task.
unsafe impl Send for Handle {}
// SAFETY: As above.
unsafe impl Sync for Handle {}

impl Handle {
    fn raw(&self) -> *mut bindings::socket {
        self.0.as_ptr()
    }

    fn shutdown(&self, how: bindings::sock_shutdown_cmd) {
        // SAFETY: By the type invariant. An error means that it is closed already.
        unsafe { bindings::kernel_sock_shutdown(self.raw(), how) };
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; this is `sockfd_put()`.
        unsafe { bindings::fput((*self.raw()).file) };
    }
}

/// A stream socket that carries a connection. Dropping it gives the socket's settings back, and may
/// sleep.
///
/// All methods take `&self`: the socket layer serialises each direction.
pub(crate) struct Socket {
    handle: Handle,
    before: StateBefore,
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: `Handle`'s type invariant, and `before` is what `engage` found.
        unsafe { rnbd_socket_release(self.handle.raw(), &self.before) };
    }
}

impl Socket {
    pub(super) fn file(&self) -> *mut bindings::file {
        // SAFETY: `Handle`'s type invariant.
        unsafe { (*self.handle.raw()).file }
    }

    /// Lets it hold up to `bytes` that have been sent and not received, unless user space has chosen a
    /// limit itself. Dropping it brings the old limit back. May sleep.
    pub(crate) fn widen(&mut self, bytes: i32) {
        // SAFETY: `Handle`'s type invariant, and `before` is what `engage` found.
        unsafe { rnbd_socket_widen(self.handle.raw(), &mut self.before, bytes) };
    }

    /// A number that it shares with nothing but the same socket.
    pub(crate) fn identity(&self) -> usize {
        self.handle.raw().addr()
    }

    /// Ends our sending direction; the peer reads what was sent and then the end of the stream.
    pub(crate) fn shutdown_send(&self) {
        self.handle.shutdown(bindings::sock_shutdown_cmd_SHUT_WR);
    }

    /// Ends both directions.
    pub(crate) fn shutdown_both(&self) {
        self.handle.shutdown(bindings::sock_shutdown_cmd_SHUT_RDWR);
    }

    /// Ends both directions, and purges what has not been sent yet if the socket can do that, which TCP
    /// can. The peer sees a reset then.
    pub(crate) fn abort(&self) {
        // SAFETY: `Handle`'s type invariant.
        unsafe { rnbd_socket_abort(self.handle.raw()) };
        self.shutdown_both();
    }

    /// Whether it is TCP, perhaps with TLS on top.
    fn is_tcp(&self) -> bool {
        // SAFETY: `Handle`'s type invariant.
        unsafe { rnbd_socket_is_tcp(self.handle.raw()) }
    }

    /// Whether it is TCP with nothing on top, so that [`Socket::abort`] makes it forget what it has not
    /// sent.
    pub(crate) fn is_bare_tcp(&self) -> bool {
        // SAFETY: `Handle`'s type invariant.
        unsafe { rnbd_socket_is_bare_tcp(self.handle.raw()) }
    }

    /// Whether it is a UNIX socket.
    pub(crate) fn is_unix(&self) -> bool {
        // SAFETY: `Handle`'s type invariant.
        unsafe { rnbd_socket_is_unix(self.handle.raw()) }
    }

    /// Whether anything that was sent, spliced pages among it, is still kept for the peer.
    pub(crate) fn holds_sent(&self) -> bool {
        // SAFETY: `Handle`'s type invariant.
        unsafe { rnbd_socket_holds_sent(self.handle.raw()) }
    }

    /// Sends what fits of `source` now. `more` says that more will follow at once.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if nothing fits, otherwise what the socket says.
    pub(crate) fn send(&self, source: &Source<'_>, more: bool) -> Result<usize> {
        self.send_with(source, if more { bindings::MSG_MORE } else { 0 })
    }

    /// As [`Socket::send`], but the socket keeps references to the pages, which it reads when it needs
    /// them, and not a copy; unless one of them cannot be referred to.
    ///
    /// # Errors
    ///
    /// As for [`Socket::send`].
    pub(crate) fn splice(&self, source: &Source<'_>, more: bool) -> Result<usize> {
        if !source.can_be_spliced() {
            return self.send(source, more);
        }
        let more = if more { bindings::MSG_MORE } else { 0 };
        self.send_with(source, more | bindings::MSG_SPLICE_PAGES)
    }

    /// Sends what fits of `bytes`, which may be anywhere.
    ///
    /// # Errors
    ///
    /// As for [`Socket::send`].
    pub(crate) fn send_bytes(&self, bytes: &[u8]) -> Result<usize> {
        let segment = bindings::kvec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: `segment` and `bytes` outlive the call, which only reads them.
        unsafe { self.send_iter(kvec_iter(bindings::ITER_SOURCE, &segment), 0) }
    }

    fn send_with(&self, source: &Source<'_>, flags: u32) -> Result<usize> {
        // SAFETY: `source` outlives the call.
        unsafe { self.send_iter(source.iter(), flags) }
    }

    /// # Safety
    ///
    /// `iter` must be a source that is valid for the call.
    unsafe fn send_iter(&self, iter: bindings::iov_iter, flags: u32) -> Result<usize> {
        let mut message = message(iter, flags);
        let _scope = ReclaimScope::enter();
        // SAFETY: `Handle`'s type invariant; the message is valid by contract.
        count(unsafe { bindings::sock_sendmsg(self.handle.raw(), message.as_mut_ptr()) })
    }

    /// Receives what is there into `destination`.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if nothing is there, `EINTR` to try again at once, otherwise what the socket says.
    pub(crate) fn receive(&self, destination: &Destination<'_>) -> Result<Received> {
        // SAFETY: `destination` outlives the call.
        unsafe { self.receive_iter(destination.iter()) }
    }

    /// Receives what is there into `bytes`, which may be anywhere.
    ///
    /// # Errors
    ///
    /// As for [`Socket::receive`].
    pub(crate) fn receive_bytes(&self, bytes: &mut [u8]) -> Result<Received> {
        let segment = bindings::kvec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: `segment` and `bytes` outlive the call; `bytes` is exclusively borrowed.
        unsafe { self.receive_iter(kvec_iter(bindings::ITER_DEST, &segment)) }
    }

    /// # Safety
    ///
    /// `iter` must be a destination that is valid for the call.
    unsafe fn receive_iter(&self, iter: bindings::iov_iter) -> Result<Received> {
        let mut message = message(iter, 0);
        let mut control = ControlBuffer::new();
        // SAFETY: All of the message is initialised.
        unsafe {
            let message = message.assume_init_mut();
            message.msg_inq = UNKNOWN_BYTES;
            message.set_msg_get_inq(true);
        }
        // Only TCP can have TLS on top. A UNIX socket must not get the buffer, since its peer could
        // put file descriptors into it, which the kernel has no use for.
        // SAFETY: `Handle`'s type invariant; both values live to the end of this function.
        unsafe {
            if self.is_tcp() {
                control.attach(&mut message);
            }
        }
        let _scope = ReclaimScope::enter();
        // SAFETY: `Handle`'s type invariant; the message is valid by contract.
        let bytes = count(unsafe {
            bindings::sock_recvmsg(
                self.handle.raw(),
                message.as_mut_ptr(),
                (bindings::MSG_DONTWAIT | bindings::MSG_NOSIGNAL) as c_int,
            )
        })?;
        // SAFETY: Just received into.
        let (record, left_bytes) =
            unsafe { (control.record(&message), message.assume_init_ref().msg_inq) };
        match record {
            Record::Data => Ok(Received {
                bytes,
                // SAFETY: `Handle`'s type invariant.
                is_all: left_bytes == 0 && !unsafe { rnbd_socket_has_ended(self.handle.raw()) },
            }),
            Record::Alert => Ok(Received {
                bytes: 0,
                is_all: false,
            }),
            // What it has put into the buffer will be overwritten.
            Record::Housekeeping => Err(EINTR),
            Record::Unknown => Err(EBADMSG),
        }
    }
}

/// What a receive has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Received {
    /// How many bytes; 0 is the end of the stream.
    pub(crate) bytes: usize,
    /// Nothing was left, and whatever comes from now on brings a wake-up.
    pub(crate) is_all: bool,
}

/// Sockets that do not count what is left leave it at this.
const UNKNOWN_BYTES: c_int = -1;

/// A message without address and control data that neither waits nor raises `SIGPIPE`.
fn message(iter: bindings::iov_iter, flags: u32) -> MaybeUninit<bindings::msghdr> {
    let mut message = MaybeUninit::<bindings::msghdr>::zeroed();
    let raw = message.as_mut_ptr();
    // SAFETY: All-zero is a valid `msghdr`, and both fields are in bounds.
    unsafe {
        (&raw mut (*raw).msg_iter).write(iter);
        (*raw).msg_flags = flags | bindings::MSG_DONTWAIT | bindings::MSG_NOSIGNAL;
    }
    message
}

/// The result of a transfer.
fn count(result: c_int) -> Result<usize> {
    to_result(result.min(0))?;
    usize::try_from(result).map_err(|_| EIO)
}

fn kvec_iter(direction: u32, segment: &bindings::kvec) -> bindings::iov_iter {
    let mut iter = MaybeUninit::uninit();
    // SAFETY: Initialises all of the iterator; whoever uses it keeps the segment.
    unsafe {
        bindings::iov_iter_kvec(iter.as_mut_ptr(), direction, segment, 1, segment.iov_len);
        iter.assume_init()
    }
}
