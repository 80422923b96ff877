// SPDX-License-Identifier: GPL-2.0

//! The requests of one device: who holds each of them now, under which cookie, and the one rule of
//! who may end it.
//!
//! There is a [`Slot`] for every tag of the device's tag set, each under a spinlock of its own (the
//! innermost lock of the driver, except for those of the kernel). The rule: a request is a value in
//! exactly one place, and only who has taken it out of there may end it, send it again or fail it.
//! Reply, timeout, death of a connection, disconnect and the dead-connection clock all go through
//! the same few moves:
//!
//! | from | to | who moves it |
//! | --- | --- | --- |
//! | `Empty` | `Queued` | dispatch, under the connection's lock |
//! | `Empty` | `Parked` | dispatch, when no connection lives |
//! | `Queued` | `Sending` | the sender, which holds the request from here on |
//! | `Sending` | `Sent` | the sender, when the last byte is in the socket |
//! | `Sent` | `Receiving` | the receiver, which holds a read from here on |
//! | `Receiving` | `Sent` | the receiver, when fault injection loses the reply |
//! | `Sent` | `Empty` | the receiver, or who drains a dead connection |
//! | `Queued`, `Sending`, `Receiving` | `Empty` | who drains a dead connection: the holder itself |
//! | `Empty` | `Held` | who drained a dead connection whose socket keeps the request's pages |
//! | `Held` | `Empty` | the work of that connection, or who ends the session |
//! | `Parked` | `Empty` | reconnect, clock, disconnect |

#![forbid(unsafe_code)]

mod census;
mod claim;
mod drain;
mod outgoing;

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        SpinLock, //
    }, //
};

use super::{
    device::Device,
    kapi::{
        pinned_slice::PinnedSlice,
        request::{
            Idle,
            RequestId,
            Started,
            Tag, //
        }, //
    },
    proto::Cookie, //
};

pub(crate) use self::claim::{
    Claim,
    Mismatch, //
};
pub(crate) use self::outgoing::{
    command,
    Outgoing, //
};

/// Number of a connection, unique within its device and not used again before it wraps.
pub(crate) type ConnectionId = u32;

/// Where the request is.
enum Place {
    /// No request.
    Empty,
    /// Not started, waiting for a connection to come back.
    Parked(Idle<Device>),
    /// In the queue of a connection, no byte sent.
    Queued(Started<Device>),
    /// With the sender.
    Sending,
    /// All bytes in the socket, waiting for its reply.
    Sent(Started<Device>),
    /// With the receiver.
    Receiving,
    /// Its connection has died, and the socket still refers to its pages.
    Held(Started<Device>),
}

/// What is known about one tag.
struct Slot {
    place: Place,
    /// Whose request it is, unless empty or parked.
    connection: ConnectionId,
    /// The request's name, for the timeout callback.
    id: Option<RequestId>,
    /// Counts the requests sent under this tag; part of the cookie.
    generation: u32,
    /// Next tag in the connection's queue.
    next: Option<Tag>,
    /// How often its timer has run out.
    expiries: u32,
    /// The socket refers to its pages, and may do so for longer than the connection lives.
    lingers: bool,
}

impl Slot {
    /// Takes the request if it waits for a reply, or for the socket of a dead connection.
    fn take(&mut self) -> Option<Started<Device>> {
        match core::mem::replace(&mut self.place, Place::Empty) {
            Place::Sent(request) | Place::Held(request) => {
                self.id = None;
                Some(request)
            }
            other => {
                self.place = other;
                None
            }
        }
    }
}

/// What the timeout callback met.
pub(crate) enum Overdue {
    /// The request is not in flight here.
    NotHere,
    /// It is, on this connection; its timer has run out this often.
    OnConnection(ConnectionId, u32),
}

/// Requests of a connection in the order in which they are to be sent, linked through their slots.
///
/// The queue belongs to a connection and is protected by its lock.
#[derive(Default)]
pub(crate) struct Queue {
    ends: Option<(Tag, Tag)>,
}

impl Queue {
    /// Whether there is nothing to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_none()
    }

    /// Everything in it, leaving it empty.
    pub(crate) fn take_all(&mut self) -> Self {
        core::mem::take(self)
    }
}

/// The slots of a device: one for each tag of each hardware queue. They are made with the device, so
/// that a connect allocates nothing for them.
pub(crate) struct Slots {
    slots: PinnedSlice<SpinLock<Slot>>,
    /// For each slot, the connection that it was last enqueued on. Written under that connection's
    /// lock, so that who has declared the connection dead under it finds all its slots.
    owners: KVVec<Atomic<ConnectionId>>,
    depth: u32,
    /// The last number given to a connection.
    connections: Atomic<ConnectionId>,
}

