// SPDX-License-Identifier: GPL-2.0

//! Bringing a session's connections back: finding the dead ones and putting new sockets in their place.
//! Takes `replaced`, so that one does so at a time.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    super::{
        connection::{
            Connection,
            Death, //
        },
        kapi::socket::Candidate, //
    },
    Connections, //
};

/// How many turns of receiving are spent on finding the end of a stream whose peer has gone.
const NOTICE_TURNS: u32 = 64;

impl Connections {
    /// Makes connections notice now that their peers have gone.
    pub(crate) fn notice_dead(&self) {
        for connection in self.iter() {
            // Replies that came before the end count, so it is reached by receiving, a few turns of it.
            for _ in 0..NOTICE_TURNS {
                let has_gone = connection.is_alive() && connection.socket().events().is_hang_up();
                if !has_gone || !connection.receive() {
                    break;
                }
            }
        }
    }

    /// Whether a live connection uses this socket.
    pub(crate) fn uses(&self, candidate: &Candidate) -> bool {
        self.iter().any(|connection| {
            connection.is_alive() && connection.socket().identity() == candidate.identity()
        })
    }

    /// Puts a new connection over `candidate` in the place of the first dead one. Returns false if
    /// none is dead; the socket is then dropped.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(crate) fn replace_dead(&self, candidate: Candidate) -> Result<bool> {
        let mut replaced = self.replaced.lock();
        let dead = self.iter().position(|connection| !connection.is_alive());
        let Some((dead, place)) = dead.and_then(|dead| Some((dead, self.places.get(dead)?))) else {
            return Ok(false);
        };
        let connection = Connection::new(self.session.clone(), u32::try_from(dead)?, candidate)?;
        replaced.reserve(1, GFP_KERNEL)?;
        let mut before = None;
        self.session.connections_up(1, |id| {
            connection.set_id(id);
            before = Some(core::mem::replace(&mut *place.lock(), connection.clone()));
        });
        if let Some(before) = before {
            // Nobody finds it any more who could stop it when its requests are sent again.
            before.abandon_peer();
            before.bequeath();
            // There is room.
            let _ = replaced.push_within_capacity(before);
        }
        forget_those_over(&mut replaced);
        // Watched only now: it may die at once, and has to have been counted by then.
        let listening = connection.listen();
        if listening.is_err() {
            connection.kill(Death::Ended);
            connection.retire();
            return listening.map(|()| false);
        }
        pr_info!(
            "block nbd{}: connection {} is back\n",
            self.session.index,
            dead
        );
        Ok(true)
    }
}

/// Lets go of the dead connections for whose peers nothing waits any more.
fn forget_those_over(replaced: &mut KVec<Arc<Connection>>) {
    replaced.retain(|connection| {
        connection.close_if_answerless();
        let is_over = connection.is_over();
        if is_over {
            connection.retire();
        }
        !is_over
    });
}
