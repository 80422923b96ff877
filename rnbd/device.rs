// SPDX-License-Identifier: GPL-2.0

//! One device `/dev/nbdN`: what is set up on it, whether a session runs, and who has it open.
//!
//! [`Device::control`] protects all of that and is the outermost lock of the driver within a device; it
//! is never held while waiting for a peer. [`Device::running`] is the session as the I/O path sees it:
//! a gate, without a lock.

#![forbid(unsafe_code)]

pub(crate) mod scan;
pub(crate) mod settings;
pub(crate) mod size;
mod start;
pub(crate) mod state;
mod stop;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        lock::{
            mutex::MutexBackend,
            Guard, //
        },
        Arc,
        Mutex, //
    }, //
};

pub(crate) use self::stop::Farewell;
use self::{
    scan::Scan,
    settings::Settings,
    state::State, //
};
use super::{
    config::Numbering,
    connections::Connections,
    kapi::{
        gate::{
            Gate,
            Inside, //
        },
        gendisk::Disk,
        module_ref::ModuleRef,
        ratelimit::RateLimit,
        sysfs,
        wait::{
            new_wait_queue,
            Sleep,
            WaitQueue,
            Woken, //
        }, //
    },
    observe::{
        Directory,
        Observed, //
    },
    proto::ServerFlags,
    registry::{
        self,
        Availability,
        Removal, //
    },
    request::Slots, //
};

/// Who decides over a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// Whoever opens it, by ioctls.
    Openers,
    /// Netlink; ioctls can only end the session.
    Netlink,
}

/// What exists from the start of a session to the end of its teardown, in the order of going away.
pub(crate) struct Presence {
    _debugfs: Option<Directory>,
    _backend: Option<sysfs::File<Device>>,
    _pid: sysfs::File<Device>,
    /// Last: afterwards the module may go.
    _module: ModuleRef,
}

/// What [`Device::control`] protects.
pub(crate) struct Control {
    pub(crate) state: State,
    /// How many times the device is open.
    pub(crate) openers: u32,
    pub(crate) owner: Owner,
    /// What a session is, or will be, made of.
    pub(crate) settings: Settings,
    /// The server flags that the queue limits were made from.
    limits_flags: ServerFlags,
    presence: Option<Presence>,
    /// Made with the first session and kept, so that looking for partitions cannot fail.
    scan: Option<Arc<Scan>>,
    /// Made with the first session and kept: the tag set never changes.
    slots: Option<Arc<Slots>>,
    /// Set if the device is to be removed when its session has ended.
    pub(crate) removal: Option<Pin<KBox<Removal>>>,
}

/// The control lock of a device, held.
pub(crate) type Held<'a> = Guard<'a, Control, MutexBackend>;

/// The driver's part of a disk.
#[pin_data]
pub(crate) struct Device {
    pub(crate) index: u32,
    numbering: Numbering,
    pub(crate) observed: Arc<Observed>,
    running: Gate<Connections>,
    #[pin]
    pub(crate) control: Mutex<Control>,
    /// The task that scans for partitions just now.
    scanner: Atomic<i32>,
    /// The state as those see it who wait for it to change, or only ask, without the lock.
    is_connected: Atomic<bool>,
    is_stopping: Atomic<bool>,
    is_going_away: Atomic<bool>,
    /// Woken when the state has changed.
    #[pin]
    settled: WaitQueue,
    /// How often it says why it refuses something.
    pub(crate) refusals: RateLimit,
}

/// Says in the log why a device refuses something, unless it has said too much already.
macro_rules! refusal {
    ($disk:expr, $($message:tt)*) => {
        if $disk.refusals.allow() {
            ::kernel::dev_err!($disk, $($message)*);
        }
    };
}
pub(crate) use refusal;

