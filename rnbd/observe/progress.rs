// SPDX-License-Identifier: GPL-2.0

//! What sessions are doing and have done: the debugfs files `devices` and `connections`, a line for each.
//! They show all devices, so a session has no file of them to make. It waits for no peer, and for a
//! receiver's mutex only as long as one turn of receiving takes.

#![forbid(unsafe_code)]

use kernel::{
    fmt,
    prelude::*,
    seq_file::SeqFile,
    seq_print, //
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
    device::{
        state::State,
        Device, //
    },
    kapi::{
        debugfs::View,
        gendisk::Disk,
        time::monotonic_ms, //
    },
    registry,
    session::Mode, //
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

/// `devices`: those that are not free.
pub(super) struct Devices;

impl View<()> for Devices {
    fn show((): (), out: &SeqFile) {
        registry::for_each(|disk| show_device(disk, out));
    }
}

fn show_device(disk: &Disk<Device>, out: &SeqFile) {
    let state = disk.observed.state();
    if state == State::Free {
        return;
    }
    seq_print!(out, "nbd{} state={}", disk.index, state.name());
    if let Some(connections) = disk.running() {
        show_session(&connections, out);
    }
    seq_print!(out, "\n");
}

fn show_session(connections: &connections::Connections, out: &SeqFile) {
    let session = connections.session();
    let census = session.slots.census();
    let (mode, live) = session.standing();
    let (sum, last) = sums(connections);
    seq_print!(out, " link={}", link(mode, live));
    seq_print!(out, " connections={} live={}", connections.count(), live);
    seq_print!(out, " in_flight={}", census.in_flight);
    seq_print!(out, " parked={}", census.parked);
    for (name, value) in sum.tally.fields() {
        seq_print!(out, " {}={}", name, value);
    }
    seq_print!(out, " failed={}", session.failed());
    seq_print!(out, " resent={}", session.resent());
    seq_print!(out, " reconnects={}", sum.reconnects);
    if let Some((position, incident)) = last {
        show_last(&incident, fmt!("connection {position}: "), out);
    }
}

/// What all connections have done together, and what went wrong last, where.
fn sums(connections: &connections::Connections) -> (Account, Option<(u32, Incident)>) {
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
    (sum, last)
}

/// The words about what went wrong are the rest of the line.
fn show_last(incident: &Incident, place: fmt::Arguments<'_>, out: &SeqFile) {
    let Incident { fault, at_ms } = *incident;
    let ago_ms = monotonic_ms().saturating_sub(at_ms);
    seq_print!(out, " last_error_at_s={}", Seconds { ms: at_ms });
    seq_print!(out, " last_error_ago_s={}", Seconds { ms: ago_ms });
    seq_print!(out, " last_error={}{}", place, fault);
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

/// `connections`: those of the sessions that run.
pub(super) struct Connections;

impl View<()> for Connections {
    fn show((): (), out: &SeqFile) {
        registry::for_each(|disk| {
            if let Some(connections) = disk.running() {
                show_connections(disk.index, &connections, out);
            }
        });
    }
}

fn show_connections(index: u32, connections: &connections::Connections, out: &SeqFile) {
    let slots = &connections.session().slots;
    for connection in connections.iter() {
        let account = connection.account();
        seq_print!(out, "nbd{} connection={}", index, connection.position());
        seq_print!(out, " state={}", life(connection.life()));
        seq_print!(out, " in_flight={}", slots.in_flight_on(connection.id()));
        for (name, value) in account.tally.fields() {
            seq_print!(out, " {}={}", name, value);
        }
        seq_print!(out, " resent={}", account.resent);
        seq_print!(out, " reconnects={}", account.reconnects);
        if let Some(incident) = account.last {
            show_last(&incident, fmt!(""), out);
        }
        seq_print!(out, "\n");
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
