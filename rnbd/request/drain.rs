// SPDX-License-Identifier: GPL-2.0

//! Taking requests back from connections that have died, and the parked ones from where they wait.
//!
//! The requests are handed to their taker without a lock.

#![forbid(unsafe_code)]

use kernel::sync::atomic::Relaxed;

use super::{
    super::{
        device::Device,
        kapi::request::{
            Idle,
            Started, //
        }, //
    },
    ConnectionId,
    Place,
    Queue,
    Slot,
    Slots, //
};

impl Slots {
    /// Takes a request out of the queue of a connection that has died.
    pub(crate) fn drain_queue(&self, queue: &mut Queue) -> Option<Started<Device>> {
        let outgoing = self.dequeue(queue)?;
        self.release(outgoing.tag);
        Some(outgoing.request)
    }

    /// Takes the requests that wait for a reply on `connection`, as far as their own time is up or
    /// `wanted` names them, and hands them to `sink`. Returns how many stay.
    pub(crate) fn drain_sent(
        &self,
        connection: ConnectionId,
        wanted: impl Fn(&Started<Device>) -> bool,
        sink: impl FnMut(Started<Device>),
    ) -> usize {
        let mut kept: usize = 0;
        // Not every slot is locked: a session with many connections may end with all of them.
        let may_wait = |owner: ConnectionId| owner == connection;
        self.drain(
            may_wait,
            |slot| {
                if slot.connection != connection {
                    return false;
                }
                match &slot.place {
                    Place::Sent(request) if slot.expiries > 0 || wanted(request) => true,
                    Place::Sent(_) => {
                        kept = kept.saturating_add(1);
                        false
                    }
                    _ => false,
                }
            },
            sink,
        );
        kept
    }

    /// Takes the requests that wait for a reply on any connection up to `newest` and hands them to
    /// `sink`: for when none of these lives. Those that linger are left to their connection, unless
    /// there is none any more: `all`.
    pub(crate) fn drain_sent_until(
        &self,
        newest: ConnectionId,
        all: bool,
        sink: impl FnMut(Started<Device>),
    ) {
        // The numbers wrap: those in the half of the circle before `newest` are older.
        let is_older =
            |connection: ConnectionId| newest.wrapping_sub(connection) < ConnectionId::MAX / 2;
        let is_wanted = |slot: &Slot| match slot.place {
            Place::Sent(_) => all || !slot.lingers,
            Place::Held(_) => all,
            _ => false,
        };
        self.drain(
            is_older,
            |slot| is_wanted(slot) && is_older(slot.connection),
            sink,
        );
    }

    /// Keeps a request of a connection that has died, whose socket still refers to the request's pages.
    /// The caller holds the request.
    pub(crate) fn hold(&self, connection: ConnectionId, request: Started<Device>) {
        // A started request is in the table; otherwise dropping it fails it.
        if let Some(slot) = self.get(request.tag()) {
            let mut slot = slot.lock();
            slot.connection = connection;
            slot.id = Some(request.id());
            slot.place = Place::Held(request);
        }
    }

    /// Takes the requests that were held for `connection` and hands them to `sink`.
    pub(crate) fn release_held(&self, connection: ConnectionId, sink: impl FnMut(Started<Device>)) {
        self.drain(
            |owner| owner == connection,
            |slot| matches!(slot.place, Place::Held(_)) && slot.connection == connection,
            sink,
        );
    }

    /// Empties the slots which `wanted` names among those that wait for a reply and were last enqueued
    /// on a connection that `owned` names. `sink` is called without a lock.
    fn drain(
        &self,
        owned: impl Fn(ConnectionId) -> bool,
        mut wanted: impl FnMut(&Slot) -> bool,
        mut sink: impl FnMut(Started<Device>),
    ) {
        // By its full name, as initialisers have a `zip` too.
        for (slot, owner) in Iterator::zip(self.slots.iter(), self.owners.iter()) {
            if !owned(owner.load(Relaxed)) {
                continue;
            }
            let taken = {
                let mut slot = slot.lock();
                if !wanted(&slot) {
                    continue;
                }
                slot.take()
            };
            if let Some(request) = taken {
                sink(request);
            }
        }
    }

    /// Takes all parked requests and hands them to `sink`.
    pub(crate) fn unpark(&self, mut sink: impl FnMut(Idle<Device>)) {
        for slot in self.slots.iter() {
            let taken = {
                let mut slot = slot.lock();
                match core::mem::replace(&mut slot.place, Place::Empty) {
                    Place::Parked(request) => request,
                    other => {
                        slot.place = other;
                        continue;
                    }
                }
            };
            sink(taken);
        }
    }
}
