// SPDX-License-Identifier: GPL-2.0

//! What is remembered of a place among a session's connections beyond the life of the one that is in
//! it: what went wrong last, and the counts of those before. Its spinlock is taken where something has
//! gone wrong, and by who looks.

#![forbid(unsafe_code)]

use kernel::{
    fmt,
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
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

/// What a [`Record`] has to tell.
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

/// The record of one place.
#[pin_data]
pub(crate) struct Record {
    #[pin]
    account: SpinLock<Account>,
}

impl Record {
    /// One with nothing in it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                account <- new_spinlock!(Account::default(), "rnbd::Record"),
            }),
            GFP_KERNEL,
        )
    }

    /// Something has gone wrong.
    pub(super) fn note(&self, fault: Fault) {
        let at_ms = monotonic_ms();
        self.account.lock().last = Some(Incident { fault, at_ms });
    }

    /// A request is sent again.
    pub(crate) fn count_resent(&self) {
        let mut account = self.account.lock();
        account.resent = account.resent.wrapping_add(1);
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

    /// Hands on a request that this connection carries out no more.
    pub(crate) fn hand_on(&self, request: Started<Device>) {
        self.session.hand_on(request, Some(&self.record));
    }

    /// What was answered here.
    fn tally(&self) -> Tally {
        let place = self.receiver.lock();
        place.as_ref().map_or_else(Tally::default, |it| it.tally)
    }

    /// What there is to tell of its place now.
    pub(crate) fn account(&self) -> Account {
        let mut account = *self.record.account.lock();
        account.tally.add(&self.tally());
        account
    }

    /// The record for the connection that has taken the place of this dead one. A turn of receiving that
    /// runs ends before this, and no other one counts.
    pub(crate) fn bequeath(&self) {
        let tally = self.tally();
        let mut account = self.record.account.lock();
        account.tally.add(&tally);
        account.reconnects = account.reconnects.wrapping_add(1);
    }

    /// What its place remembers.
    pub(crate) fn record(&self) -> Arc<Record> {
        self.record.clone()
    }
}
