// SPDX-License-Identifier: GPL-2.0
//! The sending half of a connection as a resumable state machine: it owns the requests on their way
//! into the socket and how many of their bytes are in it, and lives under the transmit lock of its
//! connection.
//!
//! The machine works in *runs*. A run is a row of messages, each a header and, for some, the payload
//! behind it. The headers lie side by side in one buffer, the payload stays wherever the request keeps
//! it; [`Tx::parts`] names the pieces in the order of the stream, so that a single send can carry
//! several whole messages. While the run is open, more requests may join it, also when its first bytes
//! have already been sent.
//!
//! ```text
//! empty --push--> sending --everything sent and handed back--> empty
//! ```
//!
//! A send may stop at any byte. Nothing else may enter the socket until the message is complete.
//! Every request pushed comes out exactly once, by [`Tx::pop_sent`] or by [`Tx::pop_unsent`].

#![forbid(unsafe_code)]

use super::super::proto::REQUEST_BYTES;

/// The most requests in a run.
pub(crate) const RUN: usize = 32;

/// The room for the headers of a full run.
pub(crate) const HEADERS_BYTES: usize = RUN * REQUEST_BYTES;

/// More bytes were reported as sent than the run has left; nothing was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

/// A piece of the stream.
#[derive(Debug)]
pub(crate) enum Part<'a, R> {
    /// Headers that follow each other, or the rest of them; never empty.
    Headers(&'a [u8]),
    /// The payload of a request, or the rest of it.
    Payload {
        /// Whose payload it is.
        request: &'a R,
        /// How much of the payload was already sent.
        offset_bytes: u32,
        /// How much of it is left to send; never zero.
        length_bytes: u32,
    },
}

/// The sending half of a connection.
///
/// # Invariants
///
/// - `pushed` is at most [`RUN`]; the requests at and beyond it are [`None`].
/// - `sent` is at most `pushed`, and `partial_bytes` is less than the message at `sent` has, or zero
///   if there is none.
/// - The first `handed_back` requests, at most `sent`, are [`None`], and so are the first `taken_back`
///   of those at and after `sent`; all others below `pushed` are there.
pub(crate) struct Tx<R> {
    /// The requests of the run.
    requests: [Option<R>; RUN],
    /// The headers of the run, side by side.
    headers: [u8; HEADERS_BYTES],
    /// How much payload follows each of them.
    payload_bytes: [u32; RUN],
    /// How many requests have joined the run.
    pushed: usize,
    /// How many of them are in the socket to the last byte.
    sent: usize,
    /// How many bytes of the next one are.
    partial_bytes: u64,
    /// How many requests were handed back after they were sent.
    handed_back: usize,
    /// How many were taken back unsent. If any, what is left of the run will never be sent.
    taken_back: usize,
}

