// SPDX-License-Identifier: GPL-2.0
//! What a server's error value means for the request it answers: one pure table, no lock.
//!
//! Source: "Error values" in the NBD protocol document. They look like Linux errnos but are numbers
//! of the protocol, the same on every platform.

#![forbid(unsafe_code)]

use super::command::Command;

/// `NBD_ENOSPC`: no room left for the data.
const WIRE_ENOSPC: u32 = 28;

/// `NBD_ENOTSUP`: the server cannot do this, though it may do other things.
const WIRE_ENOTSUP: u32 = 95;

/// How a request that was answered has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server did what was asked.
    Ok,
    /// It failed, and why does not matter to the caller.
    IoError,
    /// The export has no room for the data (`ENOSPC`).
    NoSpace,
    /// The server does not offer the command, and the caller has another way (`EOPNOTSUPP`).
    NotSupported,
}

/// Says what the error value of a reply means for a request with this command.
///
/// | error            | READ, FLUSH | WRITE   | TRIM         | WRITE_ZEROES |
/// | ---------------- | ----------- | ------- | ------------ | ------------ |
/// | 0                | Ok          | Ok      | Ok           | Ok           |
/// | 28, `ENOSPC`     | IoError     | NoSpace | IoError      | NoSpace      |
/// | 95, `ENOTSUP`    | IoError     | IoError | NotSupported | NotSupported |
/// | every other      | IoError     | IoError | IoError      | IoError      |
///
/// An error keeps its meaning only where the block core has a use for it. A FLUSH in particular must
/// not report "not supported", which the block core could take for a flush with nothing to do.
pub(crate) const fn outcome(command: Command, error: u32) -> Outcome {
    match (error, command) {
        (0, _) => Outcome::Ok,
        (WIRE_ENOSPC, Command::Write | Command::WriteZeroes) => Outcome::NoSpace,
        (WIRE_ENOTSUP, Command::Trim | Command::WriteZeroes) => Outcome::NotSupported,
        _ => Outcome::IoError,
    }
}
