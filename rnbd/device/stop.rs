// SPDX-License-Identifier: GPL-2.0

//! Ending a session, and what is left to do when its last opener has gone.
//!
//! The slow part runs without the control lock: meanwhile the state `Stopping` keeps everybody else
//! away. No wait is for a peer, except for the second in which it may take the DISC message.

#![forbid(unsafe_code)]

use super::{
    super::{
        kapi::gendisk::Disk,
        registry, //
    },
    settings::Settings,
    state::State,
    Control,
    Device,
    Held,
    Owner, //
};

/// Whether the server is told that the session ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Farewell {
    /// By a DISC message on every connection.
    Said,
    /// Not at all, or it has been told before.
    Unsaid,
}

impl Device {
    /// Ends the running session: everything in flight fails, and no work of it is left when this
    /// returns. Does nothing if none runs.
    ///
    /// The caller has decided to under the lock that it hands over, so it is that very session.
    pub(crate) fn stop(&self, disk: &Disk<Self>, mut control: Held<'_>, farewell: Farewell) {
        if control.state.advance(State::Stopping).is_err() {
            return;
        }
        self.publish_state(&control);
        drop(control);
        // Taken out only at the end, so that late requests and timers find out what goes on.
        if let Some(connections) = self.running() {
            if farewell == Farewell::Said {
                connections.take_leave();
            }
            connections.end();
        }
        drop(self.running.close());
        let is_open = self.control.lock().openers > 0;
        if is_open {
            // So that no mount or cached page of this session ever meets the next one.
            disk.force_media_change();
        }
        let mut control = self.control.lock();
        // Legal from Stopping, where nobody else moves it.
        let _ = control.state.advance(State::Draining);
        if control.openers == 0 {
            self.wind_down(disk, &mut control);
        }
        self.publish_state(&control);
    }

    /// The session is over and nobody has the device open: makes it free, or removes it. What says
    /// that it is in use goes last.
    pub(super) fn wind_down(&self, disk: &Disk<Self>, control: &mut Control) {
        self.remove_presence(disk, control);
        control.settings = Settings::new();
        control.owner = Owner::Openers;
        match control.removal.take() {
            None => {
                let _ = control.state.advance(State::Free);
            }
            Some(removal) => {
                let _ = control.state.advance(State::Removing);
                registry::remove_soon(removal);
            }
        }
    }

    /// Resets the disk and removes what is visible of a session.
    pub(super) fn remove_presence(&self, disk: &Disk<Self>, control: &mut Control) {
        let had_size = control.settings.size.size_bytes() != 0;
        let presence = control.presence.take();
        disk.invalidate();
        self.reset_limits(disk);
        disk.set_request_timeout(Settings::new().request_timeout_jiffies());
        self.drop_partitions(disk, control);
        let visible = presence.is_some();
        drop(presence);
        self.observed.end();
        if had_size && visible {
            disk.notify_change();
        }
    }
}
