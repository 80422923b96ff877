// SPDX-License-Identifier: GPL-2.0

//! What a connection needs for I/O, made when the first request comes: most of the many connections
//! that a session may start with wait long for theirs. Makes the sender under the connection's state
//! lock and the receiver under the receiver's mutex.
//!
//! As for the socket's own buffers, memory reserves are used. Where even they are at their end it is
//! tried again later, and the request waits.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    super::kapi::credentials::ReclaimScope,
    goodbye::Goodbye,
    receive::Receiver,
    send::{
        Sender,
        BACK_OFF_MAX_MS, //
    },
    Connection,
    Life,
    Role,
    State, //
};

impl Connection {
    /// The right to send, if there is something to send and nobody has it.
    pub(super) fn take_role(self: &Arc<Self>, state: &mut State) -> Option<KBox<Sender>> {
        if state.blocked {
            return None;
        }
        let has_new = !state.queue.is_empty() || state.goodbye == Goodbye::Wanted;
        match core::mem::replace(&mut state.role, Role::Out) {
            Role::Fresh if has_new => self.make_sender(state),
            Role::Home(sender) if has_new || !sender.tx.is_idle() => Some(sender),
            other => {
                state.role = other;
                None
            }
        }
    }

    fn make_sender(self: &Arc<Self>, state: &mut State) -> Option<KBox<Sender>> {
        let _scope = ReclaimScope::enter();
        let sender = Sender::new(GFP_NOWAIT | __GFP_NOWARN).ok();
        if sender.is_none() {
            state.role = Role::Fresh;
            self.back_off(state);
        }
        sender
    }

    /// Leaves what is to be sent to the I/O work, which tries again after a while.
    pub(super) fn back_off(self: &Arc<Self>, state: &mut State) {
        state.blocked = true;
        let delay_ms = state.back_off_ms;
        state.back_off_ms = delay_ms.saturating_mul(2).min(BACK_OFF_MAX_MS);
        self.kick_later(state, delay_ms);
    }

    /// The receiver, which is made if there is none.
    pub(super) fn receiver_in<'a>(
        self: &Arc<Self>,
        place: &'a mut Option<KBox<Receiver>>,
    ) -> Option<&'a mut Receiver> {
        if place.is_none() {
            let _scope = ReclaimScope::enter();
            *place = Receiver::new(GFP_NOWAIT | __GFP_NOWARN).ok();
        }
        if place.is_none() {
            let mut state = self.state.lock();
            // One that is dead has nothing to lose, and is not to be started again.
            if state.life < Life::Closing {
                self.back_off(&mut state);
            }
        }
        place.as_deref_mut()
    }
}
