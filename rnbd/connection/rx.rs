// SPDX-License-Identifier: GPL-2.0
//! The receiving half of a connection as a resumable state machine: it owns the place in the reply
//! stream, what was received of it ahead of time, and the request whose payload is arriving, and belongs
//! to the one who receives.
//!
//! ```text
//! header --16 bytes--> pending --finish_reply--> header
//!   |                     |
//!   | bad magic           +--expect_payload--> payload --all bytes--> header
//!   v                                             |
//! broken <------------------------- take ---------+
//! ```
//!
//! A receive may stop at any byte, and may go on behind the payload that it was made for: there is a
//! buffer for what follows. As long as the last reply had payload, it takes no more than the next header,
//! so that the next payload goes straight to its request; otherwise it takes as many headers as it can.
//! Payload that has come into the buffer all the same is handed out by [`Rx::buffered_payload`].
//!
//! The machine does not know which replies are genuine: the caller looks the cookie up while the reply
//! is pending and says what follows. There is no way back from broken, as nothing in the stream can be
//! trusted any more.

#![forbid(unsafe_code)]

use super::super::proto::{
    BadMagic,
    Reply,
    REPLY_BYTES, //
};

/// How much is received ahead of time at most.
pub(crate) const BUFFER_BYTES: usize = 32 * REPLY_BYTES;

/// Where the next bytes of the stream belong.
#[derive(Debug)]
pub(crate) struct Want<'a, R> {
    /// First, into the pages of a request.
    pub(crate) payload: Option<Payload<'a, R>>,
    /// Then here; never empty.
    pub(crate) buffer: &'a mut [u8],
}

/// The part of a payload that has not come.
#[derive(Debug)]
pub(crate) struct Payload<'a, R> {
    /// Whose payload it is.
    pub(crate) request: &'a mut R,
    /// How much of the payload is already there.
    pub(crate) offset_bytes: u32,
    /// How much of it is still to come.
    pub(crate) length_bytes: u32,
}

/// What the bytes received so far lead to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<R> {
    /// Nothing yet: more bytes are wanted.
    More,
    /// A reply waits for [`Rx::finish_reply`] or [`Rx::expect_payload`].
    Reply(Reply),
    /// Payload is in the buffer, see [`Rx::buffered_payload`].
    Buffered,
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
    /// A reply header.
    Header,
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
/// - `start <= end <= BUFFER_BYTES`; what is between them was received and not used yet.
/// - In a payload `received` is at most `payload_bytes`.
pub(crate) struct Rx<R> {
    buffer: [u8; BUFFER_BYTES],
    start: usize,
    end: usize,
    /// The last reply had payload.
    expects_payload: bool,
    stage: Stage<R>,
}

