// SPDX-License-Identifier: GPL-2.0

//! The verb RECONFIGURE: new sockets in the place of dead ones, and changed settings, on a running
//! device.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    super::{
        config::ExportSize,
        connections::Connections,
        device::{
            refusal,
            state::State,
            Control,
            Device,
            Owner, //
        },
        kapi::{
            gendisk::Disk,
            socket::Candidate, //
        }, //
    },
    add_candidate,
    candidate,
    connect::apply_client_flags,
    find,
    ReconfigureRequest, //
};

/// Changes a running device. The sockets come first: a new size may have to wait for requests that
/// need them.
///
/// # Errors
///
/// - `EINVAL` if there is no such device, it is not run by netlink, or carries another backend's
///   export; or for a size that cannot be;
/// - `EBUSY` if no connection is dead that a socket could replace, or if the block size cannot be
///   changed because requests do not end;
/// - `EBADF`, `ENOTSOCK` for file descriptors that are no sockets; `ENOMEM`.
pub(crate) fn reconfigure(request: &ReconfigureRequest) -> Result {
    let disk = find("reconfigure", request.index)?;
    let mut control = disk.control.lock();
    check_backend(&disk, &control, request)?;
    let connections = match disk.running() {
        Some(connections)
            if control.state == State::Running
                && control.owner == Owner::Netlink
                && !connections.session().is_ending() =>
        {
            connections
        }
        _ => {
            refusal!(
                &*disk,
                "reconfigure: no session runs that was set up by netlink\n"
            );
            return Err(EINVAL);
        }
    };
    let size = new_size(&disk, &control, request)?;
    if let Some(fds) = &request.sockets {
        replace_dead(&disk, &connections, fds)?;
    }
    apply_times(&disk, &mut control, &connections, request);
    if let Some(flags) = request.client_flags {
        apply_client_flags(&disk, &mut control, flags, true)?;
    }
    match size {
        Some(size) => disk.set_size(&disk, &mut control, size),
        None => Ok(()),
    }
}

fn check_backend(disk: &Disk<Device>, control: &Control, request: &ReconfigureRequest) -> Result {
    let Some(stored) = control.settings.backend.as_ref() else {
        return Ok(());
    };
    match &request.backend {
        Some(given) if given.as_slice() == stored.as_slice() => Ok(()),
        Some(_) => {
            refusal!(disk, "reconfigure: it carries another backend\n");
            Err(EINVAL)
        }
        None => {
            refusal!(
                disk,
                "reconfigure: it has a backend, which has to be named\n"
            );
            Err(EINVAL)
        }
    }
}

fn new_size(
    disk: &Disk<Device>,
    control: &Control,
    request: &ReconfigureRequest,
) -> Result<Option<ExportSize>> {
    if request.size_bytes.is_none() && request.block_size_bytes.is_none() {
        return Ok(None);
    }
    let now = control.settings.size;
    let size = ExportSize::new(
        request.size_bytes.unwrap_or(now.size_bytes()),
        request
            .block_size_bytes
            .unwrap_or(u64::from(now.block_size_bytes())),
    );
    match size {
        Ok(size) if size == now => Ok(None),
        Ok(size) => Ok(Some(size)),
        Err(error) => {
            refusal!(disk, "reconfigure: {}\n", error.message());
            Err(EINVAL)
        }
    }
}

/// Puts sockets in the place of dead connections.
fn replace_dead(disk: &Disk<Device>, connections: &Connections, fds: &KVec<u32>) -> Result {
    let mut sockets: KVec<Candidate> = KVec::new();
    for fd in fds {
        let fd = i32::try_from(*fd).map_err(|_| {
            refusal!(disk, "reconfigure: {} is no file descriptor\n", fd);
            EBADF
        })?;
        let candidate = candidate(disk, fd)?;
        // One that serves already is surplus.
        if !connections.uses(&candidate) {
            add_candidate(disk, &mut sockets, candidate)?;
        }
    }
    connections.notice_dead();
    let mut used = false;
    for socket in sockets {
        if !connections.replace_dead(socket)? {
            break;
        }
        used = true;
    }
    if fds.is_empty() || used {
        Ok(())
    } else {
        refusal!(
            disk,
            "reconfigure: no connection is dead, so no socket is needed\n"
        );
        Err(EBUSY)
    }
}

fn apply_times(
    disk: &Disk<Device>,
    control: &mut Control,
    connections: &Arc<Connections>,
    request: &ReconfigureRequest,
) {
    let session = connections.session();
    if let Some(seconds) = request.timeout_s {
        control.settings.set_timeout(seconds);
        disk.apply_timeout(disk, control);
    }
    if let Some(seconds) = request.dead_connection_timeout_s {
        control.settings.set_dead_connection_timeout(seconds);
        session.set_dead_connection_timeout(control.settings.dead_connection_jiffies);
    }
}
