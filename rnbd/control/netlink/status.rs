// SPDX-License-Identifier: GPL-2.0

//! `NBD_CMD_STATUS`: which devices there are and whether they are connected. It owns nothing and
//! takes no lock.
//!
//! The list is one attribute, so it has room for 3276 devices. If there are more, those that are
//! connected go first, and free ones fill what room is left.
//!
//! C header: [`include/uapi/linux/nbd-netlink.h`](srctree/include/uapi/linux/nbd-netlink.h)

#![forbid(unsafe_code)]

use super::{
    super::{
        super::kapi::genl::{
            attr_size_bytes,
            Handler,
            Message,
            Request,
            NEST_MAX_BYTES, //
        },
        status, //
    },
    attributes::{
        ATTR_DEVICE_LIST,
        ATTR_INDEX, //
    },
    optional_u32,
    CMD_STATUS,
    FAMILY, //
};
use kernel::prelude::*;

/// One device within the list.
const DEVICE_ITEM: u16 = 1;
/// Index of the device within [`DEVICE_ITEM`], 32 bits.
const DEVICE_INDEX: u16 = 1;
/// 1 if it is connected, else 0, within [`DEVICE_ITEM`], 8 bits.
const DEVICE_CONNECTED: u16 = 2;

/// The index that stands for all devices, as does none.
const ALL: u32 = u32::MAX;

/// What one device takes in the list.
const ITEM_BYTES: usize = attr_size_bytes(
    attr_size_bytes(size_of::<u32>()) + attr_size_bytes(size_of::<u8>()), //
);

/// How many devices fit into the list.
const ITEMS_MAX: usize = NEST_MAX_BYTES / ITEM_BYTES;

/// A device's index and whether it is connected.
type Entry = (u32, bool);

/// The handler; anybody may ask.
pub(super) struct Status;

impl Handler for Status {
    const COMMAND: u8 = CMD_STATUS;

    /// Replies with a list, which is empty for an index that does not exist.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the connected devices alone do not fit into the list; `ENOMEM`; errors of
    /// delivery.
    fn handle(request: &Request<'_>) -> Result {
        let index = optional_u32(request, ATTR_INDEX)?.filter(|index| *index != ALL);
        let devices = status(index)?;
        let list_bytes = devices.len().min(ITEMS_MAX).saturating_mul(ITEM_BYTES);
        let mut reply = request.reply(&FAMILY, CMD_STATUS, attr_size_bytes(list_bytes))?;

        reply.nest(ATTR_DEVICE_LIST, |list| put_devices(list, &devices))?;
        reply.send()
    }
}

/// Puts the devices, or those that fit, into the list.
fn put_devices(list: &mut Message, devices: &[Entry]) -> Result {
    if devices.len() <= ITEMS_MAX {
        return devices.iter().try_for_each(|device| put(list, device));
    }
    let connected = || devices.iter().filter(|(_, connected)| *connected);
    let room = ITEMS_MAX.checked_sub(connected().count()).ok_or(EMSGSIZE)?;
    let free = devices.iter().filter(|(_, connected)| !*connected);

    // By its full name, as initialisers have a `chain` too.
    Iterator::chain(connected(), free.take(room)).try_for_each(|device| put(list, device))
}

/// Puts one device into the list.
fn put(list: &mut Message, (index, connected): &Entry) -> Result {
    list.nest(DEVICE_ITEM, |item| {
        item.put_u32(DEVICE_INDEX, *index)?;
        item.put_u8(DEVICE_CONNECTED, u8::from(*connected))
    })
}
