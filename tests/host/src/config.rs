// SPDX-License-Identifier: GPL-2.0
//! What a user may ask for: every boundary from both sides, and the rules for all that lies between.

#![forbid(unsafe_code)]

use proptest::prelude::*;

use crate::rnbd::config::{
    dead_connection_jiffies,
    index_in_range,
    timeout_jiffies,
    ExportSize,
    Numbering,
    ParameterError,
    SizeError,
    Splice, //
};

/// Both ends of each range of `max_part`, with the shift, the minors, the value read back and the
/// highest index.
const NUMBERINGS: [(i32, u32, u32, i32, u32); 17] = [
    (0, 0, 1, 0, 1_048_575),
    (1, 1, 2, 1, 524_287),
    (2, 2, 4, 3, 262_143),
    (3, 2, 4, 3, 262_143),
    (4, 3, 8, 7, 131_071),
    (7, 3, 8, 7, 131_071),
    (8, 4, 16, 15, 65_535),
    (15, 4, 16, 15, 65_535),
    (16, 5, 32, 31, 32_767),
    (31, 5, 32, 31, 32_767),
    (32, 6, 64, 63, 16_383),
    (63, 6, 64, 63, 16_383),
    (64, 7, 128, 127, 8_191),
    (127, 7, 128, 127, 8_191),
    (128, 8, 256, 255, 4_095),
    (200, 8, 256, 255, 4_095),
    (255, 8, 256, 255, 4_095),
];

#[test]
fn max_part_decides_the_numbering() {
    for (max_part, shift, minors, readback, max_index) in NUMBERINGS {
        let numbering = Numbering::new(max_part, 0, 1).unwrap();
        assert_eq!(numbering.minors_per_disk(), 1 << shift, "{max_part}");
        assert_eq!(numbering.minors_per_disk(), minors, "{max_part}");
        assert_eq!(numbering.max_part_readback(), readback, "{max_part}");
        assert_eq!(numbering.max_index(), max_index, "{max_part}");
        assert_eq!(numbering.scans_partitions(), max_part != 0, "{max_part}");
    }
}

#[test]
fn there_are_as_many_devices_as_minors_allow_and_not_one_more() {
    for (max_part, _, _, _, max_index) in NUMBERINGS {
        let most = i32::try_from(max_index).unwrap() + 1;
        for fits in [0, 1, most - 1, most] {
            let numbering = Numbering::new(max_part, fits, 1).unwrap();
            assert_eq!(numbering.devices(), u32::try_from(fits).unwrap());
        }
        for refused in [most + 1, i32::MAX, -1, i32::MIN] {
            let result = Numbering::new(max_part, refused, 1);
            assert_eq!(result, Err(ParameterError::TooManyDevices), "{refused}");
        }
    }
}

#[test]
fn connections_are_at_least_one() {
    for refused in [0, -1, i32::MIN] {
        let result = Numbering::new(16, 16, refused);
        assert_eq!(result, Err(ParameterError::NoConnections));
    }
    for (fits, connections) in [(1, 1), (2, 2), (i32::MAX, 0x7fff_ffff)] {
        let numbering = Numbering::new(16, 16, fits).unwrap();
        assert_eq!(numbering.connections(), connections);
    }
}

#[test]
fn the_first_bad_parameter_is_the_one_reported() {
    for (max_part, nbds_max, connections, error) in [
        (-1, -1, 0, ParameterError::NegativeMaxPart),
        (i32::MIN, 16, 1, ParameterError::NegativeMaxPart),
        (256, -1, 0, ParameterError::TooManyMinors),
        (i32::MAX, 16, 1, ParameterError::TooManyMinors),
        (16, 32_769, 0, ParameterError::TooManyDevices),
        (16, 32_768, 0, ParameterError::NoConnections),
    ] {
        assert_eq!(Numbering::new(max_part, nbds_max, connections), Err(error));
    }
}

#[test]
fn two_of_the_errors_are_logged() {
    let negative = ParameterError::NegativeMaxPart.message().unwrap();
    assert!(negative.contains("max_part"));
    let none = ParameterError::NoConnections.message().unwrap();
    assert!(none.contains("pre_defined_connections"));
    assert_eq!(ParameterError::TooManyMinors.message(), None);
    assert_eq!(ParameterError::TooManyDevices.message(), None);
}

