// SPDX-License-Identifier: GPL-2.0

//! One connection: its socket, its life, and the queue of requests on their way into the socket.
//!
//! A connection object lives once: it is made around a connected socket, dies, and is replaced by
//! another one if the user brings a new socket. Its own spinlock (`state`) protects its life, its
//! queue and the question of who is sending; the receiving side belongs to the I/O work alone and has
//! a mutex only to say so. Nothing here ever waits for the peer.
//!
//! The right to send is a value, the [`Sender`] with its machine: who has taken it out of the state is
//! the sender, and brings it back or, when the connection has died meanwhile, ends what is in it.

#![forbid(unsafe_code)]

mod death;
mod ending;
mod enqueue;
mod first_use;
mod goodbye;
mod linger;
mod receive;
pub(crate) mod record;
mod rx;
mod send;
mod tx;

use kernel::{
    new_mutex,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex,
        SpinLock, //
    },
    time::msecs_to_jiffies,
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

pub(crate) use self::death::Death;
use self::{
    goodbye::Goodbye,
    linger::Linger,
    receive::Receiver,
    send::Sender, //
};
use super::{
    config::Splice,
    kapi::{
        poll::{
            Events,
            Watch,
            Watcher, //
        },
        socket::{
            Candidate,
            Socket, //
        }, //
    },
    request::{
        ConnectionId,
        Queue, //
    },
    session::Session, //
};

/// Work items of a connection, by the number that the kernel crate tells them apart with.
const IO: u64 = 0;
const RETRY: u64 = 1;

/// How a connection stands. It only moves down this list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Life {
    /// Carries requests.
    Live,
    /// The user has asked for the end: takes no request, sends DISC, still receives replies.
    Leaving,
    /// We have given it up. What the peer still sends is read and dropped, because its close is the
    /// sign that it will not execute any more what it was sent.
    Closing,
    /// It broke in a way that says nothing of the peer, which will not be heard of again: what it may
    /// still execute waits for its own time.
    Abandoned,
    /// The peer has closed, or nothing is waited for.
    Closed,
}

/// Where the right to send is.
enum Role {
    /// Nobody is sending, or ever was.
    Fresh,
    /// Nobody is sending.
    Home(KBox<Sender>),
    /// Somebody is, without a lock.
    Out,
    /// The connection has died and nothing is left to send.
    Gone,
}

/// What the state lock protects.
struct State {
    life: Life,
    queue: Queue,
    role: Role,
    goodbye: Goodbye,
    /// The socket is full: only the I/O work tries again.
    blocked: bool,
    /// Something happened while the sender was out: it looks again before it gives up.
    again: bool,
    /// The receiver has a reply to a request that the sender still holds.
    reply_waits: bool,
    /// How long a send that could not go on waits next.
    back_off_ms: u32,
    /// The I/O work was to run after a while at some time.
    has_retried: bool,
    linger: Linger,
}

/// One connection of a session.
#[pin_data]
pub(crate) struct Connection {
    id: Atomic<ConnectionId>,
    /// Its place among the session's connections, for messages.
    position: u32,
    /// The socket. Before the session, which keeps what the socket needs.
    #[pin]
    watch: Watch<Connection>,
    session: Arc<Session>,
    /// Large payload is spliced into the socket.
    splices: bool,
    /// What was spliced may stay in the socket when the connection has died.
    lingers: bool,
    /// Some has been.
    has_spliced: Atomic<bool>,
    #[pin]
    state: SpinLock<State>,
    /// Set with `life` at or below [`Life::Closing`]; read without the lock.
    dead: Atomic<bool>,
    /// Counts the requests that were ever queued here. Written under `state`.
    queued: Atomic<u32>,
    /// Counts those that were answered. Written by the receiver.
    answered: Atomic<u32>,
    /// The processor that has queued the last request.
    processor: Atomic<u32>,
    /// The sender found the socket full, so room in it matters.
    wants_room: Atomic<bool>,
    /// The I/O work was queued at some time.
    was_kicked: Atomic<bool>,
    #[pin]
    receiver: Mutex<Option<KBox<Receiver>>>,
    #[pin]
    io: Work<Connection, IO>,
    #[pin]
    retry: DelayedWork<Connection, RETRY>,
}

impl_has_work! {
    impl HasWork<Self, 0> for Connection { self.io }
}
impl_has_delayed_work! {
    impl HasDelayedWork<Self, 1> for Connection { self.retry }
}

