// SPDX-License-Identifier: GPL-2.0

//! What all connections of one session share: whether it goes on, how many connections live, the
//! parked requests, and the clock that runs while none lives.
//!
//! Lock order: a connection's state, then [`Session::liveness`], then a slot. A request is parked
//! under the liveness lock, and a connection is counted up or down under it, so nothing is parked
//! behind the back of whoever wakes the parked ones.

#![forbid(unsafe_code)]

mod event;
mod leftover;

use kernel::{
    fmt,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    },
    time::Jiffies,
    workqueue::{
        impl_has_delayed_work,
        impl_has_work,
        new_delayed_work,
        new_work,
        DelayedWork,
        Work,
        WorkItem, //
    }, //
};

pub(crate) use self::leftover::Parking;
use super::{
    config::Splice,
    connection::record::Records,
    device::size::splicing,
    kapi::{
        ratelimit::RateLimit,
        request::Idle,
        reserve_anchor::ReserveAnchor,
        time::{
            is_past,
            jiffies, //
        },
        wait::{
            new_wait_queue,
            WaitQueue, //
        },
        workqueue::{
            cancel_delayed_sync_arc,
            OwnedQueue, //
        }, //
    },
    proto::ServerFlags,
    request::{
        ConnectionId,
        Slots, //
    }, //
};

/// How a session stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Requests are carried out, or wait for a connection.
    Active,
    /// No connection lives, and waiting for one has been given up: requests fail until one comes.
    Expired,
    /// The user has asked for the end: requests fail.
    Disconnecting,
    /// Over.
    Ended,
}

/// What [`Session::liveness`] protects.
struct Liveness {
    mode: Mode,
    /// Connections that have not died.
    live: u32,
    /// When the clock runs out, if none lives.
    deadline_jiffies: Jiffies,
    /// Requests may be parked.
    has_parked: bool,
}

/// The workqueues that the sessions of all devices share.
pub(crate) struct Queues {
    /// Sending and receiving, and the clocks that end waiting for it. Memory reclaim may wait for it.
    pub(crate) io: OwnedQueue,
    /// Receiving where one request is all that is waited for: on the processor that has sent it, where
    /// whoever waits for it has waited and goes on.
    pub(crate) near: OwnedQueue,
    /// Events for user space, which allocate memory.
    pub(crate) events: OwnedQueue,
}

/// The shared part of one attachment of a device to a server.
#[pin_data]
pub(crate) struct Session {
    /// Number of the device, for messages and events.
    pub(crate) index: u32,
    /// The device's requests.
    pub(crate) slots: Arc<Slots>,
    pub(crate) queues: Arc<Queues>,
    /// For the sockets.
    pub(crate) reserves: Arc<ReserveAnchor>,
    /// Which sockets payload is spliced into.
    pub(crate) splicing: Splice,
    /// Limits the messages that a peer can cause.
    log_limit: RateLimit,
    #[pin]
    liveness: SpinLock<Liveness>,
    /// Woken when a connection dies, has said goodbye, or stops sending for good.
    #[pin]
    pub(crate) changed: WaitQueue,
    /// How long requests wait while no connection lives; 0 means not at all.
    dead_connection_jiffies: Atomic<u64>,
    /// [`ServerFlags`] as last set.
    server_flags: Atomic<u32>,
    /// The session's request timeout; 0 if the user has set none.
    timeout_jiffies: Atomic<u32>,
    /// Requests that were sent again, and that failed without an answer.
    resent: Atomic<u64>,
    failed: Atomic<u64>,
    #[pin]
    pub(crate) records: Records,
    #[pin]
    clock: DelayedWork<Session, CLOCK>,
    /// Deaths of connections that those who listen to events are to be told of.
    untold: Atomic<u32>,
    /// There were some.
    has_told: Atomic<bool>,
    #[pin]
    event: Work<Session, EVENT>,
}

/// Work items of a session, by the number that the kernel crate tells them apart with.
const CLOCK: u64 = 0;
const EVENT: u64 = 1;

impl_has_delayed_work! {
    impl HasDelayedWork<Self, 0> for Session { self.clock }
}
impl_has_work! {
    impl HasWork<Self, 1> for Session { self.event }
}

/// Prints a message that a peer can cause, naming the device, and not too often.
macro_rules! session_err {
    ($session:expr, $($message:tt)*) => {
        $session.complain(::kernel::prelude::fmt!($($message)*))
    };
}
pub(crate) use session_err;

