// SPDX-License-Identifier: GPL-2.0

//! Sending on a connection: the sender's loop around the [`Tx`] machine.
//!
//! Runs in whoever has taken the right to send: a submitter, or the I/O work. It takes the
//! connection's state lock between sends, never over one.

#![forbid(unsafe_code)]

use kernel::{
    alloc::Flags,
    prelude::*,
    sync::{
        atomic::{
            Full,
            Relaxed, //
        },
        Arc, //
    }, //
};

use super::{
    super::{
        kapi::{
            gather::{
                Source,
                Table, //
            },
            scratch::Scratch,
            trace, //
        },
        request::Outgoing, //
    },
    goodbye::{
        disc,
        Goodbye, //
    },
    tx::{
        Part,
        Tx,
        HEADERS_BYTES, //
    },
    Connection,
    Death,
    Life,
    Role,
    State, //
};

/// The least payload that is spliced: for less than a page a copy costs no more than a reference.
pub(super) const SPLICE_MIN_BYTES: u32 = 4096;

/// How many sends one turn makes before the I/O work takes over.
const SENDS_PER_TURN: u32 = 64;

/// A send that stops for want of memory brings no wake-up, and one that stops for want of room may
/// bring none: so it is tried again after a time that doubles as long as nothing can be sent.
pub(super) const BACK_OFF_MIN_MS: u32 = 4;
pub(super) const BACK_OFF_MAX_MS: u32 = 1000;

/// The right to send, and what it takes.
pub(super) struct Sender {
    pub(super) tx: Tx<Item>,
    /// The pieces of one send.
    table: Table,
    /// Headers of spliced payloads.
    scratch: Scratch,
}

impl Sender {
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(flags: Flags) -> Result<KBox<Self>> {
        let table = Table::new(flags)?;
        let tx = Tx::new();
        let scratch = Scratch::default();
        Ok(KBox::new(Self { tx, table, scratch }, flags)?)
    }
}

/// What goes through the [`Tx`] machine.
pub(super) enum Item {
    /// A request, held by the sender until it is sent.
    Request(Outgoing),
    /// DISC.
    Goodbye,
}

/// How a turn goes on.
enum Next {
    /// There is something in the machine; `more` is queued behind it.
    Send { more: bool },
    /// Nothing to do; the machine is back home.
    Rest,
    /// The connection has died.
    Die(KBox<Sender>),
}

/// Why the sender stops before all is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// It has had its turn.
    ForOthers,
    /// The socket takes nothing.
    Blocked,
}

/// How a send went.
enum Sent {
    /// Some bytes went out.
    Progress,
    /// The socket is full.
    Full,
    /// No memory.
    NoMemory,
    /// A signal is pending for the task, which is none of our business.
    Interrupted,
    /// The connection is broken.
    Broken(Death),
}

impl Connection {
    /// Sends until nothing is left, the socket is full, or the turn is over. The caller has taken the
    /// right to send; it is given back here.
    pub(super) fn transmit(self: &Arc<Self>, sender: KBox<Sender>) {
        let mut slot = Some(sender);
        let mut turns = SENDS_PER_TURN;
        loop {
            let more = match self.refill(&mut slot) {
                Next::Send { more } => more,
                Next::Rest => return,
                Next::Die(sender) => return self.leave_dead(sender),
            };
            let Some(sender) = slot.as_mut() else { return };
            let outcome = self.send_once(sender, more);
            self.hand_over_sent(&mut sender.tx);
            turns = turns.saturating_sub(1);
            let stop = match outcome {
                Sent::Progress if turns > 0 => None,
                // Another task's requests must not keep this one busy for ever.
                Sent::Progress => Some(Stop::ForOthers),
                // Room that comes between the attempt and this mark brings no wake-up for us, so one
                // more attempt is made with the mark set.
                Sent::Full if !self.wants_room.xchg(true, Full) => None,
                Sent::Full | Sent::NoMemory => Some(Stop::Blocked),
                Sent::Interrupted => Some(Stop::ForOthers),
                Sent::Broken(death) => {
                    self.kill(death);
                    None
                }
            };
            if stop.is_some_and(|stop| self.pause(&mut slot, stop)) {
                return;
            }
        }
    }

