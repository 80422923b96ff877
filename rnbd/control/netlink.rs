// SPDX-License-Identifier: GPL-2.0

//! The door for generic netlink, family `nbd`: turns requests into verbs and results into replies.
//! It owns the family's registration and takes no lock; handlers run side by side.
//!
//! C header: [`include/uapi/linux/nbd-netlink.h`](srctree/include/uapi/linux/nbd-netlink.h)

#![forbid(unsafe_code)]

mod attributes;
mod status;

use super::{
    super::kapi::{
        credentials::NoIo,
        genl::{
            attr_size_bytes,
            Attr,
            Family,
            Group,
            Handler,
            Message,
            Operation,
            Registration,
            Reply,
            Request, //
        },
        module_ref::THIS_MODULE, //
    },
    index_refusal,
    ConnectRequest,
    ReconfigureRequest, //
};
use attributes::{
    backend_to_match,
    backend_to_store,
    sockets,
    ATTR_BACKEND_IDENTIFIER,
    ATTR_BLOCK_SIZE_BYTES,
    ATTR_CLIENT_FLAGS,
    ATTR_DEAD_CONN_TIMEOUT,
    ATTR_INDEX,
    ATTR_SERVER_FLAGS,
    ATTR_SIZE_BYTES,
    ATTR_SOCKETS,
    ATTR_TIMEOUT,
    POLICY, //
};
use kernel::prelude::*;

/// Sets a device up and starts it. The reply has its index.
const CMD_CONNECT: u8 = 1;
/// Ends a session.
const CMD_DISCONNECT: u8 = 2;
/// Changes a running device, or replaces its dead connections.
const CMD_RECONFIGURE: u8 = 3;
/// Event: a connection has died.
const CMD_LINK_DEAD: u8 = 4;
/// Lists devices and whether they are connected.
const CMD_STATUS: u8 = 5;

/// The version has never changed; requests of any version are understood.
const VERSION: u32 = 1;

/// Position of the only group, `nbd_mc_group`, in [`GROUPS`].
const GROUP_EVENTS: u32 = 0;

static GROUPS: [Group; 1] = [Group::new(c"nbd_mc_group")];

static OPERATIONS: [Operation; 4] = [
    Operation::of::<Connect>(),
    Operation::of::<Disconnect>(),
    Operation::of::<Reconfigure>(),
    Operation::of::<status::Status>(),
];

static FAMILY: Family = Family::new(
    THIS_MODULE,
    c"nbd",
    VERSION,
    &POLICY,
    &OPERATIONS,
    CMD_STATUS + 1,
    &GROUPS,
);

/// Opens the door. It closes, after the running handlers have ended, when the returned value is
/// dropped.
///
/// # Errors
///
/// `EEXIST` if another driver has registered the family; `ENOMEM`.
pub(crate) fn register() -> Result<Registration> {
    FAMILY.register()
}

/// Tells every network namespace that a connection of device `index` has died.
///
/// To be called from process context. It neither waits for anybody nor starts I/O. Nobody
/// listening is the normal case, and an event that finds no memory is lost, as any netlink event
/// may be.
pub(crate) fn link_dead(index: u32) {
    let _no_io = NoIo::enter();
    let _ = send_link_dead(index);
}

fn send_link_dead(index: u32) -> Result {
    let payload_bytes = attr_size_bytes(size_of::<u32>());
    let mut event = Message::event(&FAMILY, CMD_LINK_DEAD, payload_bytes)?;

    event.put_u32(ATTR_INDEX, index)?;
    FAMILY.multicast(event, GROUP_EVENTS)
}

/// Refuses a request whose sender may not administer the system; says nothing in the log, which
/// anybody could fill otherwise.
fn require_admin(request: &Request<'_>) -> Result {
    if request.capable_admin() {
        Ok(())
    } else {
        Err(EPERM)
    }
}

/// Returns an attribute that the request must have, or logs that it is missing.
///
/// # Errors
///
/// `EINVAL`, and the sender learns which attribute is missing.
fn require<'a>(
    request: &Request<'a>,
    ty: u16,
    subject: Option<u32>,
    missing: &str,
) -> Result<Attr<'a>> {
    request
        .require(ty)
        .inspect_err(|_| index_refusal!(subject, "{}", missing))
}

/// Reads an optional number of 32 bits.
fn optional_u32(request: &Request<'_>, ty: u16) -> Result<Option<u32>> {
    request.attr(ty).map(|attr| attr.u32()).transpose()
}

