// SPDX-License-Identifier: GPL-2.0

//! What can be seen of a device in sysfs and debugfs. It only reads: [`Observed`] is written by those
//! who change a device, and read without any of their locks, since removing a file waits for its
//! readers.

#![forbid(unsafe_code)]

mod progress;

use core::fmt::Write;

use kernel::{
    new_spinlock,
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        ArcBorrow,
        SpinLock, //
    }, //
};

use super::{
    config::ExportSize,
    device::{
        settings::Settings,
        state::State,
        Device, //
    },
    kapi::{
        debugfs::{
            Dir,
            Root,
            View, //
        },
        gendisk::Disk,
        sysfs::{
            Attribute,
            Show,
            Text, //
        }, //
    },
    proto::ServerFlags, //
};

/// `/sys/block/nbdN/pid`: who started the session. There while one runs.
pub(crate) static PID: Attribute<Device> = Attribute::new::<ShowPid>(c"pid");

/// `/sys/block/nbdN/backend`: what the export is. There while a session set up by netlink runs.
pub(crate) static BACKEND: Attribute<Device> = Attribute::new::<ShowBackend>(c"backend");

/// The values that are shown.
#[pin_data]
pub(crate) struct Observed {
    pid: Atomic<i32>,
    size_bytes: Atomic<u64>,
    block_size_bits: Atomic<u32>,
    timeout_jiffies: Atomic<u32>,
    server_flags: Atomic<u32>,
    #[pin]
    backend: SpinLock<Option<Arc<KVec<u8>>>>,
    #[pin]
    state: SpinLock<State>,
}

impl Observed {
    /// Nothing to be seen.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                pid: Atomic::new(0),
                size_bytes: Atomic::new(0),
                block_size_bits: Atomic::new(0),
                timeout_jiffies: Atomic::new(0),
                server_flags: Atomic::new(0),
                backend <- new_spinlock!(None, "rnbd::Observed::backend"),
                state <- new_spinlock!(State::Free, "rnbd::Observed::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// The device has gone to another state.
    pub(crate) fn set_state(&self, state: State) {
        *self.state.lock() = state;
    }

    /// The state it is in.
    fn state(&self) -> State {
        *self.state.lock()
    }

    /// A session begins.
    pub(crate) fn begin(&self, pid: i32, settings: &Settings) {
        self.pid.store(pid, Relaxed);
        self.set_size(settings.size);
        self.set_timeout(settings.timeout_jiffies);
        self.set_server_flags(settings.server_flags);
        let before = core::mem::replace(&mut *self.backend.lock(), settings.backend.clone());
        drop(before);
    }

    /// It has ended.
    pub(crate) fn end(&self) {
        self.pid.store(0, Relaxed);
        let before = self.backend.lock().take();
        drop(before);
    }

    /// The size has changed.
    pub(crate) fn set_size(&self, size: ExportSize) {
        self.size_bytes.store(size.size_bytes(), Relaxed);
        self.block_size_bits.store(size.block_size_bits(), Relaxed);
    }

    /// The timeout has changed.
    pub(crate) fn set_timeout(&self, jiffies: u32) {
        self.timeout_jiffies.store(jiffies, Relaxed);
    }

    /// The server's flags have changed.
    pub(crate) fn set_server_flags(&self, flags: ServerFlags) {
        self.server_flags.store(flags.bits(), Relaxed);
    }
}

struct ShowPid;

impl Show<Device> for ShowPid {
    fn show(disk: &Disk<Device>, text: &mut Text<'_>) -> Result {
        writeln!(text, "{}", disk.observed.pid.load(Relaxed))?;
        Ok(())
    }
}

struct ShowBackend;

impl Show<Device> for ShowBackend {
    fn show(disk: &Disk<Device>, text: &mut Text<'_>) -> Result {
        let backend = disk.observed.backend.lock().clone();
        if let Some(backend) = backend {
            text.push(&backend);
        }
        text.push(b"\n");
        Ok(())
    }
}

/// The device's debugfs directory.
pub(crate) type Directory = Dir<Arc<Observed>>;

/// Makes the driver's debugfs directory, with the files about all devices.
///
/// # Errors
///
/// debugfs is not there, or is full.
pub(crate) fn root() -> Result<Arc<Root>> {
    let root = Root::new(c"nbd")?;
    root.file::<progress::Devices>(c"devices")?;
    root.file::<progress::Connections>(c"connections")?;
    Ok(Arc::new(root, GFP_KERNEL)?)
}

/// Makes the debugfs directory of the device called `name`.
///
/// # Errors
///
/// debugfs is full.
pub(crate) fn directory(
    name: &CStr,
    root: Arc<Root>,
    observed: &Arc<Observed>,
) -> Result<Directory> {
    let dir = Dir::new(name, root, observed.clone())?;
    dir.file::<Tasks>(c"tasks")?;
    dir.file::<SizeBytes>(c"size_bytes")?;
    dir.file::<Timeout>(c"timeout")?;
    dir.file::<BlockSizeBits>(c"blocksize_bits")?;
    dir.file::<Flags>(c"flags")?;
    Ok(dir)
}

/// The C driver's line for the task behind the session.
struct Tasks;

impl View<Arc<Observed>> for Tasks {
    fn show(observed: ArcBorrow<'_, Observed>, out: &SeqFile) {
        let pid = observed.pid.load(Relaxed);
        if pid != 0 {
            seq_print!(out, "recv: {}\n", pid);
        }
    }
}

struct SizeBytes;

impl View<Arc<Observed>> for SizeBytes {
    fn show(observed: ArcBorrow<'_, Observed>, out: &SeqFile) {
        seq_print!(out, "{}\n", observed.size_bytes.load(Relaxed));
    }
}

/// In jiffies, as ever.
struct Timeout;

impl View<Arc<Observed>> for Timeout {
    fn show(observed: ArcBorrow<'_, Observed>, out: &SeqFile) {
        seq_print!(out, "{}\n", observed.timeout_jiffies.load(Relaxed));
    }
}

struct BlockSizeBits;

impl View<Arc<Observed>> for BlockSizeBits {
    fn show(observed: ArcBorrow<'_, Observed>, out: &SeqFile) {
        seq_print!(out, "{}\n", observed.block_size_bits.load(Relaxed));
    }
}

struct Flags;

impl Flags {
    /// In the order in which they have always been listed; `CAN_MULTI_CONN` never was.
    const NAMES: [(ServerFlags, &'static str); 7] = [
        (ServerFlags::HAS_FLAGS, "NBD_FLAG_HAS_FLAGS"),
        (ServerFlags::READ_ONLY, "NBD_FLAG_READ_ONLY"),
        (ServerFlags::SEND_FLUSH, "NBD_FLAG_SEND_FLUSH"),
        (ServerFlags::SEND_FUA, "NBD_FLAG_SEND_FUA"),
        (ServerFlags::SEND_TRIM, "NBD_FLAG_SEND_TRIM"),
        (ServerFlags::SEND_WRITE_ZEROES, "NBD_FLAG_SEND_WRITE_ZEROES"),
        (ServerFlags::ROTATIONAL, "NBD_FLAG_ROTATIONAL"),
    ];
}

impl View<Arc<Observed>> for Flags {
    fn show(observed: ArcBorrow<'_, Observed>, out: &SeqFile) {
        let flags = ServerFlags::from_bits(observed.server_flags.load(Relaxed));
        seq_print!(out, "Hex: {:#010x}\n\nKnown flags:\n", flags.bits());
        for (flag, name) in Self::NAMES {
            if flags.contains(flag) {
                seq_print!(out, "{}\n", name);
            }
        }
    }
}
