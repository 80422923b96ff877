// SPDX-License-Identifier: GPL-2.0

//! Telling those who listen to events how many of a session's connections have died: counted without a
//! lock, told by a work item of the session, which may allocate memory.

#![forbid(unsafe_code)]

use kernel::{
    sync::{
        atomic::Relaxed,
        Arc, //
    },
    workqueue::WorkItem, //
};

use super::{
    super::{
        control::netlink,
        kapi::workqueue::cancel_sync_arc, //
    },
    Session,
    EVENT, //
};

impl Session {
    /// Tells of one more death soon.
    pub(super) fn tell_soon(self: &Arc<Self>) {
        self.has_told.store(true, Relaxed);
        self.untold.fetch_add(1, Relaxed);
        // Fails if it is queued already, which is as good.
        let _ = self.queues.events.enqueue::<Arc<Self>, EVENT>(self.clone());
    }

    /// Tells what has not been told yet. All connections have ended.
    pub(crate) fn tell_rest(self: &Arc<Self>) {
        if self.has_told.load(Relaxed) {
            cancel_sync_arc::<Self, EVENT>(self);
            self.tell();
        }
    }

    fn tell(&self) {
        for _ in 0..self.untold.xchg(0, Relaxed) {
            netlink::link_dead(self.index);
        }
    }
}

impl WorkItem<EVENT> for Session {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.tell();
    }
}