impl Slots {
    /// Makes the slots for a tag set.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(hctxs: u32, depth: u32) -> Result<Self> {
        let count = usize::try_from(hctxs.checked_mul(depth).ok_or(ENOMEM)?)?;
        let mut owners = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            owners.push(Atomic::new(0), GFP_KERNEL)?;
        }
        Ok(Self {
            slots: PinnedSlice::new(count, Self::new_slot)?,
            owners,
            depth,
            connections: Atomic::new(0),
        })
    }

    /// A number for a new connection.
    pub(crate) fn next_connection(&self) -> ConnectionId {
        self.connections.fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// The last number given.
    pub(crate) fn newest_connection(&self) -> ConnectionId {
        self.connections.load(Relaxed)
    }

    fn new_slot() -> impl PinInit<SpinLock<Slot>> {
        new_spinlock!(
            Slot {
                place: Place::Empty,
                connection: 0,
                id: None,
                generation: 0,
                next: None,
                expiries: 0,
                lingers: false,
            },
            "rnbd::Slot"
        )
    }

    fn position(&self, tag: Tag) -> Option<usize> {
        if u32::from(tag.tag) >= self.depth {
            return None;
        }
        let index = u32::from(tag.hctx)
            .checked_mul(self.depth)?
            .checked_add(u32::from(tag.tag))?;
        usize::try_from(index).ok()
    }

    fn get(&self, tag: Tag) -> Option<&SpinLock<Slot>> {
        self.slots.get(self.position(tag)?)
    }

    /// Starts a request and puts it at the end of a connection's queue, under the lock of that
    /// connection.
    ///
    /// # Errors
    ///
    /// Gives the request back if its tag is outside of the tag set, which blk-mq never does.
    pub(crate) fn enqueue(
        &self,
        queue: &mut Queue,
        connection: ConnectionId,
        request: Idle<Device>,
    ) -> Result<(), Idle<Device>> {
        let tag = request.tag();
        let place = self.position(tag);
        let (Some(slot), Some(owner)) = (
            place.and_then(|place| self.slots.get(place)),
            place.and_then(|place| self.owners.get(place)),
        ) else {
            return Err(request);
        };
        owner.store(connection, Relaxed);
        {
            let mut slot = slot.lock();
            let request = request.start();
            slot.connection = connection;
            slot.id = Some(request.id());
            slot.generation = slot.generation.wrapping_add(1);
            slot.next = None;
            slot.expiries = 0;
            slot.lingers = false;
            slot.place = Place::Queued(request);
        }
        queue.ends = Some(match queue.ends {
            None => (tag, tag),
            Some((first, last)) => {
                if let Some(slot) = self.get(last) {
                    slot.lock().next = Some(tag);
                }
                (first, tag)
            }
        });
        Ok(())
    }

    /// Takes the first request of a queue to send it; the caller holds it until [`Slots::sent`] or
    /// [`Slots::release`].
    pub(crate) fn dequeue(&self, queue: &mut Queue) -> Option<Outgoing> {
        loop {
            let (first, last) = queue.ends?;
            let mut slot = self.get(first)?.lock();
            queue.ends = slot.next.take().map(|next| (next, last));
            // A request is only taken out of the middle of a queue by emptying all of it.
            match core::mem::replace(&mut slot.place, Place::Sending) {
                Place::Queued(request) => {
                    return Some(Outgoing {
                        tag: first,
                        cookie: Cookie {
                            generation: slot.generation,
                            hctx: first.hctx,
                            tag: first.tag,
                        },
                        request,
                        lingers: false,
                    });
                }
                other => slot.place = other,
            }
        }
    }

    /// All bytes of the request are in the socket: its reply may come now.
    pub(crate) fn sent(&self, outgoing: Outgoing) {
        // The tag came out of this table.
        if let Some(slot) = self.get(outgoing.tag) {
            let mut slot = slot.lock();
            slot.lingers = outgoing.lingers;
            slot.place = Place::Sent(outgoing.request);
        }
    }

    /// Gives a request back whose reply is to count as lost: it waits for one again.
    pub(crate) fn unclaim(&self, tag: Tag, request: Started<Device>) {
        // The tag came out of this table.
        if let Some(slot) = self.get(tag) {
            slot.lock().place = Place::Sent(request);
        }
    }

    /// Empties the slot of a request that the caller holds, so that it can be ended.
    pub(crate) fn release(&self, tag: Tag) {
        if let Some(slot) = self.get(tag) {
            let mut slot = slot.lock();
            slot.place = Place::Empty;
            slot.id = None;
        }
    }

    /// Where a request is whose timer has run out, counting the expiry.
    pub(crate) fn overdue(&self, tag: Tag, id: RequestId) -> Overdue {
        let Some(slot) = self.get(tag) else {
            return Overdue::NotHere;
        };
        let mut slot = slot.lock();
        if slot.id != Some(id) {
            return Overdue::NotHere;
        }
        slot.expiries = slot.expiries.saturating_add(1);
        Overdue::OnConnection(slot.connection, slot.expiries)
    }

    /// Takes a request that waits for a reply on `connection`: it may have been sent again on another
    /// one meanwhile, under the same tag.
    pub(crate) fn take_sent(
        &self,
        tag: Tag,
        id: RequestId,
        connection: ConnectionId,
    ) -> Option<Started<Device>> {
        let mut slot = self.get(tag)?.lock();
        let is_it = slot.id == Some(id) && slot.connection == connection;
        if !is_it || !matches!(slot.place, Place::Sent(_)) {
            return None;
        }
        slot.take()
    }

    /// Whether the socket may refer to the request's pages for longer than its connection lives.
    pub(crate) fn lingers(&self, tag: Tag, id: RequestId) -> bool {
        self.get(tag).is_some_and(|slot| {
            let slot = slot.lock();
            slot.id == Some(id) && slot.lingers
        })
    }

    /// Keeps a request until a connection comes back.
    ///
    /// # Errors
    ///
    /// As for [`Slots::enqueue`].
    pub(crate) fn park(&self, request: Idle<Device>) -> Result<(), Idle<Device>> {
        match self.get(request.tag()) {
            None => Err(request),
            Some(slot) => {
                slot.lock().place = Place::Parked(request);
                Ok(())
            }
        }
    }
}
