// SPDX-License-Identifier: GPL-2.0
//! Whether the payload of writes goes into the socket by reference or by copy: a pure value, no lock.

#![forbid(unsafe_code)]

/// On which sockets payload is spliced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Splice {
    /// On none.
    #[default]
    Off,
    /// On TCP, which can be made to forget what it has not sent yet.
    Tcp,
    /// On UNIX sockets as well, which cannot.
    All,
}

impl Splice {
    /// Reads the value of the module parameter.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        match text {
            b"off" => Some(Self::Off),
            b"tcp" => Some(Self::Tcp),
            b"all" => Some(Self::All),
            _ => None,
        }
    }
}
