// SPDX-License-Identifier: GPL-2.0

//! How a connection dies, and what becomes of the requests that were in flight on it.
//!
//! Death is set under the connection's state lock, where requests are also registered, and what is
//! there is taken out afterwards: so nothing is registered behind the back of who takes it out.

#![forbid(unsafe_code)]

use kernel::{
    fmt,
    prelude::*,
    sync::{
        atomic::{
            Full,
            Relaxed, //
        },
        Arc, //
    }, //
};

use super::{
    super::{
        kapi::{
            wait::{
                Sleep,
                FOREVER_JIFFIES, //
            },
            workqueue::{
                cancel_delayed_sync_arc,
                cancel_sync_arc, //
            }, //
        },
        proto::Command,
        request::command,
        session::{
            session_err,
            Mode, //
        }, //
    },
    record::Fault,
    send::Sender,
    Connection,
    Life,
    Role,
    State,
    IO,
    RETRY, //
};

/// Why a connection died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Death {
    /// The peer closed it in good order.
    EndOfStream,
    /// The socket broke.
    Broken(Error),
    /// The peer broke the protocol.
    Protocol(&'static str),
    /// A request got no answer in time.
    TimedOut,
    /// The session ends.
    Ended,
}

impl Death {
    /// Whether anything is still to be waited for.
    ///
    /// A peer that has closed will not execute what it has not executed yet. (One that closes and
    /// goes on executing what it has read is outside of what a client can know.)
    fn life(self) -> Life {
        match self {
            Self::EndOfStream | Self::Ended => Life::Closed,
            Self::Broken(error) if [ECONNRESET, EPIPE, ECONNABORTED].contains(&error) => {
                Life::Closed
            }
            // A request that has timed out is sent again at once, which what is left of it in the old
            // socket must not overtake.
            Self::Broken(_) | Self::TimedOut => Life::Abandoned,
            Self::Protocol(_) => Life::Closing,
        }
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndOfStream => f.write_str("the server closed it"),
            Self::Broken(error) => f.write_fmt(fmt!("socket error {:?}", error)),
            Self::Protocol(fault) => f.write_fmt(fmt!("protocol error: {}", fault)),
            Self::TimedOut => f.write_str("no answer in time, giving it up"),
            Self::Ended => f.write_str("the session ends"),
        }
    }
}

impl Connection {
    /// Ends the connection and hands on what was in flight on it, as far as that is allowed now.
    ///
    /// May sleep. Whoever holds the right to send, or the receiver's request, ends what it holds when
    /// it sees the death.
    pub(crate) fn kill(self: &Arc<Self>, death: Death) {
        let life = death.life();
        let (mut queue, sender) = {
            let mut state = self.state.lock();
            if state.life >= Life::Closing {
                drop(state);
                return self.kill_again(life);
            }
            state.life = life;
            self.dead.xchg(true, Full);
            // Work is queued under this lock, so that it is there before the connection can retire.
            self.session.connection_down();
            // The receiver may hold a request, and reads on until the peer closes. At the end of the
            // session whoever retires the connection takes that from it.
            if death != Death::Ended {
                self.kick();
            }
            (state.queue.take_all(), state.take_role_of_dead())
        };
        self.report(death);
        self.shut_down(life);
        while let Some(request) = self.session.slots.drain_queue(&mut queue) {
            self.hand_on_at_once(request);
        }
        if let Some(sender) = sender {
            self.drain(sender);
        }
        // At the end of the session whoever ends it does so for all connections at once, and nobody else
        // waits for anything.
        if death != Death::Ended {
            let kept = self.drain_answerless();
            self.close_if_done(kept);
            self.session.changed.wake_all();
        }
    }

    /// A dead connection has less to wait for than it had.
    fn kill_again(self: &Arc<Self>, life: Life) {
        match life {
            Life::Closed => self.close(),
            Life::Abandoned => self.abandon_peer(),
            _ => (),
        }
    }

    fn shut_down(&self, life: Life) {
        match life {
            // The peer sees the end of our stream and, if it is a proper one, closes its end.
            Life::Closing => self.socket().shutdown_send(),
            Life::Abandoned => self.socket().abort(),
            _ => self.cut(),
        }
    }

    /// Ends both directions. A socket that may still refer to pages of requests is made to forget them,
    /// as they will soon hold something else.
    fn cut(&self) {
        if self.has_spliced.load(Relaxed) && !self.is_idle() {
            self.socket().abort();
        } else {
            self.socket().shutdown_both();
        }
    }

