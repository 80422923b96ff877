// SPDX-License-Identifier: GPL-2.0

//! What becomes of requests that no connection carries: they are parked, sent again, or fail. Parks under
//! the session's liveness lock.

#![forbid(unsafe_code)]

use kernel::sync::atomic::Relaxed;

use super::{
    super::{
        device::Device,
        kapi::request::{
            Idle,
            Started,
            Status, //
        }, //
    },
    Mode,
    Session, //
};

/// What becomes of a request that finds no connection.
pub(crate) enum Parking {
    /// It waits.
    Parked,
    /// A connection has come meanwhile: try again.
    Retry(Idle<Device>),
    /// It fails.
    Refused(Idle<Device>),
}

impl Session {
    /// Keeps a request for which no connection was found, or says what else to do with it.
    pub(crate) fn park(&self, request: Idle<Device>) -> Parking {
        let mut liveness = self.liveness.lock();
        match liveness.mode {
            Mode::Disconnecting | Mode::Ended => Parking::Refused(request),
            _ if liveness.live > 0 => Parking::Retry(request),
            Mode::Expired => Parking::Refused(request),
            Mode::Active => match self.slots.park(request) {
                Ok(()) => {
                    liveness.has_parked = true;
                    Parking::Parked
                }
                Err(request) => Parking::Refused(request),
            },
        }
    }

    /// What to do with a request whose connection has died: it is sent again (or parked, or refused)
    /// by being dispatched again, unless the user has asked for the end. `position` is the place of that
    /// connection.
    pub(crate) fn hand_on(&self, request: Started<Device>, position: Option<u32>) {
        if self.is_ending() {
            return self.fail(request);
        }
        self.resent.fetch_add(1, Relaxed);
        if let Some(position) = position {
            self.records.count_resent(position);
        }
        request.requeue();
    }

    /// Fails a request that was not answered.
    pub(super) fn fail(&self, request: Started<Device>) {
        self.count_failed();
        request.complete(Status::IoError);
    }

    /// A request fails without an answer of a server.
    pub(crate) fn count_failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    /// How many requests were sent again.
    pub(crate) fn resent(&self) -> u64 {
        self.resent.load(Relaxed)
    }

    /// How many requests failed without an answer.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    /// Whether requests that may not be sent again yet have to wait; otherwise they fail now.
    pub(crate) fn waits(&self) -> bool {
        let liveness = self.liveness.lock();
        liveness.mode == Mode::Active
    }

    /// Fails the requests that wait for a reply or are held, whatever the connection. Nobody sends any more.
    pub(crate) fn fail_sent(&self) {
        self.slots
            .drain_sent_until(self.slots.newest_connection(), true, |request| {
                self.fail(request)
            });
    }

    pub(super) fn fail_parked(&self) {
        self.unpark(|request| {
            self.count_failed();
            request.fail(Status::IoError);
        });
    }

    pub(super) fn unpark(&self, sink: impl FnMut(Idle<Device>)) {
        if core::mem::take(&mut self.liveness.lock().has_parked) {
            self.slots.unpark(sink);
        }
    }
}
