// SPDX-License-Identifier: GPL-2.0

//! Which request a reply is for, if any: the one place where a server's cookie counts.

#![forbid(unsafe_code)]

use super::{
    super::{
        device::Device,
        kapi::request::{
            Started,
            Tag, //
        },
        proto::Cookie, //
    },
    ConnectionId,
    Place,
    Slots, //
};

/// Why a reply cannot be for any request in flight on its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mismatch {
    /// There is no such tag.
    UnknownTag,
    /// The tag is not in use, or not with this cookie: never sent, or answered before.
    NotInFlight,
    /// It was sent on another connection.
    WrongConnection,
    /// Not all of it has been sent.
    TooEarly,
}

/// What a reply met.
pub(crate) enum Claim {
    /// The request; the slot is empty.
    Taken(Started<Device>),
    /// The sender still holds it.
    StillSending,
    /// Nothing: the peer breaks the protocol.
    Mismatch(Mismatch),
}

impl Slots {
    /// Takes the request that a reply on `connection` is for.
    ///
    /// A read that succeeded goes on to its payload: with `keep` the slot shows it as being
    /// received, and the caller calls [`Slots::release`] before it ends the request.
    pub(crate) fn claim(
        &self,
        connection: ConnectionId,
        cookie: Cookie,
        keep: impl FnOnce(&Started<Device>) -> bool,
    ) -> Claim {
        let tag = Tag {
            hctx: cookie.hctx,
            tag: cookie.tag,
        };
        let Some(slot) = self.get(tag) else {
            return Claim::Mismatch(Mismatch::UnknownTag);
        };
        let mut slot = slot.lock();
        let in_flight = matches!(
            slot.place,
            Place::Queued(_) | Place::Sending | Place::Sent(_)
        );
        if !in_flight || slot.generation != cookie.generation {
            return Claim::Mismatch(Mismatch::NotInFlight);
        }
        if slot.connection != connection {
            return Claim::Mismatch(Mismatch::WrongConnection);
        }
        match core::mem::replace(&mut slot.place, Place::Empty) {
            Place::Sent(request) => {
                if keep(&request) {
                    slot.place = Place::Receiving;
                } else {
                    slot.id = None;
                }
                Claim::Taken(request)
            }
            Place::Sending => {
                slot.place = Place::Sending;
                Claim::StillSending
            }
            other => {
                slot.place = other;
                Claim::Mismatch(Mismatch::TooEarly)
            }
        }
    }

    /// Whether the sender holds the request that a reply on `connection` is for.
    pub(crate) fn is_sending(&self, connection: ConnectionId, cookie: Cookie) -> bool {
        let tag = Tag {
            hctx: cookie.hctx,
            tag: cookie.tag,
        };
        self.get(tag).is_some_and(|slot| {
            let slot = slot.lock();
            matches!(slot.place, Place::Sending)
                && slot.connection == connection
                && slot.generation == cookie.generation
        })
    }
}
