// SPDX-License-Identifier: GPL-2.0

//! What a session is doing and has done: the debugfs files `status`, one value a line, and
//! `connections`, one connection a line. It waits for no peer, and for a receiver's mutex only as long
//! as one turn of receiving takes, which is never one of those that the remover of the files holds.

#![forbid(unsafe_code)]

use kernel::{
    fmt,
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::aref::ARef, //
};

use super::super::{
    connection::{
        record::{
            Account,
            Incident, //
        },
        Life, //
    },
    connections,
    device::Device,
    kapi::{
        debugfs::View,
        gendisk::Disk,
        time::monotonic_ms, //
    },
    session::{
        Mode,
        Session, //
    }, //
};

/// A time in seconds, with the milliseconds behind the point.
struct Seconds {
    ms: u64,
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_fmt(fmt!("{}.{:03}", self.ms / 1000, self.ms % 1000))
    }
}

/// `status`.
pub(super) struct Status;

impl View<ARef<Disk<Device>>> for Status {
    fn show(disk: &Disk<Device>, out: &SeqFile) {
        let state = *disk.observed.state.lock();
        seq_print!(out, "state: {}\n", state.name());
        if let Some(connections) = disk.running() {
            show_session(&connections, out);
        }
    }
}

fn show_session(connections: &connections::Connections, out: &SeqFile) {
    let session = connections.session();
    let census = session.slots.census();
    let (mode, live) = session.standing();
    seq_print!(out, "link: {}\n", link(mode, live));
    seq_print!(out, "connections: {}\n", connections.count());
    seq_print!(out, "live: {}\n", live);
    seq_print!(out, "in_flight: {}\n", census.in_flight);
    seq_print!(out, "parked: {}\n", census.parked);
    show_sums(connections, session, out);
}

/// Whether requests go anywhere.
fn link(mode: Mode, live: u32) -> &'static str {
    match mode {
        Mode::Disconnecting | Mode::Ended => "ending",
        _ if live > 0 => "up",
        Mode::Active => "waiting",
        Mode::Expired => "failing",
    }
}

fn show_sums(connections: &connections::Connections, session: &Session, out: &SeqFile) {
    let mut sum = Account::default();
    let mut last: Option<(u32, Incident)> = None;
    for connection in connections.iter() {
        let account = connection.account();
        sum.tally.add(&account.tally);
        sum.reconnects = sum.reconnects.wrapping_add(account.reconnects);
        let Some(incident) = account.last else {
            continue;
        };
        if last.is_none_or(|(_, before)| before.at_ms <= incident.at_ms) {
            last = Some((connection.position(), incident));
        }
    }
    for (name, value) in sum.tally.fields() {
        seq_print!(out, "{}: {}\n", name, value);
    }
    seq_print!(out, "failed: {}\n", session.failed());
    seq_print!(out, "resent: {}\n", session.resent());
    seq_print!(out, "reconnects: {}\n", sum.reconnects);
    if let Some((position, Incident { fault, at_ms })) = last {
        let ago_ms = monotonic_ms().saturating_sub(at_ms);
        seq_print!(out, "last_error_at_s: {}\n", Seconds { ms: at_ms });
        seq_print!(out, "last_error_ago_s: {}\n", Seconds { ms: ago_ms });
        seq_print!(out, "last_error: connection {}: {}\n", position, fault);
    }
}

/// `connections`.
pub(super) struct Connections;

impl View<ARef<Disk<Device>>> for Connections {
    fn show(disk: &Disk<Device>, out: &SeqFile) {
        let Some(connections) = disk.running() else {
            return;
        };
        let slots = &connections.session().slots;
        for connection in connections.iter() {
            let account = connection.account();
            seq_print!(out, "connection={}", connection.position());
            seq_print!(out, " state={}", life(connection.life()));
            seq_print!(out, " in_flight={}", slots.in_flight_on(connection.id()));
            for (name, value) in account.tally.fields() {
                seq_print!(out, " {}={}", name, value);
            }
            seq_print!(out, " resent={}", account.resent);
            seq_print!(out, " reconnects={}", account.reconnects);
            if let Some(Incident { fault, at_ms }) = account.last {
                seq_print!(out, " last_error_at_s={}", Seconds { ms: at_ms });
                seq_print!(out, " last_error={}", fault);
            }
            seq_print!(out, "\n");
        }
    }
}

/// A life's name.
const fn life(life: Life) -> &'static str {
    match life {
        Life::Live => "live",
        Life::Leaving => "leaving",
        Life::Closing => "closing",
        Life::Abandoned => "abandoned",
        Life::Closed => "closed",
    }
}