#[test]
fn minors_follow_the_index() {
    let numbering = Numbering::new(16, 16, 1).unwrap();
    for (index, minor) in [(0, 0), (1, 32), (15, 480), (32_767, 1_048_544)] {
        assert_eq!(numbering.first_minor(index), minor);
        assert!(index_in_range(index, &numbering));
    }
    for index in [32_768, 1_048_576, u32::MAX] {
        assert!(!index_in_range(index, &numbering));
        assert!(numbering.first_minor(index) >= 1 << 20);
    }
}

#[test]
fn block_sizes_are_powers_of_two_from_512_to_64_kib() {
    let sizes = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
    for (bits, block) in (9..).zip(sizes) {
        let size = ExportSize::new(0, block).unwrap();
        assert_eq!(u64::from(size.block_size_bytes()), block);
        assert_eq!(size.block_size_bits(), bits);
        for neighbour in [block - 1, block + 1] {
            let result = ExportSize::new(0, neighbour);
            assert_eq!(result, Err(SizeError::BadBlockSize), "{neighbour}");
        }
    }
    for refused in [1, 2, 256, 768, 131_072, 1 << 32, (1 << 32) + 512, u64::MAX] {
        let result = ExportSize::new(0, refused);
        assert_eq!(result, Err(SizeError::BadBlockSize), "{refused}");
    }
}

#[test]
fn what_is_wrong_with_a_size_is_said_apart() {
    assert!(SizeError::BadBlockSize.message().contains("block size"));
    assert!(SizeError::TooLarge.message().starts_with("the size"));
}

#[test]
fn a_block_size_of_zero_is_the_default() {
    assert_eq!(ExportSize::new(0, 0), Ok(ExportSize::default()));
    let size = ExportSize::new(5000, 4096)
        .unwrap()
        .with_block_size(0)
        .unwrap();
    assert_eq!((size.size_bytes(), size.block_size_bytes()), (5000, 1024));
}

#[test]
fn sizes_reach_the_largest_signed_number() {
    let most = i64::MAX.unsigned_abs();
    for fits in [0, 1, 511, 512, 513, 1 << 40, most - 1, most] {
        let size = ExportSize::default().with_bytes(fits).unwrap();
        assert_eq!(size.size_bytes(), fits);
        assert_eq!(size.capacity_sectors(), fits / 512);
    }
    for refused in [most + 1, most + 2, u64::MAX] {
        let result = ExportSize::default().with_bytes(refused);
        assert_eq!(result, Err(SizeError::TooLarge));
    }
}

#[test]
fn a_bad_block_size_is_reported_before_a_bad_size() {
    assert_eq!(ExportSize::new(u64::MAX, 1), Err(SizeError::BadBlockSize));
}

#[test]
fn sizes_in_blocks_are_refused_where_the_bytes_do_not_fit() {
    for bits in 9..=16 {
        let size = ExportSize::new(0, 1 << bits).unwrap();
        let most = i64::MAX.unsigned_abs() >> bits;
        for fits in [0, 1, most - 1, most] {
            assert_eq!(size.with_blocks(fits).unwrap().size_bytes(), fits << bits);
        }
        // The last three overflow 64 bits, and to a small number at that.
        for refused in [most + 1, 1 << (64 - bits), (1 << (64 - bits)) + 1, u64::MAX] {
            assert_eq!(size.with_blocks(refused), Err(SizeError::TooLarge));
        }
    }
}

#[test]
fn a_new_block_size_keeps_the_bytes_and_changes_the_unit() {
    let size = ExportSize::default().with_blocks(3).unwrap();
    assert_eq!(size.size_bytes(), 3072);
    let size = size.with_block_size(4096).unwrap();
    assert_eq!((size.size_bytes(), size.block_size_bytes()), (3072, 4096));
    assert_eq!(size.with_blocks(3).unwrap().size_bytes(), 12_288);
}

