// SPDX-License-Identifier: GPL-2.0

//! The verbs of the ioctls: setting a device up piece by piece, running it, ending it.

#![forbid(unsafe_code)]

use kernel::{
    current,
    prelude::*,
    sync::Arc, //
};

use super::{
    super::{
        config::{
            ExportSize,
            SizeError, //
        },
        device::{
            refusal,
            state::State,
            Control,
            Device,
            Farewell,
            Owner, //
        },
        kapi::{
            gendisk::Disk,
            wait::{
                Sleep,
                Woken,
                FOREVER_JIFFIES, //
            }, //
        },
        proto::ServerFlags,
        session::Mode, //
    },
    add_candidate,
    candidate, //
};

/// Whether the device is run by netlink, so that ioctls may only end it.
pub(crate) fn owned_by_netlink(disk: &Disk<Device>) -> bool {
    is_run_by_netlink(&disk.control.lock())
}

/// A session on its way out is nobody's any more, only its openers'.
fn is_run_by_netlink(control: &Control) -> bool {
    control.owner == Owner::Netlink && !control.state.is_going_away()
}

/// Hands in a socket.
///
/// # Errors
///
/// `EBUSY` while a session runs or is not gone yet, or if another thread hands in sockets; `EBADF`,
/// `ENOTSOCK`, `EINVAL` for what cannot be a connection, or is there already; `ENOMEM`.
pub(crate) fn set_sock(disk: &Disk<Device>, fd: usize) -> Result {
    let fd = i32::try_from(fd).map_err(|_| {
        refusal!(disk, "{} is no file descriptor\n", fd);
        EINVAL
    })?;
    let mut control = disk.control.lock();
    if !matches!(control.state, State::Free | State::SettingUp) {
        refusal!(
            disk,
            "no socket can be added to a running device: disconnect it first\n"
        );
        return Err(EBUSY);
    }
    let candidate = candidate(disk, fd)?;
    let thread = current!().pid();
    if control
        .settings
        .owner_thread
        .is_some_and(|owner| owner != thread)
    {
        refusal!(disk, "another task is setting the device up\n");
        return Err(EBUSY);
    }
    control.settings.drop_ended_sockets();
    add_candidate(disk, &mut control.settings.sockets, candidate)?;
    control.settings.owner_thread = Some(thread);
    disk.begin_set_up(&mut control);
    Ok(())
}

/// Changes the size by what `change` makes of it.
fn change_size(
    disk: &Disk<Device>,
    change: impl FnOnce(ExportSize) -> Result<ExportSize, SizeError>,
) -> Result {
    let mut control = disk.control.lock();
    check_ioctl_owned(disk, &control)?;
    let size = change(control.settings.size).map_err(|error| {
        refusal!(disk, "{}\n", error.message());
        EINVAL
    })?;
    disk.set_size(disk, &mut control, size)?;
    disk.begin_set_up(&mut control);
    Ok(())
}

/// The door has looked without the lock; what counts is this.
fn check_ioctl_owned(disk: &Disk<Device>, control: &Control) -> Result {
    if is_run_by_netlink(control) {
        refusal!(disk, "set up by netlink: ioctls can only disconnect it\n");
        return Err(EINVAL);
    }
    Ok(())
}

/// Sets the block size; the size in bytes stays.
///
/// # Errors
///
/// `EINVAL` for an impossible one; `EBUSY` if requests in flight do not end.
pub(crate) fn set_block_size(disk: &Disk<Device>, bytes: u64) -> Result {
    change_size(disk, |size| size.with_block_size(bytes))
}

/// Sets the size in bytes.
///
/// # Errors
///
/// `EINVAL` for an impossible one.
pub(crate) fn set_size(disk: &Disk<Device>, bytes: u64) -> Result {
    change_size(disk, |size| size.with_bytes(bytes))
}

/// Sets the size in blocks of the present block size.
///
/// # Errors
///
/// `EINVAL` for an impossible one.
pub(crate) fn set_size_blocks(disk: &Disk<Device>, blocks: u64) -> Result {
    change_size(disk, |size| size.with_blocks(blocks))
}

/// Sets the request timeout.
///
/// # Errors
///
/// `EINVAL` if netlink runs the device.
pub(crate) fn set_timeout(disk: &Disk<Device>, seconds: u64) -> Result {
    let mut control = disk.control.lock();
    check_ioctl_owned(disk, &control)?;
    control.settings.set_timeout(seconds);
    disk.apply_timeout(disk, &control);
    disk.begin_set_up(&mut control);
    Ok(())
}

/// Says what the server can do. On a running device that counts for the read-only check at once, and
/// for the limits at the next change of size.
///
/// # Errors
///
/// `EINVAL` if netlink runs the device.
pub(crate) fn set_flags(disk: &Disk<Device>, flags: u32) -> Result {
    let mut control = disk.control.lock();
    check_ioctl_owned(disk, &control)?;
    let flags = ServerFlags::from_bits(flags);
    control.settings.server_flags = flags;
    if let Some(connections) = disk.running() {
        connections.session().set_server_flags(flags);
        disk.observed.set_server_flags(flags);
    }
    disk.begin_set_up(&mut control);
    Ok(())
}

/// Runs the session, and returns when it has ended.
///
/// # Errors
///
/// `EBUSY` if one runs or is not gone yet; `EINVAL` without a socket, or with several if the server
/// does not allow that; `EINTR` if a signal ended it. The end of the server's stream is no error.
pub(crate) fn do_it(disk: &Disk<Device>) -> Result {
    let connections = {
        let mut control = disk.control.lock();
        check_ioctl_owned(disk, &control)?;
        if !matches!(control.state, State::Free | State::SettingUp) {
            refusal!(
                disk,
                "a session runs, or still has openers: disconnect it and close it\n"
            );
            return Err(EBUSY);
        }
        disk.start(disk, &mut control, Owner::Openers, current!().pid())?;
        disk.running().ok_or(EINVAL)?
    };
    let session = connections.session();
    let ended = session
        .changed
        .wait(Sleep::Interruptible, FOREVER_JIFFIES, || {
            session.live() == 0 || session.mode() == Mode::Ended
        });
    {
        let control = disk.control.lock();
        let is_ours = disk
            .running()
            .is_some_and(|running| Arc::ptr_eq(&running, &connections));
        if is_ours {
            disk.stop(disk, control, Farewell::Unsaid);
        }
    }
    // Somebody else may be ending it.
    disk.wait_until_stopped(super::SETTLE_JIFFIES);
    match ended {
        Err(Woken::Signal) => Err(ERESTARTSYS),
        _ => Ok(()),
    }
}

/// Ends the session, or the sockets for one that has not begun, without telling the server. Sizes, flags
/// and timeout stay.
///
/// # Errors
///
/// None.
pub(crate) fn clear_sock(disk: &Disk<Device>) -> Result {
    let mut control = disk.control.lock();
    if matches!(control.state, State::Free | State::SettingUp) {
        control.settings.end_sockets();
        return Ok(());
    }
    disk.stop(disk, control, Farewell::Unsaid);
    disk.wait_until_stopped(super::SETTLE_JIFFIES);
    Ok(())
}

/// Tells the server that the session ends, and lets it close the connections.
///
/// # Errors
///
/// None.
pub(crate) fn disconnect_ioctl(disk: &Disk<Device>) -> Result {
    dev_info!(disk, "disconnect requested\n");
    if let Some(connections) = disk.running() {
        connections.say_goodbye();
    }
    Ok(())
}
