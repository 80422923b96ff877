// SPDX-License-Identifier: GPL-2.0

//! A request as a message to the server: which command carries it out, its header, its payload.
//!
//! Specification: "Request message" of the NBD protocol.

#![forbid(unsafe_code)]

use super::super::{
    device::Device,
    kapi::request::{
        Operation,
        Started,
        Tag, //
    },
    proto::{
        Command,
        CommandFlags,
        Cookie,
        Request,
        REQUEST_BYTES, //
    }, //
};

/// A request on its way into the socket, held by the sender.
pub(crate) struct Outgoing {
    /// Its slot.
    pub(crate) tag: Tag,
    /// What the server has to answer with.
    pub(crate) cookie: Cookie,
    /// The request.
    pub(crate) request: Started<Device>,
    /// The socket will refer to its pages, perhaps for longer than the connection lives.
    pub(crate) lingers: bool,
}

impl Outgoing {
    /// Its header, ready for the wire; [`None`] for an operation that NBD does not know, which is
    /// refused at dispatch.
    pub(crate) fn header(&self) -> Option<[u8; REQUEST_BYTES]> {
        let request = Request {
            command: command(self.request.operation())?,
            flags: CommandFlags {
                fua: self.request.is_fua(),
                no_hole: self.request.operation() == Operation::WriteZeroes
                    && self.request.is_no_unmap(),
            },
            cookie: self.cookie,
            offset_bytes: self.request.offset_bytes(),
            length_bytes: self.request.length_bytes(),
        };
        Some(request.encode())
    }

    /// How many bytes of payload follow the header.
    pub(crate) fn payload_bytes(&self) -> u32 {
        match command(self.request.operation()) {
            Some(command) if command.sends_payload() => self.request.length_bytes(),
            _ => 0,
        }
    }
}

/// The command that carries out an operation.
pub(crate) fn command(operation: Operation) -> Option<Command> {
    match operation {
        Operation::Read => Some(Command::Read),
        Operation::Write => Some(Command::Write),
        Operation::Flush => Some(Command::Flush),
        Operation::Discard => Some(Command::Trim),
        Operation::WriteZeroes => Some(Command::WriteZeroes),
        Operation::Other => None,
    }
}