impl Connection {
    /// A connection over a socket, alive but not known to anybody.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        session: Arc<Session>,
        position: u32,
        candidate: Candidate,
    ) -> Result<Arc<Self>> {
        let mut socket = candidate.engage(&session.reserves);
        let lingers = session.splicing == Splice::All && socket.is_unix();
        if lingers {
            socket.widen(linger::SEND_BUFFER_BYTES);
        }
        let splices = lingers || session.splicing != Splice::Off && socket.is_bare_tcp();
        Arc::pin_init(
            pin_init!(Self {
                id: Atomic::new(0),
                position,
                watch <- Watch::new(socket),
                session,
                splices,
                lingers,
                has_spliced: Atomic::new(false),
                state <- new_spinlock!(
                    State {
                        life: Life::Live,
                        queue: Queue::default(),
                        role: Role::Fresh,
                        goodbye: Goodbye::None,
                        blocked: false,
                        again: false,
                        reply_waits: false,
                        back_off_ms: send::BACK_OFF_MIN_MS,
                        has_retried: false,
                        linger: Linger::new(),
                    },
                    "rnbd::Connection::state"
                ),
                dead: Atomic::new(false),
                queued: Atomic::new(0),
                answered: Atomic::new(0),
                wants_room: Atomic::new(false),
                processor: Atomic::new(0),
                was_kicked: Atomic::new(false),
                receiver <- new_mutex!(None, "rnbd::Connection::receiver"),
                io <- new_work!("rnbd::Connection::io"),
                retry <- new_delayed_work!("rnbd::Connection::retry"),
            }),
            GFP_KERNEL,
        )
    }

    /// Its number.
    pub(crate) fn id(&self) -> ConnectionId {
        self.id.load(Relaxed)
    }

    /// Gives it its number, before anybody can find it.
    pub(crate) fn set_id(&self, id: ConnectionId) {
        self.id.store(id, Relaxed);
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> &Socket {
        self.watch.socket()
    }

    /// Starts to receive. The socket is watched until the connection retires.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the socket cannot be polled.
    pub(crate) fn listen(self: &Arc<Self>) -> Result {
        let pending = self.watch.start(self.clone())?;
        // What came before the watch brings no wake-up.
        if !pending.is_only_writable() {
            self.kick();
        }
        Ok(())
    }

    /// Whether it has not died.
    pub(crate) fn is_alive(&self) -> bool {
        !self.dead.load(Relaxed)
    }

    /// Whether every request that it was given has been answered.
    fn is_idle(&self) -> bool {
        self.in_flight() == 0
    }

    /// How many requests are, as long as it lives.
    fn in_flight(&self) -> u32 {
        let queued = self.queued.load(Relaxed);
        queued.wrapping_sub(self.answered.load(Relaxed))
    }

    /// Whether it has died and nothing of it is waited for any more.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.state.lock();
        state.life == Life::Closed && matches!(state.role, Role::Gone) && !state.linger.is_holding()
    }

    /// Runs the I/O work soon.
    pub(crate) fn kick(self: &Arc<Self>) {
        self.queue_io(None);
    }

    /// Runs the I/O work after `delay_ms`, in the place of an earlier such wish.
    fn kick_later(self: &Arc<Self>, state: &mut State, delay_ms: u32) {
        state.has_retried = true;
        self.session
            .queues
            .io
            .enqueue_delayed_anew::<Self, RETRY>(self.clone(), msecs_to_jiffies(delay_ms));
    }

    /// Queues the I/O work, for this processor if one is named.
    fn queue_io(self: &Arc<Self>, processor: Option<u32>) {
        self.was_kicked.store(true, Relaxed);
        let queues = &self.session.queues;
        // Fails if it is queued already, which is as good.
        let _ = match processor {
            None => queues.io.enqueue::<Arc<Self>, IO>(self.clone()),
            Some(number) => queues
                .near
                .enqueue_on::<Arc<Self>, IO>(number, self.clone()),
        };
    }
}

impl Watcher for Connection {
    fn woken(this: &Arc<Self>, events: Events) {
        if events.is_only_writable() && !this.wants_room.load(Relaxed) {
            return;
        }
        // Whoever waits for a lone reply has gone to sleep where it sent.
        let is_lone = this.in_flight() <= 1;
        this.queue_io(is_lone.then(|| this.processor.load(Relaxed)));
    }
}

impl WorkItem<IO> for Connection {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let more = this.receive();
        this.resume();
        if !this.is_alive() {
            this.look_after_pages();
        }
        if more {
            this.kick();
        }
    }
}

impl WorkItem<RETRY> for Connection {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.kick();
    }
}