impl<R> Rx<R> {
    /// Makes a machine that stands at the start of a stream.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Nothing was received.
        Self {
            buffer: [0; BUFFER_BYTES],
            start: 0,
            end: 0,
            expects_payload: false,
            stage: Stage::Header,
        }
    }

    /// Says what to do next.
    ///
    /// # Errors
    ///
    /// [`RxFault::BadMagic`] if a header is complete and is none; the machine is broken then.
    pub(crate) fn step(&mut self) -> Result<Step<R>, RxFault> {
        match &self.stage {
            Stage::Header => self.decode(),
            Stage::Pending(reply) => Ok(Step::Reply(*reply)),
            Stage::Payload {
                payload_bytes,
                received,
                ..
            } => {
                if received >= payload_bytes {
                    return Ok(self.hand_over());
                }
                if self.start < self.end {
                    return Ok(Step::Buffered);
                }
                Ok(Step::More)
            }
            Stage::Broken => Ok(Step::More),
        }
    }

    /// Returns where the next bytes belong, or [`None`] unless [`Step::More`] has just been said, and
    /// after a fault.
    pub(crate) fn want(&mut self) -> Option<Want<'_, R>> {
        let (length_bytes, room_bytes) = self.wanted()?;
        let kept_bytes = self.end.saturating_sub(self.start);
        if self.start != 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            // INVARIANT: The same bytes, further to the front.
            (self.start, self.end) = (0, kept_bytes);
        }
        let payload = match &mut self.stage {
            Stage::Payload {
                request, received, ..
            } => Some(Payload {
                request,
                offset_bytes: *received,
                length_bytes,
            }),
            _ => None,
        };
        let end = kept_bytes.saturating_add(room_bytes);
        let buffer = self.buffer.get_mut(kept_bytes..end)?;
        Some(Want { payload, buffer })
    }

    /// How many bytes of a payload are wanted, and how many behind it; [`None`] if there is something
    /// else to do first.
    fn wanted(&self) -> Option<(u32, usize)> {
        let kept_bytes = self.end.saturating_sub(self.start);
        let ahead_bytes = if self.expects_payload {
            REPLY_BYTES
        } else {
            BUFFER_BYTES
        };
        let length_bytes = match &self.stage {
            Stage::Header if kept_bytes < REPLY_BYTES => 0,
            Stage::Payload {
                payload_bytes,
                received,
                ..
            } if kept_bytes == 0 && received < payload_bytes => {
                payload_bytes.saturating_sub(*received)
            }
            _ => return None,
        };
        Some((length_bytes, ahead_bytes.saturating_sub(kept_bytes)))
    }

    /// Counts bytes that were put where [`Self::want`] said; [`Self::step`] says what they lead to.
    ///
    /// # Errors
    ///
    /// [`RxFault::Overrun`] if fewer bytes were wanted; nothing is counted then.
    pub(crate) fn advance(&mut self, received_bytes: usize) -> Result<(), RxFault> {
        let Some((payload_bytes, room_bytes)) = self.wanted() else {
            return match received_bytes {
                0 => Ok(()),
                _ => Err(RxFault::Overrun),
            };
        };
        let payload_bytes = usize::try_from(payload_bytes).unwrap_or(usize::MAX);
        let buffered_bytes = received_bytes.saturating_sub(payload_bytes);
        if buffered_bytes > room_bytes {
            return Err(RxFault::Overrun);
        }
        let paid_bytes = u32::try_from(received_bytes.min(payload_bytes)).unwrap_or(u32::MAX);
        // INVARIANT: No more than what was left of either.
        self.end = self.end.saturating_add(buffered_bytes);
        self.count_payload(paid_bytes);
        Ok(())
    }

    /// Returns payload that has come into the buffer, and where it belongs; [`Self::take_buffered`]
    /// counts what was copied.
    pub(crate) fn buffered_payload(&mut self) -> Option<(Payload<'_, R>, &[u8])> {
        let Stage::Payload {
            request,
            payload_bytes,
            received,
        } = &mut self.stage
        else {
            return None;
        };
        let length_bytes = payload_bytes.saturating_sub(*received);
        let bytes = self.buffer.get(self.start..self.end)?;
        let wanted_bytes = usize::try_from(length_bytes).unwrap_or(usize::MAX);
        let bytes = bytes.get(..wanted_bytes.min(bytes.len()))?;
        let payload = Payload {
            request,
            offset_bytes: *received,
            length_bytes,
        };
        Some((payload, bytes))
    }

    /// Counts bytes of [`Self::buffered_payload`] that were copied to where they belong.
    ///
    /// # Errors
    ///
    /// [`RxFault::Overrun`] if there were fewer; nothing is counted then.
    pub(crate) fn take_buffered(&mut self, copied_bytes: usize) -> Result<(), RxFault> {
        let there_bytes = self.buffered_payload().map_or(0, |(_, bytes)| bytes.len());
        if copied_bytes > there_bytes {
            return Err(RxFault::Overrun);
        }
        // INVARIANT: No more than what was there, which is no more than what the payload lacks.
        self.start = self.start.saturating_add(copied_bytes);
        self.count_payload(u32::try_from(copied_bytes).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Decides that the pending reply is all there is; does nothing if none is pending.
    pub(crate) fn finish_reply(&mut self) {
        if matches!(self.stage, Stage::Pending(_)) {
            self.expects_payload = false;
            self.stage = Stage::Header;
        }
    }

    /// Decides that payload for `request` follows the pending reply.
    ///
    /// # Errors
    ///
    /// Gives the request back if no reply is pending.
    pub(crate) fn expect_payload(&mut self, request: R, payload_bytes: u32) -> Result<(), R> {
        if !matches!(self.stage, Stage::Pending(_)) {
            return Err(request);
        }
        self.expects_payload = true;
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
        matches!(self.stage, Stage::Header) && self.start == self.end
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

    /// Counts bytes of the payload that is arriving; no more than it lacks.
    fn count_payload(&mut self, bytes: u32) {
        if let Stage::Payload { received, .. } = &mut self.stage {
            *received = received.saturating_add(bytes);
        }
    }

    /// Decodes the next header if it is complete.
    fn decode(&mut self) -> Result<Step<R>, RxFault> {
        let there = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(header) = there.first_chunk::<REPLY_BYTES>() else {
            return Ok(Step::More);
        };
        match Reply::decode(header) {
            Ok(reply) => {
                // INVARIANT: A whole header was there.
                self.start = self.start.saturating_add(REPLY_BYTES);
                self.stage = Stage::Pending(reply);
                Ok(Step::Reply(reply))
            }
            Err(BadMagic(magic)) => {
                self.stage = Stage::Broken;
                Err(RxFault::BadMagic(magic))
            }
        }
    }

    /// Hands over the request whose payload is complete.
    fn hand_over(&mut self) -> Step<R> {
        match core::mem::replace(&mut self.stage, Stage::Header) {
            Stage::Payload { request, .. } => Step::Received(request),
            other => {
                self.stage = other;
                Step::More
            }
        }
    }
}
