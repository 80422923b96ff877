// SPDX-License-Identifier: GPL-2.0

//! Being told when a socket that user space handed in can be read or written, without owning it.
//!
//! C header: [`include/linux/poll.h`](srctree/include/linux/poll.h)
//!
//! The socket's callbacks are not touched: as vhost and 9p do, an entry is put on the wait queue
//! that the file's own `poll` names.

use core::{
    cell::UnsafeCell,
    mem::ManuallyDrop,
    ptr,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Release, //
        },
        Arc, //
    },
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

/// A socket, and a place on its wait queue.
///
/// It may be a part of the one who is told: who starts to watch is kept from then on, until
/// [`Watch::stop`].
///
/// # Invariants
///
/// `head` is null, or the wait queue of `socket` with `entry` on it; then a count of `watcher`, which
/// comes from `Arc::into_raw()`, is owned here. From the time that `is_begun` is set on, `entry` and
/// `watcher` are only used by the one who has set it, and then, under its lock, by the wait queue.
#[pin_data(PinnedDrop)]
#[repr(C)]
pub(crate) struct Watch<W: Watcher> {
    #[pin]
    entry: Opaque<bindings::wait_queue_entry>,
    watcher: UnsafeCell<*const W>,
    head: Atomic<*mut bindings::wait_queue_head>,
    is_begun: Atomic<bool>,
    socket: Socket,
}

// SAFETY: The entry is only touched under the wait queue's lock; `W` may be used and dropped by any
// thread.
unsafe impl<W: Watcher> Send for Watch<W> {}
// SAFETY: As above; `is_begun` and `head` let one thread start and one stop.
unsafe impl<W: Watcher> Sync for Watch<W> {}

/// What `add` is called with while a [`Watch`] starts.
#[repr(C)]
struct Start<'a, W: Watcher> {
    table: bindings::poll_table,
    watch: &'a Watch<W>,
    is_added: bool,
}

impl<W: Watcher> Watch<W> {
    /// The socket, not watched yet.
    pub(crate) fn new(socket: Socket) -> impl PinInit<Self> {
        pin_init!(Self {
            entry: Opaque::new(bindings::wait_queue_entry {
                func: Some(Self::wake),
                ..pin_init::zeroed()
            }),
            watcher: UnsafeCell::new(ptr::null()),
            // INVARIANT: Not on a queue.
            head: Atomic::new(ptr::null_mut()),
            is_begun: Atomic::new(false),
            socket,
        })
    }

    /// The socket.
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Starts to watch, which can be done once, and returns what is pending already, which brings no
    /// call.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the socket cannot be polled, `EBUSY` the second time.
    pub(crate) fn start(&self, watcher: Arc<W>) -> Result<Events> {
        if self.is_begun.xchg(true, Full) {
            return Err(EBUSY);
        }
        // SAFETY: By the type invariant nobody else uses it.
        unsafe { *self.watcher.get() = Arc::into_raw(watcher) };
        let mut start = Start {
            table: bindings::poll_table {
                _qproc: Some(Self::add),
                _key: !0,
            },
            watch: self,
            is_added: false,
        };
        let pending = self.socket.poll((&raw mut start).cast());
        if !start.is_added {
            // SAFETY: It came from `Arc::into_raw()` above, and no queue has got it.
            drop(unsafe { Arc::from_raw(*self.watcher.get()) });
            return Err(EINVAL);
        }
        Ok(pending)
    }

    /// Ends the watch: no call is running afterwards, and none will come.
    pub(crate) fn stop(&self) {
        // INVARIANT: Taken off the queue below, and the count is dropped.
        let head = NonNull::new(self.head.xchg(ptr::null_mut(), Full));
        if let Some(head) = head {
            // SAFETY: By the type invariant the entry was on it, and only here is it taken off.
            unsafe { bindings::remove_wait_queue(head.as_ptr(), self.entry.get()) };
            // SAFETY: By the type invariant; the wait queue has used it for the last time.
            drop(unsafe { Arc::from_raw(*self.watcher.get()) });
        }
    }

    /// # Safety
    ///
    /// A `poll_queue_proc` called with the `table` of a [`Start`].
    unsafe extern "C" fn add(
        _file: *mut bindings::file,
        head: *mut bindings::wait_queue_head_t,
        table: *mut bindings::poll_table,
    ) {
        // SAFETY: By contract; `table` is its first field.
        let start = unsafe { &mut *table.cast::<Start<'_, W>>() };
        // A second queue, which no stream socket has, is ignored.
        if !start.is_added {
            start.is_added = true;
            // SAFETY: The watch does not move, as only `PinInit` makes one, and takes the entry off
            // before it goes. The wait queue lives as long as the socket.
            unsafe { bindings::add_wait_queue(head, start.watch.entry.get()) };
            // INVARIANT: It is on the queue, and the count was taken by `start`.
            start.watch.head.store(head, Release);
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
        // now, so the watch is alive and its count of the watcher still owned.
        let watcher = unsafe {
            let watch = entry.cast::<Self>();
            ManuallyDrop::new(Arc::from_raw(*(*watch).watcher.get()))
        };
        // Some wake-ups come without a key: then anything may have happened.
        let events = match key.addr() as u32 {
            0 => !0,
            events => events,
        };
        W::woken(&watcher, Events(events));
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
