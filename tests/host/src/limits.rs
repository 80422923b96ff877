// SPDX-License-Identifier: GPL-2.0
//! Queue limits for every combination of server flags and block size, against the rules of the block
//! core.

#![forbid(unsafe_code)]

use crate::rnbd::config::ExportSize;
use crate::rnbd::limits::{
    commit_mode,
    resize_kind,
    Commit,
    Limits,
    Resize, //
};
use crate::rnbd::proto::ServerFlags;

const IDLE: Limits = Limits {
    logical_block_size_bytes: 512,
    physical_block_size_bytes: 512,
    io_min_bytes: 512,
    io_opt_bytes: 131_072,
    max_hw_sectors: 65_536,
    max_hw_discard_sectors: 0,
    max_write_zeroes_sectors: 0,
    write_cache: false,
    fua: false,
    rotational: false,
};

fn size(size_bytes: u64, block_size_bytes: u64) -> ExportSize {
    ExportSize::new(size_bytes, block_size_bytes).unwrap()
}

#[test]
fn an_idle_device_has_the_defaults_of_the_block_core() {
    assert_eq!(Limits::idle(), IDLE);
}

#[test]
fn an_export_without_flags_only_has_its_block_size() {
    for bits in 9..=16 {
        let block = 1 << bits;
        let limits = Limits::for_export(size(1 << 30, block.into()), ServerFlags::default());
        let expected = Limits {
            logical_block_size_bytes: block,
            physical_block_size_bytes: block,
            io_min_bytes: block,
            ..IDLE
        };
        assert_eq!(limits, expected);
    }
}

#[test]
fn each_server_flag_has_its_effect_and_no_other() {
    let block = size(1 << 30, 512);
    for bits in 0..0x400 {
        let has = |bit: u32| bits & (1 << bit) != 0;
        let expected = Limits {
            write_cache: has(2),
            fua: has(2) && has(3),
            rotational: has(4),
            max_hw_discard_sectors: if has(5) { 8_388_607 } else { 0 },
            max_write_zeroes_sectors: if has(6) { 8_388_607 } else { 0 },
            ..IDLE
        };
        let flags = ServerFlags::from_bits(bits);
        assert_eq!(Limits::for_export(block, flags), expected, "{bits:#x}");
    }
}

#[test]
fn limits_are_whole_blocks() {
    for bits in 9..=16 {
        let block = 1_u32 << bits;
        let limits = Limits::for_export(size(0, block.into()), ServerFlags::default());
        assert_eq!(limits.io_opt_bytes % block, 0);
        assert_eq!(limits.max_hw_sectors % (block / 512), 0);
        assert!(limits.io_opt_bytes >= block && limits.max_hw_sectors >= block / 512);
    }
}

#[test]
fn the_size_of_an_export_does_not_touch_its_limits() {
    let flags = ServerFlags::from_bits(u32::MAX);
    let empty = Limits::for_export(size(0, 4096), flags);
    let huge = Limits::for_export(size(i64::MAX.unsigned_abs(), 4096), flags);
    assert_eq!(empty, huge);
}

#[test]
fn only_a_device_that_can_have_no_request_skips_the_freeze() {
    assert_eq!(commit_mode(0, false), Commit::Unfrozen);
    assert_eq!(commit_mode(0, true), Commit::Frozen);
    for capacity_sectors in [1, 2, u64::MAX] {
        assert_eq!(commit_mode(capacity_sectors, false), Commit::Frozen);
        assert_eq!(commit_mode(capacity_sectors, true), Commit::Frozen);
    }
}

#[test]
fn only_another_block_size_needs_new_limits() {
    let old = size(1 << 20, 1024);
    for (new, kind) in [
        (old, Resize::Nothing),
        (size((1 << 20) + 1, 1024), Resize::SizeOnly),
        (size((1 << 20) - 1, 1024), Resize::SizeOnly),
        (size(0, 1024), Resize::SizeOnly),
        (size(1 << 20, 512), Resize::Limits),
        (size(1 << 20, 2048), Resize::Limits),
        (size(1 << 21, 2048), Resize::Limits),
    ] {
        assert_eq!(resize_kind(old, new), kind);
    }
}
