// SPDX-License-Identifier: GPL-2.0

//! The verbs: everything that can be asked of the driver, whichever door it came in by.
//!
//! Each verb works on one device under that device's control lock. Netlink's verbs are here and in
//! `control/connect.rs` and `control/reconfigure.rs`, those of the ioctls in `control/set_up.rs`.

#![forbid(unsafe_code)]

mod connect;
pub(crate) mod ioctl;
pub(crate) mod netlink;
mod reconfigure;
mod set_up;

use kernel::{
    fmt,
    prelude::*,
    sync::aref::ARef, //
};

use self::set_up::{
    clear_sock,
    disconnect_ioctl,
    do_it,
    owned_by_netlink,
    set_block_size,
    set_flags,
    set_size,
    set_size_blocks,
    set_sock,
    set_timeout, //
};
use self::{
    connect::connect,
    reconfigure::reconfigure, //
};
use super::{
    config,
    device::{
        refusal,
        state::State,
        Device,
        Farewell, //
    },
    kapi::{
        gendisk::Disk,
        ratelimit::RateLimit,
        socket::{
            Candidate,
            Unfit, //
        },
        time::HZ, //
    },
    registry::{
        self,
        Found, //
    }, //
};

/// How long a verb waits for a session that is going away. A netlink handler holds up others, so it
/// must not be longer.
const SETTLE_JIFFIES: usize = 2 * HZ as usize;

/// What CONNECT asks for.
pub(crate) struct ConnectRequest {
    /// The device; [`None`] for any that is free.
    pub(crate) index: Option<u32>,
    pub(crate) size_bytes: u64,
    pub(crate) block_size_bytes: Option<u64>,
    pub(crate) timeout_s: Option<u64>,
    pub(crate) dead_connection_timeout_s: Option<u64>,
    pub(crate) server_flags: Option<u64>,
    pub(crate) client_flags: Option<u64>,
    /// File descriptors of the calling task, or why they could not be read: a device that is in use
    /// is the first thing to say.
    pub(crate) sockets: Result<KVec<u32>>,
    pub(crate) backend: Option<KVec<u8>>,
    /// Of the calling task, in the initial namespace.
    pub(crate) pid: i32,
}

/// What RECONFIGURE asks for; what is [`None`] stays as it is.
pub(crate) struct ReconfigureRequest {
    pub(crate) index: u32,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) block_size_bytes: Option<u64>,
    pub(crate) timeout_s: Option<u64>,
    pub(crate) dead_connection_timeout_s: Option<u64>,
    pub(crate) client_flags: Option<u64>,
    pub(crate) sockets: Option<KVec<u32>>,
    pub(crate) backend: Option<KVec<u8>>,
}

/// How often something is said that no device can say.
static INDEX_REFUSALS: RateLimit = RateLimit::new();

/// What such a line is about: the index of a device, or none.
struct Subject(Option<u32>);

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(index) => f.write_fmt(fmt!("nbd{index}")),
            None => f.write_str("nbd"),
        }
    }
}

/// Says in the log why something is refused that no existing device is concerned by, unless too much
/// has been said already.
fn complain(index: Option<u32>, message: fmt::Arguments<'_>) {
    if INDEX_REFUSALS.allow() {
        pr_err!("{}: {}\n", Subject(index), message);
    }
}

/// [`complain`], with a format.
macro_rules! index_refusal {
    ($index:expr, $($message:tt)*) => {
        $crate::rnbd::control::complain($index, ::kernel::prelude::fmt!($($message)*))
    };
}
use index_refusal;

/// Whether a device can have this index.
pub(crate) fn index_in_range(index: u32) -> bool {
    registry::numbering().is_ok_and(|numbering| config::index_in_range(index, &numbering))
}

/// Finds an existing device.
///
/// # Errors
///
/// `EINVAL` if there is none, or it is being made or removed.
fn find(verb: &str, index: u32) -> Result<ARef<Disk<Device>>> {
    match registry::find(index)? {
        Found::Device(disk) => Ok(disk),
        Found::Making | Found::Removing => {
            index_refusal!(Some(index), "{}: the device is coming or going", verb);
            Err(EINVAL)
        }
        Found::Nothing => {
            index_refusal!(Some(index), "{}: there is no such device", verb);
            Err(EINVAL)
        }
    }
}

/// Ends the session of a device, whoever started it. Nothing happens if there is none.
///
/// # Errors
///
/// `EINVAL` if there is no such device, or it carries another backend's export.
pub(crate) fn disconnect(index: u32, backend: Option<&[u8]>) -> Result {
    let disk = find("disconnect", index)?;
    let mut control = disk.control.lock();
    let stored = control.settings.backend.as_ref();
    if let (Some(given), Some(stored)) = (backend, stored) {
        if given != stored.as_slice() {
            refusal!(&*disk, "disconnect: it carries another backend\n");
            return Err(EINVAL);
        }
    }
    match control.state {
        State::Removing => {
            refusal!(&*disk, "disconnect: the device is going down\n");
            return Err(EINVAL);
        }
        State::SettingUp => {
            control.settings.end_sockets();
            return Ok(());
        }
        _ => (),
    }
    disk.stop(&disk, control, Farewell::Said);
    // If somebody else is ending it, that has to have happened as well. What openers do is theirs.
    disk.wait_until_stopped(SETTLE_JIFFIES);
    Ok(())
}

/// The devices, or the one asked for, and whether each is connected.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn status(index: Option<u32>) -> Result<KVVec<(u32, bool)>> {
    let Some(index) = index else {
        return registry::status_of_all();
    };
    let mut devices = KVVec::new();
    if let Some(is_connected) = registry::status(index)? {
        devices.push((index, is_connected), GFP_KERNEL)?;
    }
    Ok(devices)
}

/// Takes the socket behind a file descriptor of the calling task, and says in the log why not.
///
/// # Errors
///
/// `EBADF` and `ENOTSOCK` for what is no socket, `EINVAL` for one that cannot be a connection.
fn candidate(disk: &Disk<Device>, fd: i32) -> Result<Candidate> {
    Candidate::from_fd(fd).map_err(|unfit| match unfit {
        Unfit::NotASocket(error) => {
            refusal!(disk, "descriptor {} is no socket\n", fd);
            error
        }
        Unfit::NotAStream => {
            refusal!(
                disk,
                "only TCP, UNIX and vsock streams can be connections\n"
            );
            EINVAL
        }
        Unfit::NoShutdown => {
            refusal!(disk, "a socket that cannot be shut down\n");
            EINVAL
        }
        Unfit::NotConnected => {
            refusal!(disk, "a socket that is not connected\n");
            EINVAL
        }
    })
}

/// Adds a socket to a set in which each may only be once.
///
/// # Errors
///
/// `EINVAL` if it is there already; `ENOMEM`.
fn add_candidate(
    disk: &Disk<Device>,
    sockets: &mut KVec<Candidate>,
    candidate: Candidate,
) -> Result {
    if sockets
        .iter()
        .any(|other| other.identity() == candidate.identity())
    {
        refusal!(disk, "the same socket twice\n");
        return Err(EINVAL);
    }
    sockets.push(candidate, GFP_KERNEL)?;
    Ok(())
}
