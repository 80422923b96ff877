// SPDX-License-Identifier: GPL-2.0

//! A connected stream socket that user space handed in: taking it, sending and receiving without
//! waiting, shutting it down.
//!
//! C header: [`include/linux/net.h`](srctree/include/linux/net.h)
//!
//! [`Candidate`] is a socket that was checked and not touched; [`Socket`] is one in use.

use core::{
    mem::MaybeUninit,
    ptr,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    error::to_result,
    prelude::*, //
};

use super::{
    bio::{
        Direction,
        Piece, //
    },
    control_message::{
        ControlBuffer,
        Record, //
    },
    credentials::ReclaimScope,
    mq::Driver,
    request::Started, //
};

/// `struct rnbd_socket_state`.
#[repr(C)]
struct StateBefore {
    allocation: bindings::gfp_t,
    use_task_frag: bool,
}

#[expect(improper_ctypes, reason = "an empty lock_class_key without lockdep")]
extern "C" {
    fn rnbd_socket_is_stream(sock: *const bindings::socket) -> bool;
    fn rnbd_socket_is_tcp(sock: *const bindings::socket) -> bool;
    fn rnbd_socket_has_shutdown(sock: *const bindings::socket) -> bool;
    fn rnbd_socket_is_connected(sock: *const bindings::socket) -> bool;
    fn rnbd_socket_reclassify(sock: *mut bindings::socket);
    fn rnbd_socket_abort(sock: *mut bindings::socket);
    fn rnbd_socket_engage(sock: *mut bindings::socket, before: *mut StateBefore);
    fn rnbd_socket_release(sock: *mut bindings::socket, before: *const StateBefore);
    fn sk_set_memalloc(sk: *mut bindings::sock);
    fn sk_clear_memalloc(sk: *mut bindings::sock);
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
        unsafe {
            if !rnbd_socket_is_stream(handle.raw()) {
                return Err(Unfit::NotAStream);
            }
            if !rnbd_socket_has_shutdown(handle.raw()) {
                return Err(Unfit::NoShutdown);
            }
            if !rnbd_socket_is_connected(handle.raw()) {
                return Err(Unfit::NotConnected);
            }
        }
        Ok(Self(handle))
    }

    /// Whether both are the same socket.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.0 .0 == other.0 .0
    }

    /// Ends both directions before it was ever used.
    pub(crate) fn shutdown(&self) {
        self.0.shutdown(bindings::sock_shutdown_cmd_SHUT_RDWR);
    }

    /// Makes it a connection of a block device: it may use memory reserves, and its allocations
    /// start no I/O. May sleep.
    pub(crate) fn engage(self) -> Socket {
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

    /// Whether `candidate` is this very socket.
    pub(crate) fn is(&self, candidate: &Candidate) -> bool {
        self.handle.0 == candidate.0 .0
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

    /// Sends what fits of `bytes` now. `more` says that more will follow at once.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if nothing fits, otherwise what the socket says.
    pub(crate) fn send(&self, bytes: &[u8], more: bool) -> Result<usize> {
        let segment = bindings::kvec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: `segment` and `bytes` outlive the call, which only reads them.
        unsafe { self.send_iter(kvec_iter(Direction::Source, &segment), more) }
    }

    /// Sends what fits of the payload of `request` from `offset_bytes` on, at most `length_bytes` and
    /// at most to the end of a bio.
    ///
    /// # Errors
    ///
    /// As for [`Socket::send`]; `EINVAL` if there is no payload there.
    pub(crate) fn send_payload<T: Driver>(
        &self,
        request: &mut Started<T>,
        offset_bytes: u32,
        length_bytes: u32,
        more: bool,
    ) -> Result<usize> {
        let Piece {
            iter,
            more: more_of_it,
        } = request
            .piece(Direction::Source, offset_bytes, length_bytes)
            .ok_or(EINVAL)?;
        // SAFETY: The pages stay in place while `request` is borrowed, and are only read.
        unsafe { self.send_iter(iter, more || more_of_it) }
    }

    /// # Safety
    ///
    /// `iter` must be a source that is valid for the call.
    unsafe fn send_iter(&self, iter: bindings::iov_iter, more: bool) -> Result<usize> {
        let mut message = message(iter, if more { bindings::MSG_MORE } else { 0 });
        let _scope = ReclaimScope::enter();
        // SAFETY: `Handle`'s type invariant; the message is valid by contract.
        count(unsafe { bindings::sock_sendmsg(self.handle.raw(), message.as_mut_ptr()) })
    }

    /// Receives what is there into `bytes`. 0 is the end of the stream.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if nothing is there, `EINTR` to try again at once, otherwise what the socket says.
    pub(crate) fn receive(&self, bytes: &mut [u8]) -> Result<usize> {
        let segment = bindings::kvec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: `segment` and `bytes` outlive the call; `bytes` is exclusively borrowed.
        unsafe { self.receive_iter(kvec_iter(Direction::Destination, &segment)) }
    }

    /// Receives what is there into the payload of `request` from `offset_bytes` on, at most
    /// `length_bytes` and at most to the end of a bio. 0 is the end of the stream.
    ///
    /// # Errors
    ///
    /// As for [`Socket::receive`]; `EINVAL` if there is no payload there.
    pub(crate) fn receive_payload<T: Driver>(
        &self,
        request: &mut Started<T>,
        offset_bytes: u32,
        length_bytes: u32,
    ) -> Result<usize> {
        let piece = request
            .piece(Direction::Destination, offset_bytes, length_bytes)
            .ok_or(EINVAL)?;
        // SAFETY: The pages stay in place while `request` is borrowed; what is in them is the
        // request's to fill.
        unsafe { self.receive_iter(piece.iter) }
    }

    /// # Safety
    ///
    /// `iter` must be a destination that is valid for the call.
    unsafe fn receive_iter(&self, iter: bindings::iov_iter) -> Result<usize> {
        let mut message = message(iter, 0);
        let mut control = ControlBuffer::new();
        // Only TCP can have TLS on top. A UNIX socket must not get the buffer, since its peer could
        // put file descriptors into it, which the kernel has no use for.
        // SAFETY: `Handle`'s type invariant; both values live to the end of this function.
        unsafe {
            if rnbd_socket_is_tcp(self.handle.raw()) {
                control.attach(&mut message);
            }
        }
        let _scope = ReclaimScope::enter();
        // SAFETY: `Handle`'s type invariant; the message is valid by contract.
        let received_bytes = count(unsafe {
            bindings::sock_recvmsg(
                self.handle.raw(),
                message.as_mut_ptr(),
                (bindings::MSG_DONTWAIT | bindings::MSG_NOSIGNAL) as c_int,
            )
        })?;
        // SAFETY: Just received into.
        match unsafe { control.record(&message) } {
            Record::Data => Ok(received_bytes),
            Record::Alert => Ok(0),
            // What it has put into the buffer will be overwritten.
            Record::Housekeeping => Err(EINTR),
            Record::Unknown => Err(EBADMSG),
        }
    }
}

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

fn kvec_iter(direction: Direction, segment: &bindings::kvec) -> bindings::iov_iter {
    let mut iter = MaybeUninit::uninit();
    // SAFETY: Initialises all of the iterator; whoever uses it keeps the segment.
    unsafe {
        bindings::iov_iter_kvec(
            iter.as_mut_ptr(),
            direction as u32,
            segment,
            1,
            segment.iov_len,
        );
        iter.assume_init()
    }
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