impl Session {
    /// A session without connections.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        index: u32,
        slots: Arc<Slots>,
        queues: Arc<Queues>,
        reserves: Arc<ReserveAnchor>,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                index,
                slots,
                queues,
                reserves,
                splicing: splicing(),
                log_limit: RateLimit::new(),
                liveness <- new_spinlock!(
                    Liveness {
                        mode: Mode::Active,
                        live: 0,
                        deadline_jiffies: 0,
                        has_parked: false,
                    },
                    "rnbd::Liveness"
                ),
                changed <- new_wait_queue!("rnbd::Session::changed"),
                dead_connection_jiffies: Atomic::new(0),
                server_flags: Atomic::new(0),
                timeout_jiffies: Atomic::new(0),
                resent: Atomic::new(0),
                failed: Atomic::new(0),
                records <- Records::new(),
                clock <- new_delayed_work!("rnbd::Session::clock"),
                untold: Atomic::new(0),
                has_told: Atomic::new(false),
                event <- new_work!("rnbd::Session::event"),
            }),
            GFP_KERNEL,
        )
    }

    /// Use [`session_err!`].
    pub(crate) fn complain(&self, message: fmt::Arguments<'_>) {
        if self.log_limit.allow() {
            pr_err!("block nbd{}: {}\n", self.index, message);
        }
    }

    /// How it stands.
    pub(crate) fn mode(&self) -> Mode {
        self.liveness.lock().mode
    }

    /// How it stands, and how many connections live.
    pub(crate) fn standing(&self) -> (Mode, u32) {
        let liveness = self.liveness.lock();
        (liveness.mode, liveness.live)
    }

    /// Whether the user has asked for the end.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.mode(), Mode::Disconnecting | Mode::Ended)
    }

    /// How many connections live.
    pub(crate) fn live(&self) -> u32 {
        self.liveness.lock().live
    }

    /// What the server can do.
    pub(crate) fn server_flags(&self) -> ServerFlags {
        ServerFlags::from_bits(self.server_flags.load(Relaxed))
    }

    /// Sets what the server can do.
    pub(crate) fn set_server_flags(&self, flags: ServerFlags) {
        self.server_flags.store(flags.bits(), Relaxed);
    }

    /// The request timeout, 0 if none is set.
    pub(crate) fn timeout_jiffies(&self) -> u32 {
        self.timeout_jiffies.load(Relaxed)
    }

    /// Sets the request timeout.
    pub(crate) fn set_timeout(&self, jiffies: u32) {
        self.timeout_jiffies.store(jiffies, Relaxed);
    }

    /// Sets how long requests wait while no connection lives. A running clock is not changed.
    pub(crate) fn set_dead_connection_timeout(&self, jiffies: u64) {
        self.dead_connection_jiffies.store(jiffies, Relaxed);
    }

    /// Counts new connections, and sends what was parked for want of one.
    ///
    /// `publish` makes a connection known under its new number; it is called with a spinlock
    /// held, so that whoever finds the connection counted finds it published as well.
    pub(crate) fn connections_up(&self, count: u32, mut publish: impl FnMut(ConnectionId)) {
        {
            let mut liveness = self.liveness.lock();
            for _ in 0..count {
                publish(self.slots.next_connection());
            }
            liveness.live = liveness.live.saturating_add(count);
            if liveness.mode == Mode::Expired {
                liveness.mode = Mode::Active;
            }
        }
        self.unpark(Idle::requeue);
    }

    /// Counts a connection that has died, and tells those who listen to events, unless the user has asked
    /// for the end. Called under the lock of that connection's state.
    pub(crate) fn connection_down(self: &Arc<Self>) {
        let mut liveness = self.liveness.lock();
        liveness.live = liveness.live.saturating_sub(1);
        if liveness.live == 0 && liveness.mode == Mode::Active {
            let wait_jiffies = Jiffies::try_from(self.dead_connection_jiffies.load(Relaxed))
                .unwrap_or(Jiffies::MAX);
            if wait_jiffies == 0 {
                liveness.mode = Mode::Expired;
            }
            liveness.deadline_jiffies = jiffies().wrapping_add(wait_jiffies);
            // Also without a wait: there may be requests in flight on connections that died earlier.
            self.queues
                .io
                .enqueue_delayed_anew::<Self, CLOCK>(self.clone(), wait_jiffies);
        }
        if matches!(liveness.mode, Mode::Active | Mode::Expired) {
            self.tell_soon();
        }
    }

    /// The user wants the end: from now on requests fail. Parked ones do at once.
    pub(crate) fn begin_disconnect(&self) {
        {
            let mut liveness = self.liveness.lock();
            if liveness.mode != Mode::Ended {
                liveness.mode = Mode::Disconnecting;
            }
        }
        self.fail_parked();
        self.changed.wake_all();
    }

    /// The session is over. The clock stops.
    pub(crate) fn end(self: &Arc<Self>) {
        self.liveness.lock().mode = Mode::Ended;
        self.fail_parked();
        cancel_delayed_sync_arc::<Self, CLOCK>(self);
        self.changed.wake_all();
    }

    /// The clock has run out: nothing waits any longer, whether it was sent or not.
    fn expire(&self) {
        let newest = {
            let mut liveness = self.liveness.lock();
            // An old clock may still be on its way when a new one has been started.
            let due = liveness.live == 0 && is_past(liveness.deadline_jiffies);
            if !due || !matches!(liveness.mode, Mode::Active | Mode::Expired) {
                return;
            }
            liveness.mode = Mode::Expired;
            // A connection that comes from now on has a later number.
            self.slots.newest_connection()
        };
        self.fail_parked();
        self.slots
            .drain_sent_until(newest, false, |request| self.fail(request));
    }
}

impl WorkItem<CLOCK> for Session {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.expire();
    }
}
