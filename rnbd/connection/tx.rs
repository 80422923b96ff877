// SPDX-License-Identifier: GPL-2.0
//! The sending half of a connection as a resumable state machine: it owns the requests on their way
//! into the socket and how many of their bytes are in it, and lives under the transmit lock of its
//! connection.
//!
//! The machine works in *runs*. A run is a row of headers that lie side by side in one buffer, so
//! that a single send can carry all of them; only the last request of a run may have payload, which
//! follows the headers from wherever the request keeps it. While the run is open, more requests may
//! join it, also when its first bytes have already been sent.
//!
//! ```text
//! empty --push--> headers --all headers sent--> payload, if the last request has any
//!   ^                |                             |
//!   +----------------+---- everything sent and handed back
//! ```
//!
//! A send may stop at any byte. Nothing else may enter the socket until the message is complete.
//! Every request pushed comes out exactly once, by [`Tx::pop_sent`] or by [`Tx::pop_unsent`].

#![forbid(unsafe_code)]

use super::super::proto::REQUEST_BYTES;

/// The most requests in a run.
pub(crate) const RUN: usize = 32;

/// The room for the headers of a full run.
const HEADERS_BYTES: usize = RUN * REQUEST_BYTES;

/// More bytes were reported as sent than the current chunk has left; nothing was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

/// What to send next.
#[derive(Debug)]
pub(crate) enum Chunk<'a, R> {
    /// Headers, or the rest of them.
    Headers {
        /// The bytes still to be sent.
        bytes: &'a [u8],
        /// Something follows, so that the send may leave the last packet open.
        more: bool,
    },
    /// The payload of a request, or the rest of it.
    Payload {
        /// Whose payload it is.
        request: &'a mut R,
        /// How much of the payload was already sent.
        offset_bytes: u32,
        /// How much of it is left to send; never zero.
        length_bytes: u32,
        /// Something follows, so that the send may leave the last packet open.
        more: bool,
    },
}

/// The sending half of a connection.
///
/// # Invariants
///
/// - `pushed` is at most [`RUN`]; the requests at and beyond it are [`None`].
/// - The first `handed_back` requests were sent and are [`None`], and so are the first `taken_back` of
///   those that were not sent; all others below `pushed` are there.
/// - `headers_sent` is at most `pushed * REQUEST_BYTES`, and `payload_sent` at most `payload_bytes`.
/// - `payload_sent` is zero until all headers are sent.
/// - `payload_bytes` belongs to the last request and is zero in an empty run.
pub(crate) struct Tx<R> {
    /// The requests of the run.
    requests: [Option<R>; RUN],
    /// The headers of the run, side by side.
    headers: [u8; HEADERS_BYTES],
    /// How many requests have joined the run.
    pushed: usize,
    /// How many bytes of `headers` are in the socket.
    headers_sent: usize,
    /// The payload of the last request.
    payload_bytes: u32,
    /// How much of that is in the socket.
    payload_sent: u32,
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
            pushed: 0,
            headers_sent: 0,
            payload_bytes: 0,
            payload_sent: 0,
            handed_back: 0,
            taken_back: 0,
        }
    }

    /// Says whether a request can join the run.
    pub(crate) const fn has_room(&self) -> bool {
        self.pushed < RUN && self.payload_bytes == 0 && self.taken_back == 0
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
        let (Some(slot), Some(room)) = (self.requests.get_mut(self.pushed), header_room) else {
            return Err(request);
        };
        *slot = Some(request);
        room.copy_from_slice(&header);
        // INVARIANT: There was room, so that `pushed` stays within the run, and this is its last
        // request now. No byte of its payload was sent.
        self.pushed = self.pushed.saturating_add(1);
        self.payload_bytes = payload_bytes;
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
        let in_header = self.headers_sent % REQUEST_BYTES != 0;
        let before_payload = self.headers_left() == 0 && self.payload_left() != 0;
        in_header || before_payload
    }

    /// Returns what to send next, or [`None`] if everything was sent.
    ///
    /// `more_follow` says that the caller has more to send after this run.
    pub(crate) fn chunk(&mut self, more_follow: bool) -> Option<Chunk<'_, R>> {
        if self.taken_back != 0 {
            return None;
        }
        let length_bytes = self.payload_left();
        if self.headers_left() != 0 {
            let bytes = self.headers.get(self.headers_sent..self.headers_end())?;
            let more = more_follow || length_bytes != 0;
            return Some(Chunk::Headers { bytes, more });
        }
        if length_bytes == 0 {
            return None;
        }
        let last = self.pushed.checked_sub(1)?;
        Some(Chunk::Payload {
            request: self.requests.get_mut(last)?.as_mut()?,
            offset_bytes: self.payload_sent,
            length_bytes,
            more: more_follow,
        })
    }

    /// Counts bytes of the current chunk that entered the socket.
    ///
    /// # Errors
    ///
    /// [`Overrun`] if the chunk has not that many bytes left; nothing is counted then.
    pub(crate) fn advance(&mut self, sent_bytes: usize) -> Result<(), Overrun> {
        if sent_bytes == 0 {
            return Ok(());
        }
        if self.taken_back != 0 {
            return Err(Overrun);
        }
        if self.headers_left() != 0 {
            if sent_bytes > self.headers_left() {
                return Err(Overrun);
            }
            // INVARIANT: No more than what was left.
            self.headers_sent = self.headers_sent.saturating_add(sent_bytes);
        } else {
            let sent_bytes = u32::try_from(sent_bytes).map_err(|_| Overrun)?;
            if sent_bytes > self.payload_left() {
                return Err(Overrun);
            }
            // INVARIANT: No more than what was left, and all headers are sent.
            self.payload_sent = self.payload_sent.saturating_add(sent_bytes);
        }
        Ok(())
    }

    /// Hands back the oldest request that was sent to its last byte.
    pub(crate) fn pop_sent(&mut self) -> Option<R> {
        if self.handed_back >= self.sent() {
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
        let oldest = self.sent().saturating_add(self.taken_back);
        if oldest >= self.pushed {
            return None;
        }
        let request = self.requests.get_mut(oldest)?.take();
        // INVARIANT: It was the first unsent one still there.
        self.taken_back = self.taken_back.saturating_add(1);
        self.reset_when_empty();
        request
    }

    /// Returns where the headers of the run end.
    const fn headers_end(&self) -> usize {
        self.pushed.saturating_mul(REQUEST_BYTES)
    }

    /// Returns how many bytes of the headers are still to be sent.
    const fn headers_left(&self) -> usize {
        self.headers_end().saturating_sub(self.headers_sent)
    }

    /// Returns how many bytes of the payload are still to be sent.
    const fn payload_left(&self) -> u32 {
        self.payload_bytes.saturating_sub(self.payload_sent)
    }

    /// Returns how many requests of the run were sent to their last byte.
    const fn sent(&self) -> usize {
        let headers = self.headers_sent / REQUEST_BYTES;
        if headers == self.pushed && self.payload_left() != 0 {
            headers.saturating_sub(1)
        } else {
            headers
        }
    }

    /// Opens a new run once every request has left the machine.
    fn reset_when_empty(&mut self) {
        if self.handed_back.saturating_add(self.taken_back) < self.pushed {
            return;
        }
        // INVARIANT: No request is left, and every counter is zero.
        self.pushed = 0;
        self.headers_sent = 0;
        self.payload_bytes = 0;
        self.payload_sent = 0;
        self.handed_back = 0;
        self.taken_back = 0;
    }
}
