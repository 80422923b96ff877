// SPDX-License-Identifier: GPL-2.0

//! Being told when a socket that user space handed in can be read or written, without owning it.
//!
//! C header: [`include/linux/poll.h`](srctree/include/linux/poll.h)
//!
//! The socket's callbacks are not touched: as vhost and 9p do, an entry is put on the wait queue
//! that the file's own `poll` names.

use core::{
    cell::UnsafeCell,
    mem::offset_of,
    ptr,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

use super::socket::Socket;

/// What happened to a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Events(u32);

// The values of `include/uapi/linux/eventpoll.h`, which are the kernel's own as well.
const EPOLLIN: u32 = 0x1;
const EPOLLOUT: u32 = 0x4;
const EPOLLERR: u32 = 0x8;
const EPOLLHUP: u32 = 0x10;
const EPOLLRDHUP: u32 = 0x2000;

impl Events {
    /// Nothing but room to write.
    pub(crate) fn is_only_writable(self) -> bool {
        self.0 & (EPOLLIN | EPOLLERR | EPOLLHUP | EPOLLRDHUP) == 0 && self.0 & EPOLLOUT != 0
    }

    /// The peer has closed its end, or the connection is broken.
    pub(crate) fn is_hang_up(self) -> bool {
        self.0 & (EPOLLERR | EPOLLHUP | EPOLLRDHUP) != 0
    }
}

/// Is told of a socket's events.
pub(crate) trait Watcher: Send + Sync + 'static {
    /// Called in atomic context, with the wait queue's lock held: may only queue work.
    fn woken(this: &Arc<Self>, events: Events);
}

/// A registration on a socket's wait queue; dropping it ends it, after which no call is running.
///
/// # Invariants
///
/// `head` is null, or the wait queue of `socket` with `entry` on it. `entry` is only used by the wait
/// queue then, under its lock.
#[pin_data(PinnedDrop)]
#[repr(C)]
pub(crate) struct Watch<W: Watcher> {
    #[pin]
    entry: Opaque<bindings::wait_queue_entry>,
    #[pin]
    table: Opaque<bindings::poll_table>,
    head: UnsafeCell<*mut bindings::wait_queue_head>,
    watcher: Arc<W>,
    socket: Arc<Socket>,
}

// SAFETY: The entry is only touched under the wait queue's lock, and both `Arc`s are `Send`.
unsafe impl<W: Watcher> Send for Watch<W> {}

impl<W: Watcher> Watch<W> {
    /// Starts to watch `socket`, and returns what is pending there already, which brings no call.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and `EINVAL` if the socket cannot be polled.
    pub(crate) fn new(socket: Arc<Socket>, watcher: Arc<W>) -> Result<(Pin<KBox<Self>>, Events)> {
        let watch = KBox::pin_init(
            pin_init!(Self {
                entry: Opaque::new(bindings::wait_queue_entry {
                    func: Some(Self::wake),
                    ..pin_init::zeroed()
                }),
                table: Opaque::new(bindings::poll_table {
                    _qproc: Some(Self::add),
                    _key: !0,
                }),
                // INVARIANT: Not registered yet.
                head: UnsafeCell::new(ptr::null_mut()),
                watcher,
                socket,
            }),
            GFP_KERNEL,
        )?;
        let pending = watch.socket.poll(watch.table.get());
        // SAFETY: Only `add` writes it, which `poll` has called.
        if unsafe { *watch.head.get() }.is_null() {
            return Err(EINVAL);
        }
        Ok((watch, pending))
    }

    /// Who is told.
    pub(crate) fn watcher(&self) -> &Arc<W> {
        &self.watcher
    }

    /// Ends the watch early: no call is running afterwards, and none will come.
    pub(crate) fn stop(self: Pin<&mut Self>) {
        // INVARIANT: Taken off the queue below.
        // SAFETY: Only `add` writes it beside this, and that is over; `self` is borrowed exclusively.
        let head = unsafe { ptr::replace(self.head.get(), ptr::null_mut()) };
        if let Some(head) = NonNull::new(head) {
            // SAFETY: By the type invariant the entry is on it.
            unsafe { bindings::remove_wait_queue(head.as_ptr(), self.entry.get()) };
        }
    }

    /// # Safety
    ///
    /// A `poll_queue_proc` called with the `table` of a pinned [`Watch`] that is being made.
    unsafe extern "C" fn add(
        _file: *mut bindings::file,
        head: *mut bindings::wait_queue_head_t,
        table: *mut bindings::poll_table,
    ) {
        // SAFETY: By contract. The watch does not move, and the wait queue lives as long as the
        // socket, which the watch holds. A second queue, which no stream socket has, is ignored.
        unsafe {
            let watch: *const Self = table.byte_sub(offset_of!(Self, table)).cast();
            let place = (*watch).head.get();
            if (*place).is_null() {
                // INVARIANT: Put on the queue here.
                *place = head;
                bindings::add_wait_queue(head, (*watch).entry.get());
            }
        }
    }

    /// # Safety
    ///
    /// A `wait_queue_func_t` called with the `entry` of a registered [`Watch`].
    unsafe extern "C" fn wake(
        entry: *mut bindings::wait_queue_entry,
        _mode: c_uint,
        _flags: c_int,
        key: *mut c_void,
    ) -> c_int {
        // SAFETY: By contract; `entry` is the first field. Removal takes the lock that is held
        // now, so the watch is alive.
        let watcher = unsafe { &(*entry.cast::<Self>()).watcher };
        // Some wake-ups come without a key: then anything may have happened.
        let events = match key.addr() as u32 {
            0 => !0,
            events => events,
        };
        W::woken(watcher, Events(events));
        // Not an exclusive waiter: the return value does not count.
        0
    }
}

#[pinned_drop]
impl<W: Watcher> PinnedDrop for Watch<W> {
    fn drop(self: Pin<&mut Self>) {
        self.stop();
    }
}

impl Socket {
    /// What is pending now.
    pub(crate) fn events(&self) -> Events {
        self.poll(ptr::null_mut())
    }

    /// `vfs_poll()`; `table` is null or fit for it.
    fn poll(&self, table: *mut bindings::poll_table) -> Events {
        let file = self.file();
        // SAFETY: The file of a live socket; its operations are constant.
        let Some(poll) = (unsafe { (*(*file).f_op).poll }) else {
            return Events(EPOLLERR);
        };
        // SAFETY: As `vfs_poll()` does.
        Events(unsafe { poll(file, table) })
    }
}
