// SPDX-License-Identifier: GPL-2.0

//! The block layer's side of a device: a request becomes a command or an error, a timer that has run
//! out becomes a decision. It owns nothing and takes no lock of its own.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    connection::{
        Connection,
        Death, //
    },
    connections::Connections,
    control::ioctl,
    device::{
        settings::TIMEOUT_DEFAULT_S,
        Device, //
    },
    expiry::{
        self,
        Expiry, //
    },
    kapi::{
        batch::Batch,
        gendisk::Disk,
        module_ref::THIS_MODULE,
        mq::{
            Driver,
            Timer, //
        },
        request::{
            Idle,
            Rejected,
            RequestId,
            Status,
            Tag,
            TimedOut, //
        }, //
    },
    proto::{
        Command,
        ServerFlags, //
    },
    request::{
        command,
        ConnectionId,
        Overdue, //
    },
    session::{
        session_err,
        Session, //
    }, //
};

impl Driver for Device {
    const OWNER: &'static ThisModule = THIS_MODULE;

    fn queue_rq(
        disk: &Disk<Self>,
        hctx: u32,
        request: Idle<Self>,
        last: bool,
    ) -> Result<(), Rejected<Self>> {
        let Some(connections) = disk.running_for(hctx) else {
            return Err(request.reject(Status::IoError));
        };
        match refusal(&connections, &request) {
            None => connections.submit(hctx, request, last),
            Some(status) => {
                // Those before it may have left their sending to this one.
                if last {
                    connections.commit(hctx);
                }
                Err(request.reject(status))
            }
        }
    }

    fn queue_rqs(disk: &Disk<Self>, hctx: u32, batch: &mut Batch<'_, Self>) {
        // What is refused is so one by one.
        if let Some(connections) = disk.running_for(hctx) {
            connections.submit_batch(hctx, batch, |request| {
                command(request.operation()).is_some() && !is_forbidden(&connections, request)
            });
        }
    }

    fn commit_rqs(disk: &Disk<Self>, hctx: u32) {
        if let Some(connections) = disk.running_for(hctx) {
            connections.commit(hctx);
        }
    }

    fn timeout(disk: &Disk<Self>, request: &TimedOut) -> Timer {
        match disk.running() {
            Some(connections) => expire(&connections, request),
            // The session is over, and who ended it ends its requests.
            None => Timer::Done,
        }
    }

    fn open(disk: &Disk<Self>) -> Result {
        disk.opened(disk)
    }

    fn release(disk: &Disk<Self>) {
        disk.closed(disk);
    }

    fn ioctl(disk: &Disk<Self>, command: u32, argument: usize) -> Result<i32> {
        ioctl::ioctl(disk, command, argument)
    }
}

/// Why a request is not sent at all.
fn refusal(connections: &Connections, request: &Idle<Device>) -> Option<Status> {
    let Some(command) = command(request.operation()) else {
        return Some(Status::IoError);
    };
    if is_forbidden(connections, request) {
        session_err!(connections.session(), "{:?} on a read-only export", command);
        return Some(Status::IoError);
    }
    None
}

/// Whether a request changes what may only be read.
fn is_forbidden(connections: &Connections, request: &Idle<Device>) -> bool {
    command(request.operation()).is_some_and(Command::modifies)
        && connections
            .session()
            .server_flags()
            .contains(ServerFlags::READ_ONLY)
}

/// The timer of a request has run out.
fn expire(connections: &Connections, request: &TimedOut) -> Timer {
    if !request.is_overdue() {
        // It was dispatched again while this was on its way.
        return Timer::Rearm;
    }
    let session = connections.session();
    let slots = &session.slots;
    let (tag, id) = (request.tag(), request.id());
    let Overdue::OnConnection(number, expiries) = slots.overdue(tag, id) else {
        return Timer::Done;
    };
    let connection: Option<Arc<Connection>> = connections.find(number);
    let is_live = connection.as_ref().is_some_and(|found| found.is_alive());
    let timeout_is_set = session.timeout_jiffies() != 0;
    match expiry::decide(connections.count(), timeout_is_set, is_live) {
        Expiry::Keep => {
            session_err!(
                session,
                "no answer for {} times {} s, and no timeout is set: disconnect to give up",
                expiries,
                TIMEOUT_DEFAULT_S
            );
            return Timer::Rearm;
        }
        Expiry::KillAndResend | Expiry::Resend => {
            // What is still in the old socket must not be executed after what is sent from now on.
            if let Some(connection) = &connection {
                connection.kill(Death::TimedOut);
            }
        }
    }
    hand_on(session, connection, tag, id, number);
    Timer::Done
}

/// Has a request sent again whose timer has run out on the connection `number`, which is dead.
fn hand_on(
    session: &Session,
    connection: Option<Arc<Connection>>,
    tag: Tag,
    id: RequestId,
    number: ConnectionId,
) {
    let slots = &session.slots;
    // A connection that is in nobody's place any more and still looks after the pages of the request
    // sees that the timer has run out.
    if connection.is_none() && slots.lingers(tag, id) {
        return;
    }
    // If somebody else holds the request, the death of the connection makes it hand it on.
    if let Some(request) = slots.take_sent(tag, id, number) {
        match connection {
            Some(connection) => connection.hand_on(request),
            None => session.hand_on(request, None),
        }
    }
}
