// SPDX-License-Identifier: GPL-2.0

//! Starting a session on a device. Runs under the device's control lock, waits for nobody, and leaves
//! the device as it was if anything fails.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    super::{
        connections::Connections,
        kapi::{
            gendisk::Disk,
            module_ref::ModuleRef, //
        },
        observe,
        proto::ServerFlags,
        registry::{
            self,
            Shared, //
        },
        request::Slots,
        session::Session, //
    },
    refusal,
    scan::Scan,
    state::State,
    Control,
    Device,
    Owner,
    Presence, //
};

impl Device {
    /// Starts the session that the settings describe, on behalf of the task `pid`.
    ///
    /// Nothing is visible before everything is in place: limits, then the size, then `pid`, then the
    /// uevent. No queue is frozen, as no I/O can reach a device of size 0 without a write cache.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a socket, or with several if the server does not allow that; `ENODEV` while
    /// the module is being unloaded; `ENOMEM`. The sockets are gone then.
    pub(crate) fn start(
        &self,
        disk: &Disk<Self>,
        control: &mut Control,
        owner: Owner,
        pid: i32,
    ) -> Result {
        let (before, owner_before) = (control.state, control.owner);
        self.check_sockets(disk, control)?;
        control.state.advance(State::Starting).map_err(|_| EBUSY)?;
        self.observed.set_state(control.state);
        control.owner = owner;
        let result = self.try_start(disk, control, pid);
        let after = if result.is_ok() {
            State::Running
        } else {
            before
        };
        if let Err(error) = result {
            refusal!(disk, "cannot start: {:?}\n", error);
            self.undo_start(disk, control);
            control.owner = owner_before;
        }
        // Both moves are legal from Starting.
        let _ = control.state.advance(after);
        self.publish_state(control);
        result
    }

    fn check_sockets(&self, disk: &Disk<Self>, control: &Control) -> Result {
        let settings = &control.settings;
        if settings.sockets.is_empty() {
            refusal!(disk, "there is no socket to start with\n");
            return Err(EINVAL);
        }
        if settings.sockets.len() > 1
            && !settings.server_flags.contains(ServerFlags::CAN_MULTI_CONN)
        {
            refusal!(
                disk,
                "the server does not allow several connections: give one socket\n"
            );
            return Err(EINVAL);
        }
        Ok(())
    }

    fn try_start(&self, disk: &Disk<Self>, control: &mut Control, pid: i32) -> Result {
        let module = ModuleRef::try_get().ok_or(ENODEV)?;
        let shared = registry::shared()?;
        let root = shared.debugfs.clone();
        let connections = self.connect(disk, control, shared)?;
        self.running.open(connections);
        self.apply_limits(disk, control)?;
        disk.set_request_timeout(control.settings.request_timeout_jiffies());
        disk.set_read_only(
            control
                .settings
                .server_flags
                .contains(ServerFlags::READ_ONLY),
        );
        self.observed.begin(pid, &control.settings);
        let backend = match control.owner {
            Owner::Netlink => Some(observe::BACKEND.create(disk)?),
            Owner::Openers => None,
        };
        self.apply_capacity(disk, control);
        control.presence = Some(Presence {
            _pid: observe::PID.create(disk)?,
            _backend: backend,
            // An aid: the device works without.
            _debugfs: root
                .and_then(|root| observe::directory(disk.name(), root, &self.observed).ok()),
            _module: module,
        });
        disk.notify_change();
        self.scan_soon(disk, control);
        Ok(())
    }

    fn connect(
        &self,
        disk: &Disk<Self>,
        control: &mut Control,
        shared: Shared,
    ) -> Result<Arc<Connections>> {
        if control.scan.is_none() {
            control.scan = Some(Scan::new()?);
        }
        let slots = match &control.slots {
            Some(slots) => slots.clone(),
            None => Arc::new(Slots::new(disk.hctxs(), disk.depth())?, GFP_KERNEL)?,
        };
        control.slots = Some(slots.clone());
        let settings = &mut control.settings;
        let session = Session::new(self.index, slots, shared.queues, shared.reserves)?;
        session.set_server_flags(settings.server_flags);
        session.set_timeout(settings.timeout_jiffies);
        session.set_dead_connection_timeout(settings.dead_connection_jiffies);
        Connections::start(
            session,
            disk.hctxs(),
            core::mem::take(&mut settings.sockets),
        )
    }

    /// Takes back what a start that failed half-way has done.
    fn undo_start(&self, disk: &Disk<Self>, control: &mut Control) {
        if let Some(connections) = self.running.close() {
            connections.end();
        }
        self.remove_presence(disk, control);
    }
}
