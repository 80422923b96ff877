// SPDX-License-Identifier: GPL-2.0

//! Requests on their way into a connection's queue, one by one or in batches, and out to its sender.
//! Runs in the submitter, under the connection's state lock as far as that reaches.

#![forbid(unsafe_code)]

use kernel::sync::{
    atomic::Relaxed,
    Arc, //
};

use super::{
    super::{
        device::Device,
        kapi::{
            batch::Batch,
            mq::this_processor,
            request::Idle, //
        }, //
    },
    Connection,
    Life, //
};

impl Connection {
    /// Queues a request, and with `last` sends it and those before it; otherwise [`Connection::flush`]
    /// does.
    ///
    /// # Errors
    ///
    /// Gives the request back if the connection takes none.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        request: Idle<Device>,
        last: bool,
    ) -> Result<(), Idle<Device>> {
        let mut state = self.state.lock();
        if state.life != Life::Live {
            return Err(request);
        }
        self.session
            .slots
            .enqueue(&mut state.queue, self.id(), request)?;
        let queued = self.queued.load(Relaxed).wrapping_add(1);
        self.queued.store(queued, Relaxed);
        self.processor.store(this_processor(), Relaxed);
        let sender = if last {
            self.take_role(&mut state)
        } else {
            None
        };
        drop(state);
        if let Some(sender) = sender {
            self.transmit(sender);
        }
        Ok(())
    }

    /// Queues the requests of a batch that `is_fine` lets through, and sends them.
    pub(crate) fn enqueue_batch(
        self: &Arc<Self>,
        batch: &mut Batch<'_, Device>,
        is_fine: impl Fn(&Idle<Device>) -> bool,
    ) {
        let mut state = self.state.lock();
        if state.life != Life::Live {
            return;
        }
        let mut queued = self.queued.load(Relaxed);
        while let Some(request) = batch.next() {
            let result = match is_fine(&request) {
                true => self
                    .session
                    .slots
                    .enqueue(&mut state.queue, self.id(), request),
                false => Err(request),
            };
            match result {
                Ok(()) => queued = queued.wrapping_add(1),
                Err(request) => batch.put_back(request),
            }
        }
        self.queued.store(queued, Relaxed);
        self.processor.store(this_processor(), Relaxed);
        let sender = self.take_role(&mut state);
        drop(state);
        if let Some(sender) = sender {
            self.transmit(sender);
        }
    }

    /// Sends what is queued, unless somebody is sending already, who then sends this as well.
    pub(crate) fn flush(self: &Arc<Self>) {
        let sender = self.take_role(&mut self.state.lock());
        if let Some(sender) = sender {
            self.transmit(sender);
        }
    }
}