    /// Hands on the requests that wait for a reply on a dead connection, and returns how many stay. One
    /// that changes data on the server may only be sent again when the peer cannot execute it any more,
    /// or its own time is up.
    pub(super) fn drain_answerless(self: &Arc<Self>) -> usize {
        let all = self.state.lock().life == Life::Closed || !self.session.waits();
        self.session.slots.drain_sent(
            self.id(),
            |request| all || !command(request.operation()).is_some_and(Command::modifies),
            |request| self.hand_on(request),
        )
    }

    /// Closes the connection if nothing waits for its peer any more: none of the `kept` requests, and
    /// nobody who is sending.
    pub(super) fn close_if_done(self: &Arc<Self>, kept: usize) {
        if kept == 0 && matches!(self.state.lock().role, Role::Gone) {
            self.close();
        }
    }

    /// Closes a dead connection whose last requests have been taken by their timers.
    pub(crate) fn close_if_answerless(self: &Arc<Self>) {
        let kept = self.drain_answerless();
        self.close_if_done(kept);
    }

    /// The peer is not listened to any more, and what it has not been sent yet is purged where that is
    /// possible: requests that wait for it wait for their own time now.
    pub(crate) fn abandon_peer(&self) {
        {
            let mut state = self.state.lock();
            if state.life != Life::Closing {
                return;
            }
            state.life = Life::Abandoned;
        }
        self.socket().abort();
    }

    /// The last step of a life: nothing is read any more, and nothing waits for the peer.
    fn close(self: &Arc<Self>) {
        {
            let mut state = self.state.lock();
            if !(Life::Closing..Life::Closed).contains(&state.life) {
                return;
            }
            state.life = Life::Closed;
        }
        self.cut();
        self.session
            .slots
            .drain_sent(self.id(), |_| true, |request| self.hand_on(request));
    }

    /// Waits until nobody is sending on a dead connection. That takes as long as one send that does
    /// not wait, so it is not bounded otherwise.
    fn wait_for_sender(&self) {
        let _ = self
            .session
            .changed
            .wait(Sleep::Uninterruptible, FOREVER_JIFFIES, || {
                matches!(self.state.lock().role, Role::Gone)
            });
    }

    /// Ends the connection together with its session: afterwards nothing of it runs or waits any more.
    /// Returns whether every request that it was given has been answered.
    ///
    /// Not from the I/O work.
    pub(crate) fn end(self: &Arc<Self>) -> bool {
        // What the socket has to say from now on is known already.
        self.watch.stop();
        self.kill(Death::Ended);
        self.retire();
        self.is_idle()
    }

    /// Makes sure that nothing of a dead connection runs or waits any more.
    ///
    /// Not from the I/O work.
    pub(crate) fn retire(self: &Arc<Self>) {
        self.watch.stop();
        let (has_retried, is_sending) = {
            let state = self.state.lock();
            (state.has_retried, !matches!(state.role, Role::Gone))
        };
        if is_sending {
            self.wait_for_sender();
        }
        if has_retried || is_sending {
            cancel_delayed_sync_arc::<Self, RETRY>(self);
        }
        // Whoever could queue it now has been stopped.
        if self.was_kicked.load(Relaxed) {
            cancel_sync_arc::<Self, IO>(self);
        }
        self.abandon_receive();
    }

    /// Says that the connection has died, unless the user has asked for that.
    fn report(&self, death: Death) {
        let session = &self.session;
        if death == Death::Ended || session.is_ending() {
            return;
        }
        self.note(Fault::Died(death));
        let position = self.position;
        let then = match session.standing() {
            (_, 1..) => "the others go on",
            (Mode::Active, _) => "requests wait for a new connection",
            _ => "it was the last, requests fail until there is a new one",
        };
        session_err!(session, "connection {position}: {death}: {then}");
    }
}

impl State {
    /// The right to send on a connection that has just died; if somebody is sending, it ends what it
    /// holds itself.
    fn take_role_of_dead(&mut self) -> Option<KBox<Sender>> {
        match core::mem::replace(&mut self.role, Role::Gone) {
            Role::Home(sender) => Some(sender),
            Role::Fresh | Role::Gone => None,
            Role::Out => {
                self.role = Role::Out;
                None
            }
        }
    }
}