/// Reads an optional number of 64 bits.
fn optional_u64(request: &Request<'_>, ty: u16) -> Result<Option<u64>> {
    request.attr(ty).map(|attr| attr.u64()).transpose()
}

/// `NBD_CMD_CONNECT`.
struct Connect;

impl Connect {
    /// Reads the request; the order of the checks is visible to clients.
    fn read(request: &Request<'_>) -> Result<ConnectRequest> {
        let index = optional_u32(request, ATTR_INDEX)?;
        if let Some(index) = index {
            if !super::index_in_range(index) {
                index_refusal!(Some(index), "no device can have this index");
                return Err(EINVAL);
            }
        }
        let list = require(request, ATTR_SOCKETS, index, "connect needs sockets")?;
        let size = require(request, ATTR_SIZE_BYTES, index, "connect needs a size")?;

        Ok(ConnectRequest {
            index,
            size_bytes: size.u64()?,
            block_size_bytes: optional_u64(request, ATTR_BLOCK_SIZE_BYTES)?,
            timeout_s: optional_u64(request, ATTR_TIMEOUT)?,
            dead_connection_timeout_s: optional_u64(request, ATTR_DEAD_CONN_TIMEOUT)?,
            server_flags: optional_u64(request, ATTR_SERVER_FLAGS)?,
            client_flags: optional_u64(request, ATTR_CLIENT_FLAGS)?,
            sockets: sockets(&list, request, index),
            backend: request
                .attr(ATTR_BACKEND_IDENTIFIER)
                .map(|attr| backend_to_store(&attr))
                .transpose()?,
            pid: request.sender_pid(),
        })
    }

    /// Tells the sender the index of its device.
    fn send(mut reply: Reply<'_, '_>, index: u32) -> Result {
        reply.put_u32(ATTR_INDEX, index)?;
        reply.send()
    }
}

impl Handler for Connect {
    const COMMAND: u8 = CMD_CONNECT;

    fn handle(request: &Request<'_>) -> Result {
        require_admin(request)?;
        let arguments = Self::read(request)?;
        // Before anything happens: a sender that does not hear of the index could not use the device.
        let reply = request.reply(&FAMILY, CMD_CONNECT, attr_size_bytes(size_of::<u32>()))?;
        let index = super::connect(&arguments)?;

        // The device runs. A reply that cannot be delivered is no reason to call that a failure.
        let _ = Self::send(reply, index);
        Ok(())
    }
}

/// `NBD_CMD_DISCONNECT`.
struct Disconnect;

impl Handler for Disconnect {
    const COMMAND: u8 = CMD_DISCONNECT;

    fn handle(request: &Request<'_>) -> Result {
        require_admin(request)?;
        let index = require(request, ATTR_INDEX, None, "disconnect needs an index")?.u32()?;
        let backend = request.attr(ATTR_BACKEND_IDENTIFIER);

        super::disconnect(index, backend.as_ref().map(backend_to_match))
    }
}

/// `NBD_CMD_RECONFIGURE`. It has no reply but the acknowledgement.
struct Reconfigure;

impl Reconfigure {
    fn read(request: &Request<'_>) -> Result<ReconfigureRequest> {
        let index = require(request, ATTR_INDEX, None, "reconfigure needs an index")?.u32()?;

        // `NBD_ATTR_SERVER_FLAGS` has always been ignored here, and clients do send it.
        Ok(ReconfigureRequest {
            index,
            size_bytes: optional_u64(request, ATTR_SIZE_BYTES)?,
            block_size_bytes: optional_u64(request, ATTR_BLOCK_SIZE_BYTES)?,
            timeout_s: optional_u64(request, ATTR_TIMEOUT)?,
            dead_connection_timeout_s: optional_u64(request, ATTR_DEAD_CONN_TIMEOUT)?,
            client_flags: optional_u64(request, ATTR_CLIENT_FLAGS)?,
            sockets: request
                .attr(ATTR_SOCKETS)
                .map(|list| sockets(&list, request, Some(index)))
                .transpose()?,
            backend: request
                .attr(ATTR_BACKEND_IDENTIFIER)
                .map(|attr| attributes::to_owned(backend_to_match(&attr)))
                .transpose()?,
        })
    }
}

impl Handler for Reconfigure {
    const COMMAND: u8 = CMD_RECONFIGURE;

    fn handle(request: &Request<'_>) -> Result {
        require_admin(request)?;
        super::reconfigure(&Self::read(request)?)
    }
}
