// SPDX-License-Identifier: GPL-2.0

//! Counting the requests that are in flight or parked, for those who look from outside: each slot is
//! locked by itself, so the counts are those of no single moment.

#![forbid(unsafe_code)]

use kernel::sync::atomic::Relaxed;

use super::{
    ConnectionId,
    Place,
    Slots, //
};

/// Where a device's requests are.
#[derive(Clone, Copy, Default)]
pub(crate) struct Census {
    /// With a connection, sent or not.
    pub(crate) in_flight: u32,
    /// Waiting for a connection to come back.
    pub(crate) parked: u32,
}

impl Slots {
    /// How many requests are where.
    pub(crate) fn census(&self) -> Census {
        let mut census = Census::default();
        for slot in self.slots.iter() {
            let count = match slot.lock().place {
                Place::Empty => continue,
                Place::Parked(_) => &mut census.parked,
                _ => &mut census.in_flight,
            };
            *count = count.saturating_add(1);
        }
        census
    }

    /// How many requests are with this connection.
    pub(crate) fn in_flight_on(&self, connection: ConnectionId) -> u32 {
        let mut in_flight: u32 = 0;
        for (slot, owner) in Iterator::zip(self.slots.iter(), self.owners.iter()) {
            if owner.load(Relaxed) != connection {
                continue;
            }
            let slot = slot.lock();
            let is_here = !matches!(slot.place, Place::Empty | Place::Parked(_));
            if is_here && slot.connection == connection {
                in_flight = in_flight.saturating_add(1);
            }
        }
        in_flight
    }
}
