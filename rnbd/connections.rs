// SPDX-License-Identifier: GPL-2.0

//! The connections of a session: which one a request takes, what happens when it is dead, putting a
//! new socket in a dead one's place, and ending them all.
//!
//! A place's spinlock protects which connection is there and nothing else; a hardware queue's cursor
//! has one for the connection that is left unflushed. Both are leaves. `replaced` is only taken by those who
//! change the set, and outside of a connection's locks.

#![forbid(unsafe_code)]

mod reconnect;

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
    }, //
};

use super::{
    connection::Connection,
    device::Device,
    fallback::find_fallback,
    kapi::{
        batch::Batch,
        pinned_slice::PinnedSlice,
        request::{
            Idle,
            Rejected,
            Status, //
        },
        socket::Candidate,
        time::HZ,
        wait::Sleep, //
    },
    request::ConnectionId,
    session::{
        session_err,
        Parking,
        Session, //
    },
    spread::Spread, //
};

/// How long a disconnect waits for the peers to take the DISC message, for all connections together.
const GOODBYE_JIFFIES: usize = HZ as usize;

/// How far a hardware queue has got.
#[pin_data]
struct Cursor {
    /// Counts batches: each goes to the next of the queue's connections.
    turn: Atomic<u32>,
    /// The connection with requests of a batch that have not been flushed.
    #[pin]
    open: SpinLock<Option<Arc<Connection>>>,
}

impl Cursor {
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            turn: Atomic::new(0),
            open <- new_spinlock!(None, "rnbd::Cursor::open"),
        })
    }

    /// The next batch goes elsewhere.
    fn next_turn(&self) {
        let turn = self.turn.load(Relaxed);
        self.turn.store(turn.wrapping_add(1), Relaxed);
    }
}

/// The set of connections. Its size is fixed when the session starts.
#[pin_data]
pub(crate) struct Connections {
    session: Arc<Session>,
    spread: Spread,
    places: PinnedSlice<SpinLock<Arc<Connection>>>,
    cursors: PinnedSlice<Cursor>,
    /// Dead connections that have been replaced, and for whose peers something still waits.
    #[pin]
    replaced: Mutex<KVec<Arc<Connection>>>,
}

impl Connections {
    /// Makes a connection of each socket, and starts to receive.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and `EINVAL` for a socket that cannot be polled; no socket is used then.
    pub(crate) fn start(
        session: Arc<Session>,
        hctxs: u32,
        candidates: KVec<Candidate>,
    ) -> Result<Arc<Self>> {
        let count = candidates.len();
        let connections = u32::try_from(count)?;
        let mut rest = (0..).zip(candidates);
        let places = PinnedSlice::try_new(count, || {
            let (position, candidate) = rest.next().ok_or(EINVAL)?;
            let connection = Connection::new(session.clone(), position, candidate)?;
            Ok(new_spinlock!(connection, "rnbd::Place"))
        })?;
        let cursors = PinnedSlice::new(usize::try_from(hctxs)?, Cursor::new)?;
        let this = Arc::pin_init(
            pin_init!(Self {
                session,
                spread: Spread {
                    queues: hctxs,
                    connections,
                },
                places,
                cursors,
                replaced <- new_mutex!(KVec::new(), "rnbd::Connections::replaced"),
            }),
            GFP_KERNEL,
        )?;
        let listening = this.listen();
        if listening.is_err() {
            this.end();
            listening?;
        }
        Ok(this)
    }

    /// Counts the new connections, and starts to receive.
    fn listen(&self) -> Result {
        let mut rest = self.iter();
        self.session.connections_up(self.count(), |id| {
            if let Some(connection) = rest.next() {
                connection.set_id(id);
            }
        });
        self.iter().try_for_each(|connection| connection.listen())
    }

    /// What the connections share.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// How many there are, dead or alive.
    pub(crate) fn count(&self) -> u32 {
        self.spread.connections
    }

