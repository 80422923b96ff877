// SPDX-License-Identifier: GPL-2.0

//! What a session of a device is, or will be, made of. Protected by the device's control lock.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::super::{
    config::{
        dead_connection_jiffies,
        timeout_jiffies,
        ExportSize, //
    },
    kapi::{
        socket::Candidate,
        time::HZ, //
    },
    proto::ServerFlags, //
};

/// The block layer's timeout where the user has set none.
pub(crate) const TIMEOUT_DEFAULT_S: u32 = 30;

const TIMEOUT_DEFAULT_JIFFIES: u32 = TIMEOUT_DEFAULT_S * HZ;

/// The settings of one session; they are back at their defaults when it is over.
pub(crate) struct Settings {
    pub(crate) size: ExportSize,
    pub(crate) server_flags: ServerFlags,
    /// 0 if the user has set none.
    pub(crate) timeout_jiffies: u32,
    pub(crate) dead_connection_jiffies: u64,
    pub(crate) disconnect_on_close: bool,
    /// The sockets for the session; empty once it runs.
    pub(crate) sockets: KVec<Candidate>,
    /// They have been shut down before a session began.
    sockets_are_over: bool,
    /// The thread that hands in the sockets, if they come by ioctl.
    pub(crate) owner_thread: Option<i32>,
    /// What the export is, in the user's words.
    pub(crate) backend: Option<Arc<KVec<u8>>>,
}

impl Settings {
    /// The defaults.
    pub(crate) fn new() -> Self {
        Self {
            size: ExportSize::default(),
            server_flags: ServerFlags::default(),
            timeout_jiffies: 0,
            dead_connection_jiffies: 0,
            disconnect_on_close: false,
            sockets: KVec::new(),
            sockets_are_over: false,
            owner_thread: None,
            backend: None,
        }
    }

    /// Ends the sockets that were handed in, and forgets who did that. They stay until others come:
    /// whoever is disconnected by somebody else just before DO_IT gets a session that is over at once.
    pub(crate) fn end_sockets(&mut self) {
        for socket in &self.sockets {
            socket.shutdown();
        }
        self.sockets_are_over = true;
        self.owner_thread = None;
    }

    /// Makes room for sockets that take the place of those that are over.
    pub(crate) fn drop_ended_sockets(&mut self) {
        if core::mem::take(&mut self.sockets_are_over) {
            self.sockets.clear();
        }
    }

    /// Sets the request timeout.
    pub(crate) fn set_timeout(&mut self, seconds: u64) {
        self.timeout_jiffies = timeout_jiffies(seconds, HZ);
    }

    /// The timeout for the block layer, which cannot do without.
    pub(crate) fn request_timeout_jiffies(&self) -> u32 {
        match self.timeout_jiffies {
            0 => TIMEOUT_DEFAULT_JIFFIES,
            jiffies => jiffies,
        }
    }

    /// Sets how long requests wait while no connection lives.
    pub(crate) fn set_dead_connection_timeout(&mut self, seconds: u64) {
        self.dead_connection_jiffies = dead_connection_jiffies(seconds, HZ);
    }
}
