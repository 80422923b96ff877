// SPDX-License-Identifier: GPL-2.0

//! What a session remembers of the places of its connections, beyond the life of the one that is in a
//! place: what went wrong last, and the counts of those before. Its spinlock is taken where something
//! has gone wrong, and by who looks.

#![forbid(unsafe_code)]

use kernel::{
    fmt,
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};

use super::{
    super::{
        device::Device,
        kapi::{
            request::Started,
            time::monotonic_ms, //
        },
        proto::Command,
        tally::Tally, //
    },
    Connection,
    Death,
    Life, //
};

/// What went wrong.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// The connection died.
    Died(Death),
    /// The server answered a request with an error.
    Refused {
        command: Command,
        offset_bytes: u64,
        error: u32,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Died(death) => fmt::Display::fmt(death, f),
            Self::Refused {
                command,
                offset_bytes,
                error,
            } => f.write_fmt(fmt!(
                "the server answered {:?} at byte {} with error {}",
                command,
                offset_bytes,
                error
            )),
        }
    }
}

/// What went wrong, and when.
#[derive(Clone, Copy)]
pub(crate) struct Incident {
    pub(crate) fault: Fault,
    /// On the clock of the kernel's log.
    pub(crate) at_ms: u64,
}

/// What is known of one place.
#[derive(Clone, Copy, Default)]
pub(crate) struct Account {
    /// What was answered on the connections that were here before.
    pub(crate) tally: Tally,
    /// Requests that were taken from a connection here and sent again.
    pub(crate) resent: u64,
    /// How often a new connection came here.
    pub(crate) reconnects: u64,
    pub(crate) last: Option<Incident>,
}

/// The accounts of a session's places. There are none until one has something to tell, so a session
/// that goes well pays nothing for them.
#[pin_data]
pub(crate) struct Records {
    #[pin]
    accounts: SpinLock<KVec<Account>>,
}

impl Records {
    /// Without any account.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            accounts <- new_spinlock!(KVec::new(), "rnbd::Records"),
        })
    }

    /// A request of the connection at `position` is sent again.
    pub(crate) fn count_resent(&self, position: u32) {
        self.update(position, |account| {
            account.resent = account.resent.wrapping_add(1);
        });
    }

    /// Something has gone wrong with the connection at `position`.
    fn note(&self, position: u32, fault: Fault) {
        let at_ms = monotonic_ms();
        self.update(position, |account| {
            account.last = Some(Incident { fault, at_ms });
        });
    }

    fn get(&self, position: u32) -> Account {
        let accounts = self.accounts.lock();
        accounts.get(position as usize).copied().unwrap_or_default()
    }

    fn update(&self, position: u32, change: impl FnOnce(&mut Account)) {
        let position = position as usize;
        let mut accounts = self.accounts.lock();
        if accounts.len() <= position {
            // What helps those who look is not worth a reserve: without memory it is not remembered.
            let flags = GFP_NOWAIT | __GFP_NOWARN;
            let _ = accounts.resize(position.saturating_add(1), Account::default(), flags);
        }
        if let Some(account) = accounts.get_mut(position) {
            change(account);
        }
    }
}

impl Connection {
    /// Its place among the session's connections.
    pub(crate) fn position(&self) -> u32 {
        self.position
    }

    /// How it stands.
    pub(crate) fn life(&self) -> Life {
        self.state.lock().life
    }

    /// Hands on a request that this connection carries out no more, and whose pages its socket does not
    /// hold.
    pub(super) fn hand_on_at_once(&self, request: Started<Device>) {
        self.session.hand_on(request, Some(self.position));
    }

    /// What was answered here.
    fn tally(&self) -> Tally {
        let place = self.receiver.lock();
        place.as_ref().map_or_else(Tally::default, |it| it.tally)
    }

    /// Something has gone wrong.
    pub(super) fn note(&self, fault: Fault) {
        self.session.records.note(self.position, fault);
    }

    /// What there is to tell of its place now.
    pub(crate) fn account(&self) -> Account {
        let mut account = self.session.records.get(self.position);
        account.tally.add(&self.tally());
        account
    }

    /// Another connection has taken the place of this dead one. A turn of receiving that runs ends
    /// before this, and no other one counts.
    pub(crate) fn bequeath(&self) {
        let tally = self.tally();
        self.session.records.update(self.position, |account| {
            account.tally.add(&tally);
            account.reconnects = account.reconnects.wrapping_add(1);
        });
    }
}
