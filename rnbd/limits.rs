// SPDX-License-Identifier: GPL-2.0
//! What the block core is told about a device: size, block size and server flags in, queue limits
//! out; pure values, no lock.
//!
//! The values are those the block core would arrive at by itself, so that what is asked for and what
//! sysfs shows are the same.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h), `struct queue_limits`;
//! `blk_validate_limits()` in [`block/blk-settings.c`](srctree/block/blk-settings.c)

#![forbid(unsafe_code)]

use super::config::ExportSize;
use super::proto::ServerFlags;

/// One sector.
const SECTOR_BYTES: u32 = 512;

/// The largest request: 32 MiB, which is also the largest payload common servers take.
const MAX_HW_SECTORS: u32 = 65536;

/// The size a reader should prefer, which decides the read-ahead.
const IO_OPT_BYTES: u32 = 128 * 1024;

/// The longest range of a command without payload: as many whole sectors as the 32-bit length of a
/// request can say.
const MAX_RANGE_SECTORS: u32 = u32::MAX / SECTOR_BYTES;

/// The queue limits and features of a device, as far as this driver decides them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The unit of addressing.
    pub(crate) logical_block_size_bytes: u32,
    /// The unit that is written without a read.
    pub(crate) physical_block_size_bytes: u32,
    /// The smallest request that is worth making.
    pub(crate) io_min_bytes: u32,
    /// The request size that works best.
    pub(crate) io_opt_bytes: u32,
    /// The largest request.
    pub(crate) max_hw_sectors: u32,
    /// The longest discard; zero if the server has no TRIM.
    pub(crate) max_hw_discard_sectors: u32,
    /// The longest WRITE_ZEROES; zero if the server has none.
    pub(crate) max_write_zeroes_sectors: u32,
    /// The server may hold data in a volatile cache and takes FLUSH.
    pub(crate) write_cache: bool,
    /// The server takes FUA; only together with a write cache.
    pub(crate) fua: bool,
    /// The export behaves like a spinning disk.
    pub(crate) rotational: bool,
}

impl Limits {
    /// Returns the limits of a device without a session.
    pub(crate) const fn idle() -> Self {
        Self {
            logical_block_size_bytes: SECTOR_BYTES,
            physical_block_size_bytes: SECTOR_BYTES,
            io_min_bytes: SECTOR_BYTES,
            io_opt_bytes: IO_OPT_BYTES,
            max_hw_sectors: MAX_HW_SECTORS,
            max_hw_discard_sectors: 0,
            max_write_zeroes_sectors: 0,
            write_cache: false,
            fua: false,
            rotational: false,
        }
    }

    /// Returns the limits of a device that serves this export.
    ///
    /// FUA counts only together with FLUSH: the block core knows no FUA without a write cache.
    pub(crate) fn for_export(size: ExportSize, flags: ServerFlags) -> Self {
        let block_size_bytes = size.block_size_bytes();
        let range_sectors = |flag| {
            if flags.contains(flag) {
                MAX_RANGE_SECTORS
            } else {
                0
            }
        };
        let write_cache = flags.contains(ServerFlags::SEND_FLUSH);
        Self {
            logical_block_size_bytes: block_size_bytes,
            physical_block_size_bytes: block_size_bytes,
            io_min_bytes: block_size_bytes,
            io_opt_bytes: round_down(IO_OPT_BYTES, block_size_bytes),
            max_hw_sectors: round_down(MAX_HW_SECTORS, block_size_bytes / SECTOR_BYTES),
            max_hw_discard_sectors: range_sectors(ServerFlags::SEND_TRIM),
            max_write_zeroes_sectors: range_sectors(ServerFlags::SEND_WRITE_ZEROES),
            write_cache,
            fua: write_cache && flags.contains(ServerFlags::SEND_FUA),
            rotational: flags.contains(ServerFlags::ROTATIONAL),
        }
    }
}

/// Returns the largest multiple of `step` that is not above `value`; `value` itself if `step` is 0.
fn round_down(value: u32, step: u32) -> u32 {
    value.saturating_sub(value.checked_rem(step).unwrap_or(0))
}

/// How new limits are put in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// At once: no request can be under way that the old limits have shaped.
    Unfrozen,
    /// With the queue frozen, which waits for every request.
    Frozen,
}

/// Decides how limits are committed on a device with this capacity and write cache setting.
///
/// Without capacity the block core lets no request through but a FLUSH, and without a write cache not
/// even that.
pub(crate) const fn commit_mode(capacity_sectors: u64, write_cache: bool) -> Commit {
    if capacity_sectors == 0 && !write_cache {
        Commit::Unfrozen
    } else {
        Commit::Frozen
    }
}

/// What a live resize has to touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resize {
    /// Nothing has changed.
    Nothing,
    /// The capacity only, which needs no freeze.
    SizeOnly,
    /// The limits as well, since the block size is another one.
    Limits,
}

/// Decides what a change from `old` to `new` has to touch.
pub(crate) fn resize_kind(old: ExportSize, new: ExportSize) -> Resize {
    if old.block_size_bytes() != new.block_size_bytes() {
        Resize::Limits
    } else if old != new {
        Resize::SizeOnly
    } else {
        Resize::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::round_down;

    #[test]
    fn rounding_goes_down_to_whole_steps() {
        for (value, step, rounded) in [
            (0, 8, 0),
            (7, 8, 0),
            (8, 8, 8),
            (9, 8, 8),
            (15, 8, 8),
            (u32::MAX, 1 << 31, 1 << 31),
            (13, 1, 13),
            (13, 0, 13),
        ] {
            assert_eq!(round_down(value, step), rounded, "{value} {step}");
        }
    }
}
