// SPDX-License-Identifier: GPL-2.0
//! The numbers of netlink attributes, ioctls and module parameters: none trips the checks, and what
//! passes them is in range. The attributes themselves are taken apart by the kernel.

#![no_main]
#![allow(dead_code, unused_imports, reason = "not all of a room is used here")]

use libfuzzer_sys::fuzz_target;

#[path = "../../../rnbd"]
mod rnbd {
    pub(crate) mod config;
    pub(crate) mod limits;
    pub(crate) mod proto;
    pub(crate) mod spread;
}

use rnbd::{
    config::{
        dead_connection_jiffies,
        index_in_range,
        timeout_jiffies,
        ExportSize,
        Numbering, //
    },
    limits::{
        resize_kind,
        Limits, //
    },
    proto::{
        Cookie,
        ServerFlags, //
    },
    spread::Spread,
};

/// Gives numbers out of the input, zeroes when it has ended.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> u64 {
        let Some((bytes, rest)) = self.0.split_first_chunk::<8>() else {
            return 0;
        };
        self.0 = rest;
        u64::from_le_bytes(*bytes)
    }

    fn next_u32(&mut self) -> u32 {
        self.next() as u32
    }
}

fn check_size(size: ExportSize, flags: ServerFlags) {
    assert!(size.size_bytes() <= i64::MAX as u64);
    assert_eq!(1 << size.block_size_bits(), size.block_size_bytes());
    assert!((512..=65536).contains(&size.block_size_bytes()));
    assert_eq!(size.capacity_sectors(), size.size_bytes() / 512);
    assert_eq!(
        size.unreachable_tail_bytes(),
        size.size_bytes() % u64::from(size.block_size_bytes())
    );
    let limits = Limits::for_export(size, flags);
    assert!(limits.logical_block_size_bytes >= 512);
    assert!(limits.logical_block_size_bytes <= limits.physical_block_size_bytes);
    assert!(u64::from(limits.max_hw_sectors) * 512 >= u64::from(limits.logical_block_size_bytes));
    // FUA means something only to a cache.
    assert!(!limits.fua || limits.write_cache);
}

fn check_sizes(numbers: &mut Numbers<'_>) {
    let flags = ServerFlags::from_bits(numbers.next_u32());
    let sizes = [
        ExportSize::new(numbers.next(), numbers.next()),
        ExportSize::default().with_block_size(numbers.next()),
        ExportSize::default().with_bytes(numbers.next()),
        ExportSize::default().with_blocks(numbers.next()),
    ];
    let good: Vec<_> = sizes.into_iter().filter_map(Result::ok).collect();
    for size in &good {
        check_size(*size, flags);
        for other in &good {
            let _ = resize_kind(*size, *other);
        }
    }
}

fn check_numbering(numbers: &mut Numbers<'_>) {
    let parameters = [(); 3].map(|()| numbers.next_u32() as i32);
    let Ok(numbering) = Numbering::new(parameters[0], parameters[1], parameters[2]) else {
        return;
    };
    let minors = 1 << 20;
    assert!(numbering.minors_per_disk() >= 1 && numbering.connections() >= 1);
    for index in [0, numbers.next_u32(), numbering.max_index()] {
        if index_in_range(index, &numbering) {
            let first = numbering.first_minor(index);
            assert!(first + numbering.minors_per_disk() <= minors);
        }
    }
}

fn check_spread(numbers: &mut Numbers<'_>) {
    let spread = Spread {
        queues: numbers.next_u32() % 300,
        connections: numbers.next_u32() % 300,
    };
    let queue = numbers.next_u32() % 400;
    let served: Vec<_> = (0..spread.count(queue))
        .map(|turn| spread.nth(queue, turn))
        .collect();
    for connection in served {
        assert!(connection.is_none_or(|connection| connection < spread.connections));
    }
}

fuzz_target!(|data: &[u8]| {
    let mut numbers = Numbers(data);
    check_sizes(&mut numbers);
    check_numbering(&mut numbers);
    check_spread(&mut numbers);
    for hz in [100, 250, 1000] {
        let seconds = numbers.next();
        let bounded = u128::from(seconds) * u128::from(hz);
        assert!(u128::from(timeout_jiffies(seconds, hz)) <= bounded);
        assert!(u128::from(dead_connection_jiffies(seconds, hz)) <= bounded);
    }
    let raw = numbers.next();
    assert_eq!(Cookie::from_u64(raw).to_u64(), raw);
});
