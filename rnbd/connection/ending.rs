// SPDX-License-Identifier: GPL-2.0

//! Ending the requests that were answered: what the server's verdict means, and when the block layer is
//! told. Runs under the receiver's mutex.

#![forbid(unsafe_code)]

use kernel::sync::atomic::Relaxed;

use super::{
    super::{
        device::Device,
        kapi::request::{
            Started,
            Status, //
        },
        proto::{
            outcome,
            Outcome, //
        },
        request::command,
        session::session_err, //
    },
    receive::Receiver,
    record::Fault,
    Connection, //
};

/// How many requests are ended together at most.
pub(super) const ENDED_TOGETHER: usize = 32;

impl Connection {
    /// Ends the requests that are over.
    ///
    /// If no other is in flight somebody waits for these: they are ended here. Otherwise the block
    /// layer ends them in a soft interrupt, which takes longer and so lets more come together.
    pub(super) fn end_over(&self, receiver: &mut Receiver) {
        let is_idle = self.is_idle();
        for (request, status) in receiver.over.drain_all() {
            match is_idle {
                true => request.complete_here(status),
                false => request.complete(status),
            }
        }
    }

    /// Keeps a request that is over until it is ended.
    pub(super) fn keep_over(
        &self,
        receiver: &mut Receiver,
        request: Started<Device>,
        status: Status,
    ) {
        let answered = self.answered.load(Relaxed).wrapping_add(1);
        self.answered.store(answered, Relaxed);
        match command(request.operation()) {
            Some(command) if status == Status::Ok => {
                receiver.tally.add_success(command, request.length_bytes());
            }
            _ => receiver.tally.add_error(),
        }
        if receiver.over.len() == ENDED_TOGETHER {
            self.end_over(receiver);
        }
        if let Err(full) = receiver.over.push_within_capacity((request, status)) {
            let (request, status) = full.0;
            request.complete(status);
        }
    }

    /// What the server says of a request.
    pub(super) fn verdict(&self, request: &Started<Device>, error: u32) -> Status {
        // Dispatch lets no other operation through.
        let Some(command) = command(request.operation()) else {
            return Status::IoError;
        };
        let outcome = outcome(command, error);
        if outcome != Outcome::Ok {
            let fault = Fault::Refused {
                command,
                offset_bytes: request.offset_bytes(),
                error,
            };
            self.note(fault);
            session_err!(self.session, "connection {}: {}", self.position, fault);
        }
        status_of(outcome)
    }
}

/// What a server's verdict means to the block layer.
fn status_of(outcome: Outcome) -> Status {
    match outcome {
        Outcome::Ok => Status::Ok,
        Outcome::IoError => Status::IoError,
        Outcome::NoSpace => Status::NoSpace,
        Outcome::NotSupported => Status::NotSupported,
    }
}
