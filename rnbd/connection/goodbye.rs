// SPDX-License-Identifier: GPL-2.0

//! Announcing the end: the DISC message, which follows the last request on a connection and is the only
//! one of many. Changes the connection's state under its lock.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    super::proto::{
        Command,
        CommandFlags,
        Cookie,
        Request,
        REQUEST_BYTES, //
    },
    send::{
        Item,
        Sender, //
    },
    Connection,
    Life,
    Role,
    State, //
};

/// The message that announces the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goodbye {
    /// Not asked for.
    None,
    /// To be sent before anything else.
    Wanted,
    /// In the sender's hands.
    Sending,
    /// In the socket.
    Sent,
}

impl State {
    fn has_said_goodbye(&self) -> bool {
        self.goodbye == Goodbye::Sent || self.life >= Life::Closing
    }
}

impl Connection {
    /// Takes no more requests, fails those that no byte was sent of, and sends DISC at the next message
    /// boundary. Returns whether that has happened.
    ///
    /// If it is the `last` thing that is said before the end, the peer is not listened to any more, as
    /// long as it owes no reply.
    pub(crate) fn say_goodbye(self: &Arc<Self>, last: bool) -> bool {
        let (mut queue, sender, is_fresh) = {
            let mut state = self.state.lock();
            if state.life != Life::Live {
                return state.has_said_goodbye();
            }
            state.life = Life::Leaving;
            let queue = state.queue.take_all();
            let is_fresh = matches!(state.role, Role::Fresh);
            if is_fresh {
                state.role = Role::Out;
                state.goodbye = Goodbye::Sending;
            } else {
                state.goodbye = Goodbye::Wanted;
            }
            (queue, self.take_role(&mut state), is_fresh)
        };
        // From here on nothing more is queued.
        if last && self.is_idle() {
            self.watch.stop();
        }
        while let Some(request) = self.session.slots.drain_queue(&mut queue) {
            self.hand_on_at_once(request);
        }
        if is_fresh {
            return self.say_only_goodbye();
        }
        if let Some(sender) = sender {
            self.transmit(sender);
        }
        self.has_said_goodbye()
    }

    /// Whether DISC is in the socket, or cannot get there any more.
    pub(crate) fn has_said_goodbye(&self) -> bool {
        self.state.lock().has_said_goodbye()
    }

    /// Sends DISC on a connection on which nothing has been sent and nothing else will be; the caller
    /// has taken the right to send. Only if not all of it fits a sender is made. Returns whether it is
    /// in the socket, or cannot get there any more.
    fn say_only_goodbye(self: &Arc<Self>) -> bool {
        let message = disc();
        // Whatever is wrong, the sender will meet it again.
        let sent_bytes = self.socket().send_bytes(&message).unwrap_or(0);
        if sent_bytes < REQUEST_BYTES {
            match Self::begun_goodbye(message, sent_bytes) {
                Ok(sender) => {
                    self.transmit(sender);
                    return self.has_said_goodbye();
                }
                Err(error) => pr_debug!("a connection ends without DISC: {:?}\n", error),
            }
        }
        let is_dead = {
            let mut state = self.state.lock();
            state.goodbye = Goodbye::Sent;
            let is_dead = state.life >= Life::Closing;
            state.role = if is_dead { Role::Gone } else { Role::Fresh };
            is_dead
        };
        if is_dead {
            let kept = self.drain_answerless();
            self.close_if_done(kept);
            self.session.changed.wake_all();
        }
        true
    }

    /// A sender in the middle of DISC.
    fn begun_goodbye(message: [u8; REQUEST_BYTES], sent_bytes: usize) -> Result<KBox<Sender>> {
        let mut sender = Sender::new(GFP_NOWAIT | __GFP_NOWARN)?;
        sender
            .tx
            .push(Item::Goodbye, message, 0)
            .map_err(|_| EINVAL)?;
        sender.tx.advance(sent_bytes).map_err(|_| EINVAL)?;
        Ok(sender)
    }
}

/// The DISC message.
pub(super) fn disc() -> [u8; REQUEST_BYTES] {
    Request {
        command: Command::Disconnect,
        flags: CommandFlags::default(),
        cookie: Cookie::default(),
        offset_bytes: 0,
        length_bytes: 0,
    }
    .encode()
}
