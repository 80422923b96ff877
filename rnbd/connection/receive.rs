// SPDX-License-Identifier: GPL-2.0

//! Receiving on a connection: the I/O work's loop around the [`Rx`] machine.
//!
//! Only the I/O work receives, so replies are handled in the order in which they come. The mutex around
//! [`Receiver`] is never contended except at the very end, when [`Connection::retire`] looks for a
//! request that was left behind.

#![forbid(unsafe_code)]

use kernel::{
    alloc::Flags,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

use super::{
    super::{
        device::Device,
        kapi::{
            gather::{
                Destination,
                Table, //
            },
            request::{
                Started,
                Status,
                Tag, //
            },
            socket::Received,
            trace, //
        },
        proto::{
            Command,
            Cookie,
            Reply, //
        },
        request::{
            command,
            Claim,
            Mismatch, //
        },
        session::session_err,
        tally::Tally, //
    },
    ending::ENDED_TOGETHER,
    rx::{
        Rx,
        RxFault,
        Step, //
    },
    Connection,
    Death,
    Life,
    Role, //
};

/// How many steps one turn makes before other work gets its turn: two or three for a reply.
const STEPS_PER_TURN: u32 = 256;

/// How much of what a peer sends after its connection was given up is read, waiting for its close.
const DISCARD_MAX_BYTES: u32 = 64 << 20;

/// How much of it at a time.
const DISCARD_BYTES: usize = 512;

/// A read whose payload is arriving.
struct Incoming {
    cookie: Cookie,
    request: Started<Device>,
}

/// The receiving side's state.
pub(super) struct Receiver {
    rx: Rx<Incoming>,
    /// The pieces of one receive.
    table: Table,
    /// Requests that are over and have not been ended.
    pub(super) over: KVec<(Started<Device>, Status)>,
    /// What was answered.
    pub(super) tally: Tally,
    /// The last receive left nothing in the socket.
    is_all: bool,
    /// How much more is read and dropped.
    discard_left_bytes: u32,
}

impl Receiver {
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(flags: Flags) -> Result<KBox<Self>> {
        let receiver = Self {
            rx: Rx::new(),
            table: Table::new(flags)?,
            over: KVec::with_capacity(ENDED_TOGETHER, flags)?,
            tally: Tally::default(),
            is_all: false,
            discard_left_bytes: DISCARD_MAX_BYTES,
        };
        Ok(KBox::new(receiver, flags)?)
    }
}

/// How the receiver goes on.
#[derive(PartialEq, Eq)]
enum Next {
    /// Look for more at once.
    Again,
    /// Wait for an event.
    Wait,
}

impl Connection {
    /// Receives what is there, and so notices that the peer has gone. Returns whether there may be more.
    pub(crate) fn receive(self: &Arc<Self>) -> bool {
        let mut place = self.receiver.lock();
        let Some(receiver) = self.receiver_in(&mut place) else {
            return false;
        };
        // Whatever came since brought the wake-up that has led here.
        receiver.is_all = false;
        let mut next = Next::Again;
        for _ in 0..STEPS_PER_TURN {
            next = match self.dead.load(Relaxed) {
                true => self.discard(receiver),
                false => self.go_on(receiver),
            };
            if next == Next::Wait {
                break;
            }
        }
        self.end_over(receiver);
        next == Next::Again
    }

    /// One step of the machine.
    fn go_on(self: &Arc<Self>, receiver: &mut Receiver) -> Next {
        let Receiver { rx, table, .. } = receiver;
        match rx.step() {
            Ok(Step::Reply(reply)) => return self.settle(receiver, reply),
            Ok(Step::Received(incoming)) if incoming.request.is_end_lost() => {
                self.lose_reply(incoming.cookie, incoming.request);
            }
            Ok(Step::Received(incoming)) => {
                self.session.slots.release(tag(incoming.cookie));
                trace::payload_received(&incoming.request, incoming.cookie.to_u64());
                self.keep_over(receiver, incoming.request, Status::Ok);
            }
            Ok(Step::Buffered) => self.copy_buffered(rx, table),
            Ok(Step::More) if receiver.is_all => return Next::Wait,
            Ok(Step::More) => return self.receive_once(receiver),
            Err(fault) => self.kill_for(fault),
        }
        Next::Again
    }

    /// Ends the request whose payload was arriving on a connection that is dead and at rest.
    pub(super) fn abandon_receive(&self) {
        if let Some(receiver) = self.receiver.lock().as_deref_mut() {
            self.abandon(&mut receiver.rx);
        }
    }

    fn abandon(&self, rx: &mut Rx<Incoming>) {
        if let Some(incoming) = rx.take() {
            self.session.slots.release(tag(incoming.cookie));
            self.hand_on_at_once(incoming.request);
        }
    }

    /// One receive.
    fn receive_once(self: &Arc<Self>, receiver: &mut Receiver) -> Next {
        let Receiver { rx, table, .. } = receiver;
        let result = match self.receive_wanted(rx, table) {
            Some(result) => result,
            None => {
                self.kill(Death::Protocol("nothing can follow"));
                return Next::Again;
            }
        };
        let received = match result {
            Ok(Received { bytes: 0, .. }) => {
                if !rx.at_message_boundary() {
                    let position = self.position();
                    session_err!(
                        self.session,
                        "connection {position}: the stream ends in the middle of a reply"
                    );
                }
                self.kill(Death::EndOfStream);
                return Next::Again;
            }
            Ok(received) => received,
            Err(error) if error == EAGAIN => return Next::Wait,
            Err(error) if error == EINTR || error == ERESTARTSYS => return Next::Again,
            Err(error) => {
                self.kill(Death::Broken(error));
                return Next::Again;
            }
        };
        if let Err(fault) = rx.advance(received.bytes) {
            self.kill_for(fault);
        }
        receiver.is_all = received.is_all;
        Next::Again
    }

    /// Receives what the machine wants: the rest of a payload, and what follows it; [`None`] if it wants
    /// nothing.
    fn receive_wanted(&self, rx: &mut Rx<Incoming>, table: &mut Table) -> Option<Result<Received>> {
        let want = rx.want()?;
        let mut destination = Destination::new(table);
        if let Some(payload) = want.payload {
            let request = &mut payload.request.request;
            let taken_bytes =
                destination.push_payload(request, payload.offset_bytes, payload.length_bytes);
            if taken_bytes == 0 {
                return Some(Err(EINVAL));
            }
            if taken_bytes < payload.length_bytes {
                return Some(self.socket().receive(&destination));
            }
        }
        // Behind a payload there may be no room for more pieces; then nothing but the payload is received.
        if destination.push_bytes(want.buffer) == 0 && destination.is_empty() {
            return Some(Err(EINVAL));
        }
        Some(self.socket().receive(&destination))
    }

    /// Copies payload that was received ahead of time to where it belongs.
    fn copy_buffered(self: &Arc<Self>, rx: &mut Rx<Incoming>, table: &mut Table) {
        let Some((payload, bytes)) = rx.buffered_payload() else {
            return;
        };
        let request = &mut payload.request.request;
        let mut destination = Destination::new(table);
        destination.push_payload(request, payload.offset_bytes, payload.length_bytes);
        match destination.fill(bytes) {
            0 => self.kill(Death::Broken(EFAULT)),
            copied_bytes => {
                if let Err(fault) = rx.take_buffered(copied_bytes) {
                    self.kill_for(fault);
                }
            }
        }
    }

    /// Ends the connection for a fault in the stream.
    fn kill_for(self: &Arc<Self>, fault: RxFault) {
        match fault {
            RxFault::BadMagic(magic) => {
                let position = self.position();
                session_err!(
                    self.session,
                    "connection {position}: a reply begins with {magic:#x}"
                );
                self.kill(Death::Protocol("wrong magic"));
            }
            RxFault::Overrun => self.kill(Death::Protocol("more bytes than asked for")),
        }
    }

    /// Finds the request that a reply is for, and ends it or goes on to its payload.
    fn settle(self: &Arc<Self>, receiver: &mut Receiver, reply: Reply) -> Next {
        let has_payload = |request: &Started<Device>| {
            reply.error == 0
                && command(request.operation()).is_some_and(Command::receives_payload)
                && request.length_bytes() > 0
        };
        let mut is_lost = false;
        let claim = self
            .session
            .slots
            .claim(self.id(), reply.cookie, |request| {
                let has_payload = has_payload(request);
                is_lost = !has_payload && request.is_end_lost();
                has_payload || is_lost
            });
        let request = match claim {
            Claim::Taken(request) => request,
            Claim::StillSending => return self.wait_for_sent(reply),
            Claim::Mismatch(mismatch) => {
                self.kill(Death::Protocol(describe(mismatch)));
                return Next::Again;
            }
        };
        trace::header_received(&request, reply.cookie.to_u64());
        if has_payload(&request) {
            self.expect_payload(&mut receiver.rx, reply, request);
        } else if is_lost {
            receiver.rx.finish_reply();
            self.lose_reply(reply.cookie, request);
        } else {
            receiver.rx.finish_reply();
            let status = self.verdict(&request, reply.error);
            trace::payload_received(&request, reply.cookie.to_u64());
            self.keep_over(receiver, request, status);
        }
        Next::Again
    }

    fn expect_payload(
        self: &Arc<Self>,
        rx: &mut Rx<Incoming>,
        reply: Reply,
        request: Started<Device>,
    ) {
        let length_bytes = request.length_bytes();
        let cookie = reply.cookie;
        if let Err(incoming) = rx.expect_payload(Incoming { cookie, request }, length_bytes) {
            // Only without a pending reply, and one is pending.
            self.session.slots.release(tag(incoming.cookie));
            self.hand_on_at_once(incoming.request);
        }
    }

    /// Fault injection: the request goes on waiting, as if no reply had come.
    fn lose_reply(self: &Arc<Self>, cookie: Cookie, request: Started<Device>) {
        let (tag, id) = (tag(cookie), request.id());
        self.session.slots.unclaim(tag, request);
        // Who drains the dead connection has not seen it while it was held.
        if self.dead.load(Relaxed) {
            if let Some(request) = self.session.slots.take_sent(tag, id, self.id()) {
                self.hand_on(request);
            }
        }
    }

    /// A reply has come whose request the sender still holds. If a send is running it may have put the
    /// last byte in already: wait for it to say so. If none is, bytes are missing.
    fn wait_for_sent(self: &Arc<Self>, reply: Reply) -> Next {
        {
            let mut state = self.state.lock();
            if matches!(state.role, Role::Out) {
                state.reply_waits = true;
                return Next::Wait;
            }
        }
        if self.session.slots.is_sending(self.id(), reply.cookie) {
            self.kill(Death::Protocol(describe(Mismatch::TooEarly)));
        }
        Next::Again
    }

    /// Reads on after the death until the peer closes.
    fn discard(self: &Arc<Self>, receiver: &mut Receiver) -> Next {
        self.abandon(&mut receiver.rx);
        if self.state.lock().life != Life::Closing {
            return Next::Wait;
        }
        let mut room = [0; DISCARD_BYTES];
        match self.socket().receive_bytes(&mut room) {
            Ok(Received { bytes: 0, .. }) => self.kill(Death::EndOfStream),
            Ok(Received { bytes, .. }) => {
                let received_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                receiver.discard_left_bytes =
                    receiver.discard_left_bytes.saturating_sub(received_bytes);
                if receiver.discard_left_bytes == 0 {
                    self.abandon_peer();
                }
            }
            Err(error) if error == EAGAIN => return Next::Wait,
            Err(error) if error == EINTR || error == ERESTARTSYS => (),
            Err(_) => self.kill(Death::EndOfStream),
        }
        Next::Again
    }
}

fn describe(mismatch: Mismatch) -> &'static str {
    match mismatch {
        Mismatch::UnknownTag => "a reply with an impossible cookie",
        Mismatch::NotInFlight => "a reply to nothing in flight",
        Mismatch::WrongConnection => "a reply to a request of another connection",
        Mismatch::TooEarly => "a reply to a request not sent yet",
    }
}

/// The slot that a cookie names.
fn tag(cookie: Cookie) -> Tag {
    Tag {
        hctx: cookie.hctx,
        tag: cookie.tag,
    }
}