impl Device {
    /// A free device.
    pub(crate) fn new(
        index: u32,
        numbering: Numbering,
        observed: Arc<Observed>,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            index,
            numbering,
            observed,
            running: Gate::new(),
            control <- new_mutex!(
                Control {
                    state: State::Free,
                    openers: 0,
                    owner: Owner::Openers,
                    settings: Settings::new(),
                    limits_flags: ServerFlags::default(),
                    presence: None,
                    scan: None,
                    slots: None,
                    removal: None,
                },
                "rnbd::Device::control"
            ),
            scanner: Atomic::new(scan::NO_SCANNER),
            is_connected: Atomic::new(false),
            is_stopping: Atomic::new(false),
            is_going_away: Atomic::new(false),
            settled <- new_wait_queue!("rnbd::Device::settled"),
            refusals: RateLimit::new(),
        }? Error)
    }

    /// The connections of the running session.
    pub(crate) fn running(&self) -> Option<Arc<Connections>> {
        self.running.get()
    }

    /// The same for the I/O path of a hardware queue, which may not keep them.
    pub(crate) fn running_for(&self, hctx: u32) -> Option<Inside<'_, Connections>> {
        self.running.enter(hctx)
    }

    /// Waits until the session that is being ended, or whose openers are still there, is gone.
    ///
    /// # Errors
    ///
    /// It is not gone after `timeout_jiffies`, or a fatal signal came.
    pub(crate) fn wait_until_settled(&self, timeout_jiffies: usize) -> Result<(), Woken> {
        self.settled.wait(Sleep::Killable, timeout_jiffies, || {
            !self.is_going_away.load(Relaxed)
        })
    }

    /// Waits until nobody is ending the session any more, for at most `timeout_jiffies`. Its openers may
    /// still be there.
    pub(crate) fn wait_until_stopped(&self, timeout_jiffies: usize) {
        // Who ends it goes on anyway.
        let _ = self.settled.wait(Sleep::Killable, timeout_jiffies, || {
            !self.is_stopping.load(Relaxed)
        });
    }

    /// Whether somebody uses the device: what STATUS says.
    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected.load(Relaxed)
    }

    /// Makes a change of the state, or of whether the device is open, known.
    pub(crate) fn publish_state(&self, control: &Control) {
        let state = control.state;
        registry::publish(self.index, control.availability());
        self.observed.set_state(state);
        self.is_connected.store(state.is_connected(), Relaxed);
        self.is_stopping.store(state == State::Stopping, Relaxed);
        self.is_going_away.store(state.is_going_away(), Relaxed);
        self.settled.wake_all();
    }

    /// Makes a free device one that is being set up by its openers; any other stays what it is.
    pub(crate) fn begin_set_up(&self, control: &mut Control) {
        if control.state.advance(State::SettingUp).is_ok() {
            self.publish_state(control);
        }
    }

    /// Makes the timeout that of the settings, if a session runs.
    pub(crate) fn apply_timeout(&self, disk: &Disk<Self>, control: &Control) {
        let Some(connections) = self.running() else {
            return;
        };
        let settings = &control.settings;
        connections.session().set_timeout(settings.timeout_jiffies);
        self.observed.set_timeout(settings.timeout_jiffies);
        disk.set_request_timeout(settings.request_timeout_jiffies());
    }

    /// Another opener.
    ///
    /// # Errors
    ///
    /// `ENXIO` if the device is being removed.
    pub(crate) fn opened(&self, disk: &Disk<Self>) -> Result {
        let mut control = self.control.lock();
        if control.state == State::Removing {
            return Err(ENXIO);
        }
        if self.is_scanner() {
            return Ok(());
        }
        control.openers = control.openers.saturating_add(1);
        // A device without a session still has the partitions of the last one.
        if control.openers == 1 && control.state != State::Running {
            self.request_partition_scan(disk);
        }
        if control.openers == 1 && control.state == State::Free {
            self.publish_state(&control);
        }
        Ok(())
    }

    /// One opener less.
    pub(crate) fn closed(&self, disk: &Disk<Self>) {
        if self.is_scanner() {
            return;
        }
        let mut control = self.control.lock();
        control.openers = control.openers.saturating_sub(1);
        if control.openers > 0 {
            return;
        }
        match control.state {
            State::SettingUp => control.forget_set_up(),
            State::Draining => self.wind_down(disk, &mut control),
            State::Running if control.settings.disconnect_on_close => {
                return self.stop(disk, control, Farewell::Said);
            }
            _ => (),
        }
        self.publish_state(&control);
    }
}

impl Control {
    /// Whether CONNECT may choose the device.
    fn availability(&self) -> Availability {
        match self.state {
            State::Free if self.openers == 0 => Availability::Unopened,
            State::Free => Availability::Opened,
            _ => Availability::Taken,
        }
    }

    /// Forgets an unfinished set-up.
    fn forget_set_up(&mut self) {
        self.settings = Settings::new();
        let _ = self.state.advance(State::Free);
    }
}