    /// Goes on with a send that stopped, or starts one.
    pub(super) fn resume(self: &Arc<Self>) {
        let sender = {
            let mut state = self.state.lock();
            state.blocked = false;
            if matches!(state.role, Role::Out) {
                state.again = true;
            }
            self.take_role(&mut state)
        };
        if let Some(sender) = sender {
            self.transmit(sender);
        }
    }

    /// Fills the machine from the queue, and decides how to go on.
    fn refill(self: &Arc<Self>, slot: &mut Option<KBox<Sender>>) -> Next {
        let Some(mut sender) = slot.take() else {
            return Next::Rest;
        };
        let mut state = self.state.lock();
        if core::mem::take(&mut state.reply_waits) {
            self.kick();
        }
        if state.life >= Life::Closing {
            return Next::Die(sender);
        }
        let tx = &mut sender.tx;
        if state.goodbye == Goodbye::Wanted && tx.is_idle() {
            if tx.push(Item::Goodbye, disc(), 0).is_ok() {
                state.goodbye = Goodbye::Sending;
            }
        } else if state.goodbye == Goodbye::None {
            self.fill(&mut state, tx);
        }
        if tx.is_idle() {
            state.again = false;
            state.back_off_ms = BACK_OFF_MIN_MS;
            state.role = Role::Home(sender);
            self.wants_room.store(false, Relaxed);
            return Next::Rest;
        }
        let more = !state.queue.is_empty();
        *slot = Some(sender);
        Next::Send { more }
    }

    /// Moves requests from the queue into the machine.
    fn fill(&self, state: &mut State, tx: &mut Tx<Item>) {
        while tx.has_room() {
            let Some(mut outgoing) = self.session.slots.dequeue(&mut state.queue) else {
                return;
            };
            outgoing.lingers = self.lingers(&outgoing.request);
            let payload_bytes = outgoing.payload_bytes();
            let Some(mut header) = outgoing.header() else {
                // Dispatch lets no such operation through; dropping the request fails it.
                self.session.slots.release(outgoing.tag);
                continue;
            };
            trace::send_request(&mut header, self.session.index, &outgoing.request);
            if tx
                .push(Item::Request(outgoing), header, payload_bytes)
                .is_err()
            {
                return;
            }
        }
    }

    /// One send, of as much as there is room for in the table.
    fn send_once(&self, sender: &mut Sender, more_follow: bool) -> Sent {
        let Sender { tx, table, scratch } = sender;
        let is_large = |bytes: u32| bytes >= SPLICE_MIN_BYTES;
        // The first payload decides, and one of the other kind begins another send.
        let begins_large = self.splices
            && tx
                .parts()
                .find_map(|part| payload_bytes(&part))
                .is_some_and(is_large);
        let is_spliced = begins_large && scratch.make_room(HEADERS_BYTES);
        let mut source = match is_spliced {
            true => Source::for_splicing(table, scratch),
            false => Source::new(table),
        };
        let is_whole = tx.parts().all(|part| {
            let bytes = payload_bytes(&part);
            let fits = bytes.is_none_or(|bytes| (self.splices && is_large(bytes)) == begins_large);
            fits && add(&mut source, part)
        });
        let more = more_follow || !is_whole;
        let result = match source.is_empty() {
            true if is_whole => return Sent::Progress,
            true => Err(EINVAL),
            false if is_spliced && !self.mark_spliced() => return Sent::Progress,
            false if is_spliced => self.socket().splice(&source, more),
            false => self.socket().send(&source, more),
        };
        match result {
            Ok(sent_bytes) => match tx.advance(sent_bytes) {
                Ok(()) => Sent::Progress,
                Err(_) => Sent::Broken(Death::Protocol("the socket sent more than it was given")),
            },
            Err(error) if error == EAGAIN => Sent::Full,
            // kTLS takes a lock interruptibly.
            Err(error) if error == EINTR || error == ERESTARTSYS => Sent::Interrupted,
            Err(error) if error == ENOMEM || error == ENOBUFS => Sent::NoMemory,
            Err(error) => Sent::Broken(Death::Broken(error)),
        }
    }

