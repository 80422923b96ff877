// SPDX-License-Identifier: GPL-2.0

//! The verb CONNECT: finds or makes a free device and starts a session on it.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    }, //
};

use super::{
    super::{
        config::ExportSize,
        device::{
            refusal,
            settings::Settings,
            state::State,
            Control,
            Device,
            Held,
            Owner, //
        },
        kapi::{
            gendisk::Disk,
            socket::Candidate, //
        },
        proto::{
            ClientFlags,
            ServerFlags, //
        },
        registry::{
            self,
            Found,
            Removal, //
        },
        seen::Seen, //
    },
    add_candidate,
    candidate,
    index_refusal,
    ConnectRequest,
    SETTLE_JIFFIES, //
};

/// Connects a device and returns its index.
///
/// # Errors
///
/// - `EBUSY` if the device asked for is in use;
/// - `EINVAL` if it is being removed, or for sizes, sockets or flags that cannot be;
/// - `EBADF`, `ENOTSOCK` for file descriptors that are no sockets;
/// - `EEXIST`, `ENOSPC`, `ENOMEM` if a device cannot be made.
///
/// The device is then as free as before.
pub(crate) fn connect(request: &ConnectRequest) -> Result<u32> {
    match request.index {
        Some(index) => connect_index(request, index),
        None => connect_any(request),
    }
}

fn connect_index(request: &ConnectRequest, index: u32) -> Result<u32> {
    let disk = match registry::find(index)? {
        Found::Device(disk) => disk,
        Found::Making => {
            index_refusal!(Some(index), "connect: the device is being made");
            return Err(EBUSY);
        }
        Found::Removing => {
            index_refusal!(
                Some(index),
                "connect: the device is going down: try again when it is gone"
            );
            return Err(EINVAL);
        }
        Found::Nothing => make(request)?,
    };
    let control = claim(&disk)?;
    run(&disk, control, request)
}

/// Connects the first device that is free, preferably one that nobody has open, or else a new one.
fn connect_any(request: &ConnectRequest) -> Result<u32> {
    loop {
        if let Some(result) = connect_existing(request)? {
            return result;
        }
        let disk = make(request)?;
        // Somebody else may have been faster to take it.
        if let Ok(control) = claim(&disk) {
            return run(&disk, control, request);
        };
    }
}

fn connect_existing(request: &ConnectRequest) -> Result<Option<Result<u32>>> {
    while let Some(disk) = registry::take_available()? {
        let control = disk.control.lock();
        if control.state == State::Free {
            return Ok(Some(run(&disk, control, request)));
        }
        // Who has made it another one has published that, or will.
    }
    Ok(None)
}

/// Makes a device with hardware queues for the request's sockets.
fn make(request: &ConnectRequest) -> Result<ARef<Disk<Device>>> {
    let sockets = request.sockets.as_ref().map_err(|error| *error)?;
    let connections = u32::try_from(sockets.len()).unwrap_or(u32::MAX).max(1);
    registry::create(request.index, connections).inspect_err(|error| {
        index_refusal!(request.index, "connect: cannot make a device: {:?}", error);
    })
}

/// Takes the control lock of a device that is free, or becomes so in time.
fn claim(disk: &Disk<Device>) -> Result<Held<'_>> {
    let mut control = disk.control.lock();
    if control.state.is_going_away() {
        if control.removal.is_some() {
            refusal!(
                disk,
                "connect: the device is going down: try again when it is gone\n"
            );
            return Err(EINVAL);
        }
        drop(control);
        // Whatever the result, the state says it.
        let _ = disk.wait_until_settled(SETTLE_JIFFIES);
        control = disk.control.lock();
    }
    match control.state {
        State::Free => Ok(control),
        State::Removing => {
            refusal!(
                disk,
                "connect: the device is going down: try again when it is gone\n"
            );
            Err(EINVAL)
        }
        _ => {
            refusal!(
                disk,
                "connect: the device is in use: disconnect it, or choose another\n"
            );
            Err(EBUSY)
        }
    }
}

/// Sets up a free device and starts it.
fn run(disk: &Disk<Device>, mut control: Held<'_>, request: &ConnectRequest) -> Result<u32> {
    let removal_before = control.removal.is_some();
    let result = start(disk, &mut control, request);
    if result.is_err() {
        control.settings = Settings::new();
        if !removal_before {
            control.removal = None;
        }
        // It may have been taken out of those that are free.
        disk.publish_state(&control);
    }
    result.map(|()| disk.index)
}

fn start(disk: &Disk<Device>, control: &mut Control, request: &ConnectRequest) -> Result {
    control.settings = settings(disk, request)?;
    if let Some(flags) = request.client_flags {
        apply_client_flags(disk, control, flags, false)?;
    }
    disk.start(disk, control, Owner::Netlink, request.pid)
}

fn settings(disk: &Disk<Device>, request: &ConnectRequest) -> Result<Settings> {
    let mut settings = Settings::new();
    let block_size_bytes = request
        .block_size_bytes
        .unwrap_or(u64::from(settings.size.block_size_bytes()));
    settings.size = ExportSize::new(request.size_bytes, block_size_bytes).map_err(|error| {
        refusal!(disk, "connect: {}\n", error.message());
        EINVAL
    })?;
    if let Some(seconds) = request.timeout_s {
        settings.set_timeout(seconds);
    }
    if let Some(seconds) = request.dead_connection_timeout_s {
        settings.set_dead_connection_timeout(seconds);
    }
    if let Some(flags) = request.server_flags {
        // The upper half has no meaning and never counted.
        let [.., b3, b2, b1, b0] = flags.to_be_bytes();
        settings.server_flags = ServerFlags::from_bits(u32::from_be_bytes([b3, b2, b1, b0]));
    }
    settings.sockets = candidates(disk, request.sockets.as_ref().map_err(|error| *error)?)?;
    if let Some(backend) = &request.backend {
        let mut copy = KVec::with_capacity(backend.len(), GFP_KERNEL)?;
        copy.extend_from_slice(backend, GFP_KERNEL)?;
        settings.backend = Some(Arc::new(copy, GFP_KERNEL)?);
    }
    Ok(settings)
}

/// Takes the sockets, each of which may only be there once.
fn candidates(disk: &Disk<Device>, fds: &KVec<u32>) -> Result<KVec<Candidate>> {
    let mut sockets = KVec::with_capacity(fds.len(), GFP_KERNEL)?;
    let mut seen = Seen::new();
    for fd in fds {
        let fd = i32::try_from(*fd).map_err(|_| {
            refusal!(disk, "connect: {} is no file descriptor\n", fd);
            EINVAL
        })?;
        let socket = candidate(disk, fd)?;
        if seen.insert(socket.identity()) {
            sockets.push_within_capacity(socket).map_err(|_| ENOMEM)?;
        } else {
            add_candidate(disk, &mut sockets, socket)?;
        }
    }
    Ok(sockets)
}

/// Sets what happens to the device at the end of its session. DISCONNECT_ON_CLOSE is only taken back
/// with `may_clear`.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn apply_client_flags(
    disk: &Disk<Device>,
    control: &mut Control,
    flags: u64,
    may_clear: bool,
) -> Result {
    let flags = ClientFlags::from_bits(flags);
    if !flags.contains(ClientFlags::DESTROY_ON_DISCONNECT) {
        control.removal = None;
    } else if control.removal.is_none() {
        control.removal = Some(Removal::new(disk.index, None)?);
    }
    let on_close = flags.contains(ClientFlags::DISCONNECT_ON_CLOSE);
    if on_close || may_clear {
        control.settings.disconnect_on_close = on_close;
    }
    Ok(())
}
