// SPDX-License-Identifier: GPL-2.0

//! Receiving on a connection: the I/O work's loop around the [`Rx`] machine.
//!
//! Only the I/O work receives, so replies are handled in the order in which they come. The mutex around
//! [`Receiver`] is never contended except at the very end, when [`Connection::retire`] looks for a
//! request that was left behind.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

use super::{
    super::{
        device::Device,
        kapi::request::{
            Started,
            Status,
            Tag, //
        },
        proto::{
            outcome,
            Command,
            Outcome,
            Reply, //
        },
        request::{
            command,
            Claim,
            Mismatch, //
        },
        session::session_err, //
    },
    rx::{
        Rx,
        RxFault,
        Step,
        Want, //
    },
    Connection,
    Death,
    Life,
    Role, //
};

/// How many receives one turn makes before other work gets its turn.
const RECEIVES_PER_TURN: u32 = 128;

/// How much of what a peer sends after its connection was given up is read, waiting for its close.
const DISCARD_MAX_BYTES: u32 = 64 << 20;

/// How much of it at a time.
const DISCARD_BYTES: usize = 512;

/// A read whose payload is arriving.
struct Incoming {
    tag: Tag,
    request: Started<Device>,
}

/// The receiving side's state.
pub(super) struct Receiver {
    rx: Rx<Incoming>,
    /// How much more is read and dropped.
    discard_left_bytes: u32,
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self {
            rx: Rx::new(),
            discard_left_bytes: DISCARD_MAX_BYTES,
        }
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
        let mut receiver = self.receiver.lock();
        for _ in 0..RECEIVES_PER_TURN {
            let next = if self.dead.load(Relaxed) {
                self.discard(&mut receiver)
            } else {
                match receiver.rx.pending() {
                    Some(reply) => self.settle(&mut receiver.rx, reply),
                    None => self.receive_once(&mut receiver.rx),
                }
            };
            if next == Next::Wait {
                return false;
            }
        }
        true
    }

    /// Ends the request whose payload was arriving on a connection that is dead and at rest.
    pub(super) fn abandon_receive(&self) {
        self.abandon(&mut self.receiver.lock().rx);
    }

    fn abandon(&self, rx: &mut Rx<Incoming>) {
        if let Some(incoming) = rx.take() {
            self.session.slots.release(incoming.tag);
            self.session.hand_on(incoming.request);
        }
    }

    /// One receive.
    fn receive_once(self: &Arc<Self>, rx: &mut Rx<Incoming>) -> Next {
        let result = match rx.want() {
            Some(Want::Header(room)) => self.socket.receive(room),
            Some(Want::Payload {
                request,
                offset_bytes,
                length_bytes,
            }) => self
                .socket
                .receive_payload(&mut request.request, offset_bytes, length_bytes),
            None => {
                self.kill(Death::Protocol("nothing can follow"));
                return Next::Again;
            }
        };
        let received_bytes = match result {
            Ok(0) => {
                if !rx.at_message_boundary() {
                    session_err!(self.session, "the stream ends in the middle of a reply");
                }
                self.kill(Death::EndOfStream);
                return Next::Again;
            }
            Ok(received_bytes) => received_bytes,
            Err(error) if error == EAGAIN => return Next::Wait,
            Err(error) if error == EINTR || error == ERESTARTSYS => return Next::Again,
            Err(error) => {
                self.kill(Death::Broken(error));
                return Next::Again;
            }
        };
        match rx.advance(received_bytes) {
            Ok(Step::More | Step::Reply(_)) => (),
            Ok(Step::Received(incoming)) => {
                self.session.slots.release(incoming.tag);
                incoming.request.complete(Status::Ok);
            }
            Err(RxFault::BadMagic(magic)) => {
                session_err!(self.session, "wrong magic ({:#x})", magic);
                self.kill(Death::Protocol("wrong magic"));
            }
            Err(RxFault::Overrun) => self.kill(Death::Protocol("more bytes than asked for")),
        }
        Next::Again
    }

    /// Finds the request that a reply is for, and ends it or goes on to its payload.
    fn settle(self: &Arc<Self>, rx: &mut Rx<Incoming>, reply: Reply) -> Next {
        let has_payload = |request: &Started<Device>| {
            reply.error == 0
                && command(request.operation()).is_some_and(Command::receives_payload)
                && request.length_bytes() > 0
        };
        let claim = self
            .session
            .slots
            .claim(self.id(), reply.cookie, has_payload);
        let request = match claim {
            Claim::Taken(request) => request,
            Claim::StillSending => return self.wait_for_sent(reply),
            Claim::Mismatch(mismatch) => {
                self.kill(Death::Protocol(describe(mismatch)));
                return Next::Again;
            }
        };
        if has_payload(&request) {
            self.expect_payload(rx, reply, request);
        } else {
            rx.finish_reply();
            self.finish(request, reply.error);
        }
        Next::Again
    }

    fn expect_payload(
        self: &Arc<Self>,
        rx: &mut Rx<Incoming>,
        reply: Reply,
        request: Started<Device>,
    ) {
        let tag = Tag {
            hctx: reply.cookie.hctx,
            tag: reply.cookie.tag,
        };
        let length_bytes = request.length_bytes();
        if let Err(incoming) = rx.expect_payload(Incoming { tag, request }, length_bytes) {
            // Only without a pending reply, and one is pending.
            self.session.slots.release(incoming.tag);
            self.session.hand_on(incoming.request);
        }
    }

    /// Ends a request with the server's verdict.
    fn finish(&self, request: Started<Device>, error: u32) {
        let outcome = match command(request.operation()) {
            Some(command) => outcome(command, error),
            None => Outcome::IoError,
        };
        if outcome != Outcome::Ok {
            session_err!(
                self.session,
                "the server answered {:?} at byte {} with error {}",
                command(request.operation()).unwrap_or(Command::Disconnect),
                request.offset_bytes(),
                error
            );
        }
        request.complete(status_of(outcome));
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
        match self.socket.receive(&mut room) {
            Ok(0) => self.kill(Death::EndOfStream),
            Ok(received_bytes) => {
                let received_bytes = u32::try_from(received_bytes).unwrap_or(u32::MAX);
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

/// What a server's verdict means to the block layer.
fn status_of(outcome: Outcome) -> Status {
    match outcome {
        Outcome::Ok => Status::Ok,
        Outcome::IoError => Status::IoError,
        Outcome::NoSpace => Status::NoSpace,
        Outcome::NotSupported => Status::NotSupported,
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
