// SPDX-License-Identifier: GPL-2.0
//! The receiving half of a connection as a resumable state machine: it owns the place in the reply
//! stream and the request whose payload is arriving, and belongs to the one who receives.
//!
//! ```text
//! header --16 bytes--> pending --finish_reply--> header
//!   |                     |
//!   | bad magic           +--expect_payload--> payload --all bytes--> header
//!   v                                             |
//! broken <------------------------- take ---------+
//! ```
//!
//! A receive may stop at any byte. The machine does not know which replies are genuine: the caller
//! looks the cookie up while the reply is pending and says what follows. There is no way back from
//! broken, as nothing in the stream can be trusted any more.

#![forbid(unsafe_code)]

use super::super::proto::{
    BadMagic,
    Reply,
    REPLY_BYTES, //
};

/// Where the next bytes of the stream belong.
#[derive(Debug)]
pub(crate) enum Want<'a, R> {
    /// Into this buffer, which is what is left of a header and never empty.
    Header(&'a mut [u8]),
    /// Into the pages of a request.
    Payload {
        /// Whose payload it is.
        request: &'a mut R,
        /// How much of the payload is already there.
        offset_bytes: u32,
        /// How much of it is still to come.
        length_bytes: u32,
    },
}

/// What the bytes just received have led to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<R> {
    /// Nothing yet: more bytes are wanted.
    More,
    /// A reply is complete and waits for [`Rx::finish_reply`] or [`Rx::expect_payload`].
    Reply(Reply),
    /// The payload of this request is complete.
    Received(R),
}

/// Why the stream cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RxFault {
    /// No reply starts where one must; the value is what stood there.
    BadMagic(u32),
    /// More bytes were reported as received than were wanted; nothing was counted.
    Overrun,
}

/// Which part of the stream comes next.
enum Stage<R> {
    /// A reply header, of which this many bytes are there.
    Header { filled: usize },
    /// Whatever the caller says follows this reply.
    Pending(Reply),
    /// The payload of a request.
    Payload {
        request: R,
        payload_bytes: u32,
        received: u32,
    },
    /// Nothing: the stream is lost.
    Broken,
}

/// The receiving half of a connection.
///
/// # Invariants
///
/// - In a header `filled` is below [`REPLY_BYTES`].
/// - In a payload `received` is at most `payload_bytes`.
pub(crate) struct Rx<R> {
    header: [u8; REPLY_BYTES],
    stage: Stage<R>,
}

impl<R> Rx<R> {
    /// Makes a machine that stands at the start of a stream.
    pub(crate) const fn new() -> Self {
        // INVARIANT: No byte of a header is there.
        Self {
            header: [0; REPLY_BYTES],
            stage: Stage::Header { filled: 0 },
        }
    }

    /// Returns where the next bytes belong, or [`None`] while a reply is pending or after a fault.
    pub(crate) fn want(&mut self) -> Option<Want<'_, R>> {
        match &mut self.stage {
            Stage::Header { filled } => self.header.get_mut(*filled..).map(Want::Header),
            Stage::Payload {
                request,
                payload_bytes,
                received,
            } => Some(Want::Payload {
                request,
                offset_bytes: *received,
                length_bytes: payload_bytes.saturating_sub(*received),
            }),
            Stage::Pending(_) | Stage::Broken => None,
        }
    }

    /// Counts bytes that were put where [`Self::want`] said, and says what they have led to.
    ///
    /// # Errors
    ///
    /// - [`RxFault::BadMagic`] if a header is complete and is none; the machine is broken then.
    /// - [`RxFault::Overrun`] if fewer bytes were wanted; nothing is counted then.
    pub(crate) fn advance(&mut self, received_bytes: usize) -> Result<Step<R>, RxFault> {
        match &mut self.stage {
            Stage::Header { filled } => {
                let now = filled.saturating_add(received_bytes);
                if now < REPLY_BYTES {
                    // INVARIANT: Just checked.
                    *filled = now;
                    return Ok(Step::More);
                }
                if now > REPLY_BYTES {
                    return Err(RxFault::Overrun);
                }
                self.decode()
            }
            Stage::Payload {
                payload_bytes,
                received,
                ..
            } => {
                let more = u32::try_from(received_bytes).map_err(|_| RxFault::Overrun)?;
                let now = received.saturating_add(more);
                if more > payload_bytes.saturating_sub(*received) {
                    return Err(RxFault::Overrun);
                }
                // INVARIANT: No more than what was left.
                *received = now;
                Ok(self.hand_over())
            }
            Stage::Pending(_) | Stage::Broken if received_bytes == 0 => Ok(Step::More),
            Stage::Pending(_) | Stage::Broken => Err(RxFault::Overrun),
        }
    }

    /// Returns the reply that waits for a decision.
    pub(crate) const fn pending(&self) -> Option<Reply> {
        match self.stage {
            Stage::Pending(reply) => Some(reply),
            _ => None,
        }
    }

    /// Decides that the pending reply is all there is; does nothing if none is pending.
    pub(crate) fn finish_reply(&mut self) {
        if matches!(self.stage, Stage::Pending(_)) {
            // INVARIANT: No byte of the next header is there.
            self.stage = Stage::Header { filled: 0 };
        }
    }

    /// Decides that payload for `request` follows the pending reply.
    ///
    /// A payload of zero bytes is complete at the next [`Self::advance`], also of zero bytes.
    ///
    /// # Errors
    ///
    /// Gives the request back if no reply is pending.
    pub(crate) fn expect_payload(&mut self, request: R, payload_bytes: u32) -> Result<(), R> {
        if !matches!(self.stage, Stage::Pending(_)) {
            return Err(request);
        }
        // INVARIANT: No byte of the payload is there.
        self.stage = Stage::Payload {
            request,
            payload_bytes,
            received: 0,
        };
        Ok(())
    }

    /// Says whether the stream stands between two messages, where a peer may close it in good order.
    pub(crate) const fn at_message_boundary(&self) -> bool {
        matches!(self.stage, Stage::Header { filled: 0 })
    }

    /// Takes back the request whose payload is arriving; the machine is broken then.
    ///
    /// This is for a connection that has died. Without such a request nothing happens.
    pub(crate) fn take(&mut self) -> Option<R> {
        if !matches!(self.stage, Stage::Payload { .. }) {
            return None;
        }
        match core::mem::replace(&mut self.stage, Stage::Broken) {
            Stage::Payload { request, .. } => Some(request),
            _ => None,
        }
    }

    /// Decodes the complete header.
    fn decode(&mut self) -> Result<Step<R>, RxFault> {
        match Reply::decode(&self.header) {
            Ok(reply) => {
                self.stage = Stage::Pending(reply);
                Ok(Step::Reply(reply))
            }
            Err(BadMagic(magic)) => {
                self.stage = Stage::Broken;
                Err(RxFault::BadMagic(magic))
            }
        }
    }

    /// Hands the request over if its payload is complete.
    fn hand_over(&mut self) -> Step<R> {
        // INVARIANT: No byte of the next header is there; the payload is put back if it goes on.
        match core::mem::replace(&mut self.stage, Stage::Header { filled: 0 }) {
            Stage::Payload {
                request,
                payload_bytes,
                received,
            } if received >= payload_bytes => Step::Received(request),
            unfinished => {
                self.stage = unfinished;
                Step::More
            }
        }
    }
}