#[test]
fn the_tail_is_what_no_block_covers() {
    for (bytes, block, tail) in [
        (0, 4096, 0),
        (1, 512, 1),
        (4095, 4096, 4095),
        (4096, 4096, 0),
        (4097, 4096, 1),
        (1023, 512, 511),
        (i64::MAX.unsigned_abs(), 65536, 65535),
    ] {
        let size = ExportSize::new(bytes, block).unwrap();
        assert_eq!(size.unreachable_tail_bytes(), tail, "{bytes} {block}");
    }
}

#[test]
fn timeouts_saturate_and_never_turn_short() {
    let longest = i32::MAX.unsigned_abs() - 1;
    for (seconds, hz, jiffies) in [
        (0, 250, 0),
        (1, 250, 250),
        (30, 100, 3000),
        (30, 1000, 30_000),
        (2_147_483, 1000, 2_147_483_000),
        (2_147_484, 1000, longest),
        (u64::from(longest) - 1, 1, longest - 1),
        (u64::from(longest), 1, longest),
        (u64::from(longest) + 1, 1, longest),
        // These would wrap to 0, 1 and 250 jiffies in 32 bits, and to 0 in 64.
        (1 << 32, 1, longest),
        ((1 << 32) + 1, 1, longest),
        ((1 << 32) + 1, 250, longest),
        (1 << 63, 250, longest),
        (u64::MAX, 1000, longest),
        (u64::MAX, u32::MAX, longest),
    ] {
        assert_eq!(timeout_jiffies(seconds, hz), jiffies, "{seconds} {hz}");
        let dead = dead_connection_jiffies(seconds, hz);
        assert_eq!(dead, u64::from(jiffies), "{seconds} {hz}");
    }
}

proptest! {
    #[test]
    fn disks_share_no_minors_and_stay_in_range(max_part in 0..256, index in 0..1_048_576_u32) {
        let numbering = Numbering::new(max_part, 0, 1).unwrap();
        let end = u64::from(numbering.first_minor(index)) + u64::from(numbering.minors_per_disk());
        let next = u64::from(numbering.first_minor(index + 1));
        prop_assert_eq!(end, next);
        prop_assert_eq!(index_in_range(index, &numbering), end <= 1 << 20);
        let readback = Numbering::new(numbering.max_part_readback(), 0, 1).unwrap();
        prop_assert_eq!(readback, numbering);
    }

    #[test]
    fn sizes_are_valid_or_refused(bytes: u64, block in prop_oneof![any::<u64>(), 0..140_000_u64]) {
        let good_block = block == 0 || [9, 10, 11, 12, 13, 14, 15, 16].map(|b| 1 << b).contains(&block);
        let expected = match (good_block, bytes >> 63) {
            (false, _) => Err(SizeError::BadBlockSize),
            (true, 1) => Err(SizeError::TooLarge),
            (true, _) => Ok((bytes, if block == 0 { 1024 } else { block })),
        };
        let result = ExportSize::new(bytes, block);
        let seen = result.map(|size| (size.size_bytes(), u64::from(size.block_size_bytes())));
        prop_assert_eq!(seen, expected);
        if let Ok(size) = result {
            let blocks = bytes / u64::from(size.block_size_bytes());
            let whole = size.with_blocks(blocks).unwrap().size_bytes();
            prop_assert_eq!(whole + size.unreachable_tail_bytes(), bytes);
        }
    }

    #[test]
    fn longer_timeouts_never_become_shorter(a: u64, b: u64, hz in 1..=1000_u32) {
        let (short, long) = (a.min(b), a.max(b));
        prop_assert!(timeout_jiffies(short, hz) <= timeout_jiffies(long, hz));
        prop_assert!(timeout_jiffies(long, hz) < i32::MAX.unsigned_abs());
        prop_assert_eq!(timeout_jiffies(long, hz) == 0, long == 0);
    }
}

#[test]
fn splice_is_one_of_three_words() {
    assert_eq!(Splice::parse(b"off"), Some(Splice::Off));
    assert_eq!(Splice::parse(b"tcp"), Some(Splice::Tcp));
    assert_eq!(Splice::parse(b"all"), Some(Splice::All));
    for refused in ["", "tcp\n", "TCP", "unix", "on", "off ", "1"] {
        assert_eq!(Splice::parse(refused.as_bytes()), None, "{refused:?}");
    }
}