impl<R> Tx<R> {
    /// Makes an empty machine.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Everything is zero or `None`.
        Self {
            requests: [const { None }; RUN],
            headers: [0; HEADERS_BYTES],
            payload_bytes: [0; RUN],
            pushed: 0,
            sent: 0,
            partial_bytes: 0,
            handed_back: 0,
            taken_back: 0,
        }
    }

    /// Says whether a request can join the run.
    pub(crate) const fn has_room(&self) -> bool {
        self.pushed < RUN && self.taken_back == 0
    }

    /// Adds a request with its encoded header and the length of the payload that follows it.
    ///
    /// # Errors
    ///
    /// Gives the request back if there is no room, see [`Self::has_room`].
    pub(crate) fn push(
        &mut self,
        request: R,
        header: [u8; REQUEST_BYTES],
        payload_bytes: u32,
    ) -> Result<(), R> {
        if !self.has_room() {
            return Err(request);
        }
        let header_room = self
            .headers
            .chunks_exact_mut(REQUEST_BYTES)
            .nth(self.pushed);
        let (Some(slot), Some(room), Some(payload)) = (
            self.requests.get_mut(self.pushed),
            header_room,
            self.payload_bytes.get_mut(self.pushed),
        ) else {
            return Err(request);
        };
        *slot = Some(request);
        room.copy_from_slice(&header);
        *payload = payload_bytes;
        // INVARIANT: There was room, so that `pushed` stays within the run.
        self.pushed = self.pushed.saturating_add(1);
        Ok(())
    }

    /// Says whether the machine holds no request at all.
    ///
    /// Requests that were sent count until [`Self::pop_sent`] hands them back.
    pub(crate) const fn is_idle(&self) -> bool {
        self.pushed == 0
    }

    /// Says whether the stream stands in the middle of a message: what the tests compare with.
    #[cfg(test)]
    pub(crate) const fn mid_message(&self) -> bool {
        self.partial_bytes != 0
    }

    /// Names what is left to send, in the order of the stream.
    pub(crate) fn parts(&self) -> Parts<'_, R> {
        let end = if self.taken_back == 0 {
            self.pushed
        } else {
            self.sent
        };
        Parts {
            tx: self,
            next: self.sent,
            skip_bytes: self.partial_bytes,
            end,
        }
    }

    /// Counts bytes of [`Self::parts`] that entered the socket.
    ///
    /// # Errors
    ///
    /// [`Overrun`] if there are not that many left; nothing is counted then.
    pub(crate) fn advance(&mut self, sent_bytes: usize) -> Result<(), Overrun> {
        let mut left_bytes = u64::try_from(sent_bytes).map_err(|_| Overrun)?;
        let (mut sent, mut partial_bytes) = (self.sent, self.partial_bytes);
        while left_bytes > 0 {
            if self.taken_back != 0 || sent >= self.pushed {
                return Err(Overrun);
            }
            let message_bytes = self.message_bytes(sent).ok_or(Overrun)?;
            let rest_bytes = message_bytes.saturating_sub(partial_bytes);
            if left_bytes < rest_bytes {
                partial_bytes = partial_bytes.saturating_add(left_bytes);
                break;
            }
            left_bytes = left_bytes.saturating_sub(rest_bytes);
            sent = sent.saturating_add(1);
            partial_bytes = 0;
        }
        // INVARIANT: Every step stayed within the run, and the last within its message.
        (self.sent, self.partial_bytes) = (sent, partial_bytes);
        Ok(())
    }

    /// Hands back the oldest request that was sent to its last byte.
    pub(crate) fn pop_sent(&mut self) -> Option<R> {
        if self.handed_back >= self.sent {
            return None;
        }
        let request = self.requests.get_mut(self.handed_back)?.take();
        // INVARIANT: It was the first one still there.
        self.handed_back = self.handed_back.saturating_add(1);
        self.reset_when_empty();
        request
    }

    /// Takes back the oldest request that was not sent to its last byte.
    ///
    /// This is for a connection that has died: nothing more can be pushed or sent until the machine
    /// is empty, after which it starts afresh.
    pub(crate) fn pop_unsent(&mut self) -> Option<R> {
        let oldest = self.sent.saturating_add(self.taken_back);
        if oldest >= self.pushed {
            return None;
        }
        let request = self.requests.get_mut(oldest)?.take();
        // INVARIANT: It was the first unsent one still there.
        self.taken_back = self.taken_back.saturating_add(1);
        self.reset_when_empty();
        request
    }

    /// Returns the length of a message of the run.
    fn message_bytes(&self, message: usize) -> Option<u64> {
        let payload_bytes = *self.payload_bytes.get(message)?;
        Some((REQUEST_BYTES as u64).saturating_add(u64::from(payload_bytes)))
    }

    /// Opens a new run once every request has left the machine.
    fn reset_when_empty(&mut self) {
        if self.handed_back.saturating_add(self.taken_back) < self.pushed {
            return;
        }
        // INVARIANT: No request is left, and every counter is zero.
        self.pushed = 0;
        self.sent = 0;
        self.partial_bytes = 0;
        self.handed_back = 0;
        self.taken_back = 0;
    }
}

/// What is left of a run, see [`Tx::parts`].
pub(crate) struct Parts<'a, R> {
    tx: &'a Tx<R>,
    /// The message that the next part belongs to.
    next: usize,
    /// How much of that message comes before the next part.
    skip_bytes: u64,
    /// Where the messages end.
    end: usize,
}

impl<'a, R> Parts<'a, R> {
    /// The headers from `skip_bytes` in the next message on, up to and with the first one that
    /// payload follows.
    fn headers(&mut self, skip_bytes: usize) -> Option<&'a [u8]> {
        let payloads = self.tx.payload_bytes.get(self.next..self.end)?;
        let bare = payloads.iter().take_while(|bytes| **bytes == 0).count();
        let start = self.next.checked_mul(REQUEST_BYTES)?;
        let has_payload = bare < payloads.len();
        self.next = self.next.saturating_add(bare);
        let mut last = self.next;
        self.skip_bytes = 0;
        if has_payload {
            last = last.saturating_add(1);
            self.skip_bytes = REQUEST_BYTES as u64;
        }
        let start = start.saturating_add(skip_bytes);
        self.tx.headers.get(start..last.checked_mul(REQUEST_BYTES)?)
    }

    /// The rest of the next message's payload.
    fn payload(&mut self) -> Option<Part<'a, R>> {
        let request = self.tx.requests.get(self.next)?.as_ref()?;
        let payload_bytes = *self.tx.payload_bytes.get(self.next)?;
        let offset_bytes = self.skip_bytes.saturating_sub(REQUEST_BYTES as u64);
        let offset_bytes = u32::try_from(offset_bytes).ok()?;
        self.next = self.next.saturating_add(1);
        self.skip_bytes = 0;
        Some(Part::Payload {
            request,
            offset_bytes,
            length_bytes: payload_bytes.saturating_sub(offset_bytes),
        })
    }
}

impl<'a, R> Iterator for Parts<'a, R> {
    type Item = Part<'a, R>;

    fn next(&mut self) -> Option<Part<'a, R>> {
        if self.next >= self.end {
            return None;
        }
        match usize::try_from(self.skip_bytes) {
            Ok(skip_bytes) if skip_bytes < REQUEST_BYTES => {
                self.headers(skip_bytes).map(Part::Headers)
            }
            _ => self.payload(),
        }
    }
}
