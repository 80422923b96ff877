// SPDX-License-Identifier: GPL-2.0

//! The connections of a session: which one a request takes, what happens when it is dead, putting a
//! new socket in a dead one's place, and ending them all.
//!
//! A place's spinlock protects which connection is there and nothing else; a hardware queue's cursor
//! protects which connection its current batch is on. Lock order: cursor, then a connection's state;
//! `keep` is outermost and only taken by those who change the set.

#![forbid(unsafe_code)]

use kernel::{
    new_mutex,
    new_spinlock,
    prelude::*,
    sync::{
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
#[derive(Default)]
struct Cursor {
    /// Counts batches: each goes to the next of the queue's connections.
    turn: u32,
    /// The connection with requests of the current batch that have not been flushed.
    open: Option<Arc<Connection>>,
}

/// A connection being watched, dead or alive.
type Watched = KBox<Watch<Connection>>;

/// The set of connections. Its size is fixed when the session starts.
#[pin_data]
pub(crate) struct Connections {
    session: Arc<Session>,
    spread: Spread,
    places: PinnedSlice<SpinLock<Arc<Connection>>>,
    cursors: PinnedSlice<SpinLock<Cursor>>,
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
        let cursors = PinnedSlice::new(usize::try_from(hctxs)?, || {
            new_spinlock!(Cursor::default(), "rnbd::Cursor")
        })?;
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
            this.watch(&mut this.keep.lock(), connection)
                .inspect_err(|_| this.end())?;
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
        let (watch, _) = Watch::new(connection.socket().clone(), connection.clone())?;
        keep.push(watch, GFP_KERNEL)?;
        // What came before the watch brings no wake-up.
        connection.kick();
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

    fn at(&self, position: usize) -> Option<Arc<Connection>> {
        self.places.get(position).map(|place| place.lock().clone())
    }

    /// The connection with this number, if it is still in its place.
    pub(crate) fn find(&self, id: ConnectionId) -> Option<Arc<Connection>> {
        (0..self.places.len())
            .filter_map(|position| self.at(position))
            .find(|connection| connection.id() == id)
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
    ) -> Result<(), Rejected> {
        let mut request = match self.enqueue(hctx, request, last) {
            Ok(()) => return Ok(()),
            Err(request) => request,
        };
        loop {
            match self.session.park(request) {
                Parking::Parked => return Ok(()),
                Parking::Refused(request) => {
                    session_err!(self.session, "no connection left, failing a request");
                    return Err(request.reject(Status::IoError));
                }
                Parking::Retry(again) => request = again,
            }
            match self.enqueue(hctx, request, last) {
                Ok(()) => return Ok(()),
                Err(again) => request = again,
            }
        }
    }

    fn enqueue(&self, hctx: u32, request: Idle<Device>, last: bool) -> Result<(), Idle<Device>> {
        let Some(cursor) = usize::try_from(hctx)
            .ok()
            .and_then(|hctx| self.cursors.get(hctx))
        else {
            return Err(request);
        };
        let (result, left_open, current) = {
            let mut cursor = cursor.lock();
            let first = self.spread.nth(hctx, cursor.turn).unwrap_or(0);
            let (result, taken) = self.enqueue_at(first, request);
            if last {
                cursor.turn = cursor.turn.wrapping_add(1);
                (result, cursor.open.take(), taken)
            } else if let Some(taken) = taken {
                let before = cursor.open.replace(taken.clone());
                (
                    result,
                    before.filter(|before| !Arc::ptr_eq(before, &taken)),
                    None,
                )
            } else {
                (result, None, None)
            }
        };
        if let Some(connection) = left_open {
            connection.flush();
        }
        if let Some(connection) = current {
            connection.flush();
        }
        result
    }

    /// Queues the request at a place, or at another one if the connection there takes none.
    fn enqueue_at(
        &self,
        first: u32,
        request: Idle<Device>,
    ) -> (Result<(), Idle<Device>>, Option<Arc<Connection>>) {
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        let request = match self.at(first) {
            Some(connection) => match connection.enqueue(request) {
                Ok(()) => return (Ok(()), Some(connection)),
                Err(request) => request,
            },
            None => request,
        };
        let is_live = |position| self.at(position).is_some_and(|other| other.is_alive());
        let fallback = find_fallback(first, None, self.places.len(), is_live)
            .and_then(|position| self.at(position));
        match fallback {
            Some(connection) => match connection.enqueue(request) {
                Ok(()) => (Ok(()), Some(connection)),
                Err(request) => (Err(request), None),
            },
            None => (Err(request), None),
        }
    }

    /// Sends what is queued for a hardware queue.
    pub(crate) fn commit(&self, hctx: u32) {
        let open = usize::try_from(hctx)
            .ok()
            .and_then(|hctx| self.cursors.get(hctx))
            .and_then(|cursor| cursor.lock().open.take());
        if let Some(connection) = open {
            connection.flush();
        }
    }

    /// Looks for connections whose peers have gone without being noticed yet.
    pub(crate) fn notice_dead(&self) {
        for connection in (0..self.places.len()).filter_map(|position| self.at(position)) {
            if connection.is_alive() && connection.socket().events().is_hang_up() {
                connection.kill(Death::EndOfStream);
            }
        }
    }

    /// Whether a live connection uses this socket.
    pub(crate) fn uses(&self, candidate: &Candidate) -> bool {
        (0..self.places.len())
            .filter_map(|position| self.at(position))
            .any(|connection| connection.is_alive() && connection.socket().is(candidate))
    }

    /// Puts a new connection over `candidate` in the place of the first dead one. Returns false if
    /// none is dead; the socket is then dropped.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(crate) fn replace_dead(&self, candidate: Candidate) -> Result<bool> {
        let mut keep = self.keep.lock();
        let dead = (0..self.places.len()).find(|position| {
            self.at(*position)
                .is_some_and(|connection| !connection.is_alive())
        });
        let Some((dead, place)) = dead.and_then(|dead| Some((dead, self.places.get(dead)?))) else {
            return Ok(false);
        };
        let connection = Self::connect(&self.session, u32::try_from(dead)?, candidate)?;
        let (watch, _) = Watch::new(connection.socket().clone(), connection.clone())?;
        self.forget_those_over(&mut keep);
        keep.push(watch, GFP_KERNEL)?;
        let mut before = None;
        self.session.connection_up(|id| {
            connection.set_id(id);
            before = Some(core::mem::replace(&mut *place.lock(), connection.clone()));
        });
        connection.kick();
        drop(before);
        pr_info!(
            "block nbd{}: connection {} is back\n",
            self.session.index,
            dead
        );
        Ok(true)
    }

    /// Lets go of the dead connections for whose peers nothing waits any more.
    fn forget_those_over(&self, keep: &mut KVec<Watched>) {
        keep.retain(|watch| {
            let connection = watch.watcher().clone();
            if connection.is_alive() || !connection.is_over() {
                return true;
            }
            connection.retire();
            false
        });
    }

    /// Announces the end on every connection. Does not wait for anybody.
    pub(crate) fn say_goodbye(&self) {
        self.session.begin_disconnect();
        for connection in (0..self.places.len()).filter_map(|position| self.at(position)) {
            connection.say_goodbye();
        }
    }

    /// Waits until the peers have taken the DISC message or a second has passed.
    pub(crate) fn wait_for_goodbye(&self) {
        let all_said = || {
            (0..self.places.len())
                .filter_map(|position| self.at(position))
                .all(|connection| connection.has_said_goodbye())
        };
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
        for connection in (0..self.places.len()).filter_map(|position| self.at(position)) {
            connection.kill(Death::Ended);
        }
        let keep = core::mem::take(&mut *self.keep.lock());
        for watch in keep {
            let connection = watch.watcher().clone();
            connection.kill(Death::Ended);
            drop(watch);
            connection.retire();
        }
        for cursor in self.cursors.iter() {
            let open = cursor.lock().open.take();
            drop(open);
        }
    }
}