    /// The connections that are in the places now, dead or alive.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<Connection>> + '_ {
        self.places.iter().map(|place| place.lock().clone())
    }

    fn at(&self, position: usize) -> Option<Arc<Connection>> {
        self.places.get(position).map(|place| place.lock().clone())
    }

    /// The connection with this number, if it is still in its place.
    pub(crate) fn find(&self, id: ConnectionId) -> Option<Arc<Connection>> {
        self.iter().find(|connection| connection.id() == id)
    }

    /// Queues a request on a connection that lives, parks it, or refuses it; with `last` everything
    /// queued for this hardware queue is sent.
    ///
    /// # Errors
    ///
    /// The request was refused with an I/O error.
    pub(crate) fn submit(
        &self,
        hctx: u32,
        request: Idle<Device>,
        last: bool,
    ) -> Result<(), Rejected<Device>> {
        let mut request = match self.enqueue(hctx, request, last) {
            Ok(()) => return Ok(()),
            Err(request) => request,
        };
        // A connection that is counted as alive takes the request, unless it dies meanwhile.
        for _ in 0..=self.places.len() {
            match self.session.park(request) {
                Parking::Parked => return Ok(()),
                Parking::Refused(refused) => {
                    request = refused;
                    break;
                }
                Parking::Retry(again) => request = again,
            }
            match self.enqueue(hctx, request, last) {
                Ok(()) => return Ok(()),
                Err(again) => request = again,
            }
        }
        if !self.session.is_ending() {
            session_err!(
                self.session,
                "failing requests: no connection lives; attach again, or reconfigure"
            );
        }
        self.session.count_failed();
        Err(request.reject(Status::IoError))
    }

    /// Queues a batch on the connection whose turn it is, and sends it; of what `is_fine` refuses, or
    /// no connection takes, the batch keeps all.
    pub(crate) fn submit_batch(
        &self,
        hctx: u32,
        batch: &mut Batch<'_, Device>,
        is_fine: impl Fn(&Idle<Device>) -> bool,
    ) {
        // Those that were queued before leave before.
        self.commit(hctx);
        let connection = self.cursor(hctx).and_then(|cursor| {
            let place = self.place_of_turn(hctx, cursor);
            cursor.next_turn();
            self.at(usize::try_from(place).ok()?)
        });
        if let Some(connection) = connection {
            connection.enqueue_batch(batch, is_fine);
        }
    }

    fn cursor(&self, hctx: u32) -> Option<&Cursor> {
        self.cursors.get(usize::try_from(hctx).ok()?)
    }

    fn enqueue(&self, hctx: u32, request: Idle<Device>, last: bool) -> Result<(), Idle<Device>> {
        let Some(cursor) = self.cursor(hctx) else {
            return Err(request);
        };
        let first = self.place_of_turn(hctx, cursor);
        if last {
            cursor.next_turn();
        }
        // A batch stays where it has begun.
        let begun = cursor.open.lock().take();
        let (result, taken) = match begun {
            Some(connection) => match connection.enqueue(request, last) {
                Ok(()) => (Ok(()), Some(connection)),
                // It has died, and with it what was queued there.
                Err(request) => self.enqueue_at(first, request, last),
            },
            None => self.enqueue_at(first, request, last),
        };
        let Some(connection) = taken.filter(|_| !last) else {
            return result;
        };
        // Whoever leaves a connection unflushed here comes back with `last` or `commit`. Another one may
        // have been left here meanwhile.
        let before = cursor.open.lock().replace(connection.clone());
        if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, &connection)) {
            before.flush();
        }
        result
    }

    /// The place whose turn it is.
    fn place_of_turn(&self, hctx: u32, cursor: &Cursor) -> u32 {
        let turn = cursor.turn.load(Relaxed);
        self.spread.nth(hctx, turn).unwrap_or(0)
    }

    /// Queues the request at a place, or at another one if the connection there takes none.
    fn enqueue_at(
        &self,
        first: u32,
        request: Idle<Device>,
        last: bool,
    ) -> (Result<(), Idle<Device>>, Option<Arc<Connection>>) {
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        let request = match self.at(first) {
            Some(connection) => match connection.enqueue(request, last) {
                Ok(()) => return (Ok(()), Some(connection)),
                Err(request) => request,
            },
            None => request,
        };
        let is_live = |position| self.at(position).is_some_and(|other| other.is_alive());
        let fallback = find_fallback(first, None, self.places.len(), is_live)
            .and_then(|position| self.at(position));
        match fallback {
            Some(connection) => match connection.enqueue(request, last) {
                Ok(()) => (Ok(()), Some(connection)),
                Err(request) => (Err(request), None),
            },
            None => (Err(request), None),
        }
    }

    /// Sends what is queued for a hardware queue.
    pub(crate) fn commit(&self, hctx: u32) {
        let open = self
            .cursor(hctx)
            .and_then(|cursor| cursor.open.lock().take());
        if let Some(connection) = open {
            connection.flush();
        }
    }

    /// Announces the end on every connection. Does not wait for anybody.
    pub(crate) fn say_goodbye(&self) {
        self.session.begin_disconnect();
        for connection in self.iter() {
            connection.say_goodbye(false);
        }
    }

    /// Announces the end, which is to follow, on every connection, and waits until the peers have taken
    /// the DISC message or a second has passed.
    pub(crate) fn take_leave(&self) {
        self.session.begin_disconnect();
        let mut all_said = true;
        for connection in self.iter() {
            all_said &= connection.say_goodbye(true);
        }
        if !all_said {
            // Whatever is not sent in time is not sent at all.
            let _ = self
                .session
                .changed
                .wait(Sleep::Killable, GOODBYE_JIFFIES, || {
                    self.iter().all(|connection| connection.has_said_goodbye())
                });
        }
    }

    /// Ends the session: every request in flight or parked fails, and when this returns no work of
    /// it runs and no socket is watched. May sleep, but waits for no peer.
    pub(crate) fn end(&self) {
        self.session.end();
        let replaced = core::mem::take(&mut *self.replaced.lock());
        let mut is_idle = true;
        for connection in self.iter() {
            is_idle &= connection.end();
        }
        for connection in replaced {
            is_idle &= connection.end();
        }
        if !is_idle {
            self.session.fail_sent();
        }
        self.session.tell_rest();
        for cursor in self.cursors.iter() {
            let open = cursor.open.lock().take();
            drop(open);
        }
    }
}
