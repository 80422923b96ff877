// SPDX-License-Identifier: GPL-2.0

//! The connections of a session: which one a request takes, what happens when it is dead, putting a
//! new socket in a dead one's place, and ending them all.
//!
//! A place's spinlock protects which connection is there and nothing else; a hardware queue's cursor
//! has one for the connection that is left unflushed. Both are leaves. `keep` is only taken by those who
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
    connection::{
        Connection,
        Death, //
    },
    device::Device,
    fallback::find_fallback,
    kapi::{
        pinned_slice::PinnedSlice,
        poll::Watch,
        request::{
            Idle,
            Rejected,
            Status, //
        },
        socket::{
            Candidate,
            Socket, //
        },
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

/// A connection being watched, dead or alive.
type Watched = Pin<KBox<Watch<Connection>>>;

/// The set of connections. Its size is fixed when the session starts.
#[pin_data]
pub(crate) struct Connections {
    session: Arc<Session>,
    spread: Spread,
    places: PinnedSlice<SpinLock<Arc<Connection>>>,
    cursors: PinnedSlice<Cursor>,
    #[pin]
    keep: Mutex<KVec<Watched>>,
}

impl Connections {
    /// Makes a connection of each socket, and starts to receive.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and `EINVAL` for no socket at all; no socket is used then.
    pub(crate) fn start(
        session: Arc<Session>,
        hctxs: u32,
        candidates: KVec<Candidate>,
    ) -> Result<Arc<Self>> {
        let mut connections = KVec::with_capacity(candidates.len(), GFP_KERNEL)?;
        for (candidate, position) in candidates.into_iter().zip(0..) {
            let connection = Self::connect(&session, position, candidate)?;
            connections.push(connection, GFP_KERNEL)?;
        }
        let spread = Spread {
            queues: hctxs,
            connections: u32::try_from(connections.len())?,
        };
        let watched = KVec::with_capacity(connections.len(), GFP_KERNEL)?;
        let cursors = PinnedSlice::new(usize::try_from(hctxs)?, Cursor::new)?;
        let mut rest = connections.iter();
        let places = PinnedSlice::try_new(connections.len(), || {
            let connection = rest.next().ok_or(EINVAL)?.clone();
            Ok(new_spinlock!(connection, "rnbd::Place"))
        })?;
        let this = Arc::pin_init(
            try_pin_init!(Self {
                session,
                spread,
                places,
                cursors,
                keep <- new_mutex!(watched, "rnbd::Connections::keep"),
            }? Error),
            GFP_KERNEL,
        )?;
        for connection in &connections {
            this.session.connection_up(|id| connection.set_id(id));
        }
        for connection in &connections {
            let watched = this.watch(&mut this.keep.lock(), connection);
            if watched.is_err() {
                this.end();
                watched?;
            }
        }
        Ok(this)
    }

    fn connect(
        session: &Arc<Session>,
        position: u32,
        candidate: Candidate,
    ) -> Result<Arc<Connection>> {
        let socket: Arc<Socket> = Arc::new(candidate.engage(), GFP_KERNEL)?;
        Connection::new(session.clone(), position, socket)
    }

    /// Starts to receive on a connection.
    fn watch(&self, keep: &mut KVec<Watched>, connection: &Arc<Connection>) -> Result {
        let (watch, pending) = Watch::new(connection.socket().clone(), connection.clone())?;
        keep.push(watch, GFP_KERNEL)?;
        // What came before the watch brings no wake-up.
        if !pending.is_only_writable() {
            connection.kick();
        }
        Ok(())
    }

    /// What the connections share.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// How many there are, dead or alive.
    pub(crate) fn count(&self) -> u32 {
        self.spread.connections
    }

    /// The connections that are in the places now.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arc<Connection>> + '_ {
        (0..self.places.len()).filter_map(|position| self.at(position))
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
            connection.say_goodbye();
        }
    }

    /// Waits until the peers have taken the DISC message or a second has passed.
    pub(crate) fn wait_for_goodbye(&self) {
        let all_said = || self.iter().all(|connection| connection.has_said_goodbye());
        // Whatever is not sent in time is not sent at all.
        let _ = self
            .session
            .changed
            .wait(Sleep::Killable, GOODBYE_JIFFIES, all_said);
    }

    /// Ends the session: every request in flight or parked fails, and when this returns no work of
    /// it runs and no socket is watched. May sleep, but waits for no peer.
    pub(crate) fn end(&self) {
        self.session.end();
        let mut keep = core::mem::take(&mut *self.keep.lock());
        // What a socket has to say from now on is known already.
        for watch in &mut keep {
            watch.as_mut().stop();
        }
        for connection in self.iter() {
            connection.kill(Death::Ended);
        }
        for watch in keep {
            let connection = watch.watcher().clone();
            connection.kill(Death::Ended);
            drop(watch);
            connection.retire();
        }
        // Of a start that failed some may not have been watched.
        for connection in self.iter() {
            connection.retire();
        }
        self.session.fail_sent();
        for cursor in self.cursors.iter() {
            let open = cursor.open.lock().take();
            drop(open);
        }
    }
}
