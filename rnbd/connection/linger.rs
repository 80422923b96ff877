// SPDX-License-Identifier: GPL-2.0

//! What becomes of a write whose pages are still in the socket of a connection that has died.
//!
//! TCP is made to forget what it has not sent. A UNIX socket cannot: what was sent is in the peer's
//! queue, for the peer to read when it likes, and with it the pages of spliced writes. Such a write is
//! held, neither ended nor sent again, until the peer has let go of all that it was sent, which the
//! socket's own account shows, or has had its time. Nothing announces that, so it is looked for.

#![forbid(unsafe_code)]

use kernel::{
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    time::Jiffies, //
};

use super::{
    super::{
        device::Device,
        kapi::{
            request::{
                Operation,
                Started, //
            },
            time::{
                is_past,
                jiffies,
                HZ, //
            }, //
        }, //
    },
    send::SPLICE_MIN_BYTES,
    Connection,
    Life,
    State, //
};

/// How much a UNIX socket holds that is spliced into. What is spliced is there already and takes no memory
/// by being sent, and with the usual 208 KiB the sender of large writes waits for the peer all the time.
pub(super) const SEND_BUFFER_BYTES: i32 = 4 << 20;

/// How long a peer may keep the pages of a request.
const HOLD_MAX_JIFFIES: Jiffies = 30 * HZ as Jiffies;

/// A peer that has closed lets go at once, one that is stuck perhaps never: the time between two looks
/// doubles.
const LOOK_MIN_MS: u32 = 4;
const LOOK_MAX_MS: u32 = 500;

/// The state of a dead connection in whose socket pages of requests may be left.
pub(super) struct Linger {
    /// How long to wait before the next look.
    look_ms: u32,
    /// Requests are held, and until when.
    until_jiffies: Option<Jiffies>,
}

impl Linger {
    pub(super) const fn new() -> Self {
        Self {
            look_ms: LOOK_MIN_MS,
            until_jiffies: None,
        }
    }

    /// Whether requests are held.
    pub(super) const fn is_holding(&self) -> bool {
        self.until_jiffies.is_some()
    }
}

impl Connection {
    /// Whether the socket, after it has died, may still refer to the pages of a request.
    pub(super) fn lingers(&self, request: &Started<Device>) -> bool {
        self.lingers
            && request.operation() == Operation::Write
            && request.length_bytes() >= SPLICE_MIN_BYTES
    }

    /// Hands on a request of this connection, which has died, when the socket has let go of its pages.
    pub(crate) fn hand_on(self: &Arc<Self>, request: Started<Device>) {
        let is_left = self.has_spliced.load(Relaxed)
            && self.lingers(&request)
            && self.socket().holds_sent()
            && !self.session.is_ending();
        if !is_left {
            return self.hand_on_at_once(request);
        }
        self.session.slots.hold(self.id(), request);
        let is_armed = {
            let mut state = self.state.lock();
            if !state.linger.is_holding() {
                let until_jiffies = jiffies().wrapping_add(HOLD_MAX_JIFFIES);
                state.linger.until_jiffies = Some(until_jiffies);
            }
            self.look_later(&mut state)
        };
        // Who has ended the session in between may not have seen the request.
        if !is_armed {
            self.release_held();
        }
    }

    /// The I/O work of a dead connection looks whether the socket has let go.
    pub(super) fn look_after_pages(self: &Arc<Self>) {
        if !self.has_spliced.load(Relaxed) || !self.lingers {
            return;
        }
        // As far as they are waiting for nothing else.
        let kept = self.drain_answerless();
        let is_free = !self.socket().holds_sent();
        let is_over = {
            let mut state = self.state.lock();
            let until_jiffies = state.linger.until_jiffies;
            let is_over = is_free || until_jiffies.is_some_and(is_past);
            if is_over {
                state.linger.until_jiffies = None;
            }
            if state.linger.is_holding() || kept > 0 && state.life < Life::Closed {
                self.look_later(&mut state);
            }
            is_over
        };
        if is_over {
            self.release_held();
        }
        self.close_if_done(kept);
    }

    fn release_held(&self) {
        self.session
            .slots
            .release_held(self.id(), |request| self.hand_on_at_once(request));
    }

    /// Looks again after a while, unless the session ends: who ends it does so before it cancels this.
    fn look_later(self: &Arc<Self>, state: &mut State) -> bool {
        if self.session.is_ending() {
            return false;
        }
        let delay_ms = state.linger.look_ms;
        state.linger.look_ms = delay_ms.saturating_mul(2).min(LOOK_MAX_MS);
        self.kick_later(state, delay_ms);
        true
    }
}
