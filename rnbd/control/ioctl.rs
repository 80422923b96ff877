// SPDX-License-Identifier: GPL-2.0

//! The door for ioctls: turns each of the eleven commands into its verb. It owns nothing and takes
//! no lock.
//!
//! C header: [`include/uapi/linux/nbd.h`](srctree/include/uapi/linux/nbd.h)

#![forbid(unsafe_code)]

use super::super::{
    device::{
        refusal,
        Device, //
    },
    kapi::{
        credentials::capable_sys_admin,
        gendisk::Disk, //
    },
};
use kernel::{
    ioctl::{
        _IO,
        _IOC_TYPE, //
    },
    prelude::*, //
};

/// The type byte of all commands of NBD.
const NBD_IOC_TYPE: u32 = 0xab;

/// Hands over one connected socket. Argument: its file descriptor.
const NBD_SET_SOCK: u32 = _IO(NBD_IOC_TYPE, 0);
/// Sets the block size and keeps the size. Argument: bytes; 0 stands for 1024.
const NBD_SET_BLKSIZE: u32 = _IO(NBD_IOC_TYPE, 1);
/// Sets the size. Argument: bytes.
const NBD_SET_SIZE: u32 = _IO(NBD_IOC_TYPE, 2);
/// Starts the device and waits for the end of its session.
const NBD_DO_IT: u32 = _IO(NBD_IOC_TYPE, 3);
/// Ends the session and forgets who was setting the device up; size and block size stay.
const NBD_CLEAR_SOCK: u32 = _IO(NBD_IOC_TYPE, 4);
/// Does nothing: kept for programs of old, as the queue is cleared by itself.
const NBD_CLEAR_QUE: u32 = _IO(NBD_IOC_TYPE, 5);
/// Does nothing: kept for programs of old.
const NBD_PRINT_DEBUG: u32 = _IO(NBD_IOC_TYPE, 6);
/// Sets the size. Argument: number of blocks of the block size set at that moment.
const NBD_SET_SIZE_BLOCKS: u32 = _IO(NBD_IOC_TYPE, 7);
/// Asks the server to end the session.
const NBD_DISCONNECT: u32 = _IO(NBD_IOC_TYPE, 8);
/// Sets after how many seconds a command has timed out. Argument: seconds; 0 for never.
const NBD_SET_TIMEOUT: u32 = _IO(NBD_IOC_TYPE, 9);
/// Tells what the server can do. Argument: its transmission flags, of which 32 bits count.
const NBD_SET_FLAGS: u32 = _IO(NBD_IOC_TYPE, 10);

/// Handles an ioctl that the block layer does not know itself, also one of a 32-bit program.
///
/// All arguments are numbers, so nothing has to be translated for 32-bit programs. Partitions stand
/// for their whole disk.
///
/// # Errors
///
/// In this order:
///
/// - `EPERM` without `CAP_SYS_ADMIN`, even for a command of somebody else;
/// - `EINVAL` for a command that is not of NBD;
/// - `EINVAL` while the device is controlled by netlink, for everything, known or not, but the two
///   commands that end a session;
/// - `ENOTTY` for an unknown command;
/// - whatever the verb answers.
pub(crate) fn ioctl(disk: &Disk<Device>, command: u32, argument: usize) -> Result<i32> {
    if !capable_sys_admin() {
        return Err(EPERM);
    }
    if _IOC_TYPE(command) != NBD_IOC_TYPE {
        return Err(EINVAL);
    }
    if !ends_session(command) && super::owned_by_netlink(disk) {
        refusal!(disk, "set up by netlink: ioctls can only disconnect it\n");
        return Err(EINVAL);
    }
    dispatch(disk, command, argument).map(|()| 0)
}

/// Returns whether `command` is allowed on every device, however it was set up.
fn ends_session(command: u32) -> bool {
    matches!(command, NBD_DISCONNECT | NBD_CLEAR_SOCK)
}

/// Calls the verb for `command`.
fn dispatch(disk: &Disk<Device>, command: u32, argument: usize) -> Result {
    match command {
        NBD_SET_SOCK => super::set_sock(disk, argument),
        NBD_SET_BLKSIZE => super::set_block_size(disk, argument as u64),
        NBD_SET_SIZE => super::set_size(disk, argument as u64),
        NBD_DO_IT => super::do_it(disk),
        NBD_CLEAR_SOCK => super::clear_sock(disk),
        NBD_CLEAR_QUE | NBD_PRINT_DEBUG => Ok(()),
        NBD_SET_SIZE_BLOCKS => super::set_size_blocks(disk, argument as u64),
        NBD_DISCONNECT => super::disconnect_ioctl(disk),
        NBD_SET_TIMEOUT => super::set_timeout(disk, argument as u64),
        // The upper half has never meant anything, so it is ignored.
        NBD_SET_FLAGS => super::set_flags(disk, (argument & 0xffff_ffff) as u32),
        _ => Err(ENOTTY),
    }
}
