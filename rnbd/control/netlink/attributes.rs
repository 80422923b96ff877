// SPDX-License-Identifier: GPL-2.0

//! The attributes of the netlink family: their numbers, their kinds, and how the list of sockets
//! and the backend identifier are read. It owns nothing and takes no lock.
//!
//! C header: [`include/uapi/linux/nbd-netlink.h`](srctree/include/uapi/linux/nbd-netlink.h)

#![forbid(unsafe_code)]

use super::super::{
    super::kapi::genl::{
        attr_size_bytes,
        Attr,
        Kind,
        Policy,
        Request, //
    },
    index_refusal, //
};
use kernel::prelude::*;

/// Number of the device, 32 bits.
pub(super) const ATTR_INDEX: u16 = 1;
/// Size of the export in bytes, 64 bits.
pub(super) const ATTR_SIZE_BYTES: u16 = 2;
/// Block size in bytes, 64 bits.
pub(super) const ATTR_BLOCK_SIZE_BYTES: u16 = 3;
/// Seconds after which a command has timed out, 64 bits.
pub(super) const ATTR_TIMEOUT: u16 = 4;
/// Transmission flags of the server, 64 bits.
pub(super) const ATTR_SERVER_FLAGS: u16 = 5;
/// Wishes of the client, 64 bits.
pub(super) const ATTR_CLIENT_FLAGS: u16 = 6;
/// List of [`SOCK_ITEM`].
pub(super) const ATTR_SOCKETS: u16 = 7;
/// Seconds to wait for a new connection when all are dead, 64 bits.
pub(super) const ATTR_DEAD_CONN_TIMEOUT: u16 = 8;
/// List of devices; only in replies.
pub(super) const ATTR_DEVICE_LIST: u16 = 9;
/// Text that names what is exported.
pub(super) const ATTR_BACKEND_IDENTIFIER: u16 = 10;

/// One socket within [`ATTR_SOCKETS`].
const SOCK_ITEM: u16 = 1;
/// The file descriptor within [`SOCK_ITEM`], 32 bits.
const SOCK_FD: u16 = 1;
/// Size of [`SOCK_ITEM`] with a descriptor.
const ITEM_BYTES: usize = attr_size_bytes(attr_size_bytes(size_of::<u32>()));

pub(super) static POLICY: Policy<11> = Policy::new([
    (ATTR_INDEX, Kind::U32),
    (ATTR_SIZE_BYTES, Kind::U64),
    (ATTR_BLOCK_SIZE_BYTES, Kind::U64),
    (ATTR_TIMEOUT, Kind::U64),
    (ATTR_SERVER_FLAGS, Kind::U64),
    (ATTR_CLIENT_FLAGS, Kind::U64),
    (ATTR_SOCKETS, Kind::Nested),
    (ATTR_DEAD_CONN_TIMEOUT, Kind::U64),
    (ATTR_DEVICE_LIST, Kind::Nested),
    (ATTR_BACKEND_IDENTIFIER, Kind::String),
]);

static SOCKET_POLICY: Policy<2> = Policy::new([(SOCK_FD, Kind::U32)]);

/// Reads the file descriptors out of [`ATTR_SOCKETS`], as they were given. An item without a
/// descriptor is skipped; an empty list is valid.
///
/// # Errors
///
/// `EINVAL` if something else than an item is in the list, or an item cannot be read; `ENOMEM`.
pub(super) fn sockets(
    list: &Attr<'_>,
    request: &Request<'_>,
    subject: Option<u32>,
) -> Result<KVec<u32>> {
    let mut fds = KVec::with_capacity(list.bytes().len() / ITEM_BYTES, GFP_KERNEL)?;

    for item in list.nested() {
        if item.ty() != SOCK_ITEM {
            index_refusal!(subject, "not a socket in the list");
            return Err(EINVAL);
        }
        if let Some(fd) = descriptor(&item, request, subject)? {
            fds.push(fd, GFP_KERNEL)?;
        }
    }
    Ok(fds)
}

/// The file descriptor in an item, if it has one.
fn descriptor(item: &Attr<'_>, request: &Request<'_>, subject: Option<u32>) -> Result<Option<u32>> {
    // What clients send. A list may be long, and the kernel's parser takes a while for each.
    if let Some(fd) = item.only_u32(SOCK_FD) {
        return Ok(Some(fd));
    }
    let [_, fd] = item.parse(&SOCKET_POLICY, request).map_err(|_| {
        index_refusal!(subject, "malformed socket in the list");
        // Whatever the reason: that is in the sender's extended error.
        EINVAL
    })?;

    fd.map(|fd| fd.u32()).transpose()
}

/// Returns the backend identifier to remember: the text up to the first NUL, so that comparing it
/// with [`backend_to_match`] of the same text gives the answer it always gave. (Text with a NUL in
/// its middle never matches again.)
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn backend_to_store(attr: &Attr<'_>) -> Result<KVec<u8>> {
    let mut texts = attr.bytes().split(|byte| *byte == 0);

    to_owned(texts.next().unwrap_or_default())
}

/// Returns the backend identifier to compare with a remembered one: all of it but trailing NULs.
pub(super) fn backend_to_match<'a>(attr: &Attr<'a>) -> &'a [u8] {
    let mut text = attr.bytes();

    while let [rest @ .., 0] = text {
        text = rest;
    }
    text
}

/// Copies text out of a request.
pub(super) fn to_owned(text: &[u8]) -> Result<KVec<u8>> {
    let mut copy = KVec::with_capacity(text.len(), GFP_KERNEL)?;

    copy.extend_from_slice(text, GFP_KERNEL)?;
    Ok(copy)
}