    /// Notes that the socket will refer to pages. Returns false if the connection has died: who kills it
    /// marks that first and looks for this afterwards, and so aborts the socket unless this is false.
    fn mark_spliced(&self) -> bool {
        if self.has_spliced.load(Relaxed) {
            return true;
        }
        self.has_spliced.xchg(true, Full);
        !self.dead.load(Relaxed)
    }

    /// Lets the replies to what was sent come in.
    fn hand_over_sent(&self, tx: &mut Tx<Item>) {
        while let Some(item) = tx.pop_sent() {
            match item {
                Item::Request(outgoing) => {
                    trace::sent(&outgoing.request, outgoing.cookie.to_u64());
                    self.session.slots.sent(outgoing);
                }
                Item::Goodbye => {
                    self.state.lock().goodbye = Goodbye::Sent;
                    self.session.changed.wake_all();
                }
            }
        }
    }

    /// Puts the machine back home, half-sent, for the I/O work to go on with. Returns false if there is a
    /// reason to go on at once.
    fn pause(self: &Arc<Self>, slot: &mut Option<KBox<Sender>>, stop: Stop) -> bool {
        let mut state = self.state.lock();
        let again = core::mem::take(&mut state.again);
        if again || state.life >= Life::Closing {
            return false;
        }
        let Some(sender) = slot.take() else {
            return true;
        };
        state.role = Role::Home(sender);
        // Only the I/O work goes on, which clears this.
        state.blocked = true;
        // Work is queued under the lock, so that it is there before the connection can retire.
        if core::mem::take(&mut state.reply_waits) || stop == Stop::ForOthers {
            self.kick();
        }
        if stop == Stop::Blocked {
            self.back_off(&mut state);
        }
        true
    }

    /// The sender has found the connection dead: ends what it holds.
    fn leave_dead(self: &Arc<Self>, sender: KBox<Sender>) {
        self.drain(sender);
        // What was sent while the others drained.
        let kept = self.drain_answerless();
        self.state.lock().role = Role::Gone;
        self.close_if_done(kept);
        self.session.changed.wake_all();
    }

    /// Hands on what is in the machine of a dead connection: as far as it was not sent to the last
    /// byte, no server can have executed it.
    pub(super) fn drain(self: &Arc<Self>, mut sender: KBox<Sender>) {
        self.hand_over_sent(&mut sender.tx);
        let mut is_begun = true;
        while let Some(item) = sender.tx.pop_unsent() {
            if let Item::Request(outgoing) = item {
                self.session.slots.release(outgoing.tag);
                // Only of the first some pages may be in the socket.
                match is_begun {
                    true => self.hand_on(outgoing.request),
                    false => self.hand_on_at_once(outgoing.request),
                }
            }
            is_begun = false;
        }
    }
}

/// How much payload a part has, if it is one.
fn payload_bytes(part: &Part<'_, Item>) -> Option<u32> {
    match part {
        Part::Headers(_) => None,
        Part::Payload { length_bytes, .. } => Some(*length_bytes),
    }
}

/// Adds a part to what is sent, and says whether all of it found room.
fn add<'a>(source: &mut Source<'a>, part: Part<'a, Item>) -> bool {
    match part {
        Part::Headers(bytes) => source.push_bytes(bytes) == bytes.len(),
        Part::Payload {
            request: Item::Request(outgoing),
            offset_bytes,
            length_bytes,
        } => source.push_payload(&outgoing.request, offset_bytes, length_bytes) == length_bytes,
        Part::Payload { .. } => false,
    }
}
