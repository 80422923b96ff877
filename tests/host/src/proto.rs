// SPDX-License-Identifier: GPL-2.0
//! The wire format against bytes written out by hand, and against a second reading of the protocol.

#![forbid(unsafe_code)]

use proptest::prelude::*;

use crate::rnbd::proto::{
    outcome,
    BadMagic,
    Command,
    CommandFlags,
    Cookie,
    Outcome,
    Reply,
    Request,
    REPLY_BYTES,
    REQUEST_BYTES, //
};

/// Each command with its number and what it does: send payload, receive payload, modify.
const COMMANDS: [(Command, u8, bool, bool, bool); 6] = [
    (Command::Read, 0, false, true, false),
    (Command::Write, 1, true, false, true),
    (Command::Disconnect, 2, false, false, false),
    (Command::Flush, 3, false, false, false),
    (Command::Trim, 4, false, false, true),
    (Command::WriteZeroes, 6, false, false, true),
];

fn any_command() -> impl Strategy<Value = Command> {
    prop::sample::select(COMMANDS.map(|row| row.0).to_vec())
}

fn any_cookie() -> impl Strategy<Value = Cookie> {
    any::<u64>().prop_map(Cookie::from_u64)
}

fn request(command: Command, fua: bool, no_hole: bool) -> Request {
    Request {
        command,
        flags: CommandFlags { fua, no_hole },
        cookie: Cookie {
            generation: 0xa1a2_a3a4,
            hctx: 0xb1b2,
            tag: 0xc1c2,
        },
        offset_bytes: 0x0102_0304_0506_0708,
        length_bytes: 0x1112_1314,
    }
}

#[test]
fn a_write_is_encoded_byte_for_byte() {
    let expected: [u8; REQUEST_BYTES] = [
        0x25, 0x60, 0x95, 0x13, // magic
        0x00, 0x01, 0x00, 0x01, // FUA, WRITE
        0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2, 0xc1, 0xc2, // cookie
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, // offset
        0x11, 0x12, 0x13, 0x14, // length
    ];
    assert_eq!(request(Command::Write, true, false).encode(), expected);
}

#[test]
fn each_command_and_flag_has_its_place_in_the_type_field() {
    for (command, number, ..) in COMMANDS {
        for (fua, no_hole, mut flags) in [
            (false, false, 0),
            (true, false, 1),
            (false, true, 2),
            (true, true, 3),
        ] {
            if command == Command::Disconnect {
                flags = 0;
            }
            let bytes = request(command, fua, no_hole).encode();
            assert_eq!(bytes[4..8], [0, flags, 0, number], "{command:?}");
        }
    }
}

#[test]
fn flush_has_no_range_and_disconnect_nothing_at_all() {
    let flush = request(Command::Flush, false, false).encode();
    assert_eq!(
        flush[8..16],
        [0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2, 0xc1, 0xc2]
    );
    assert_eq!(flush[16..], [0; 12]);
    let disconnect = request(Command::Disconnect, true, true).encode();
    assert_eq!(disconnect[..8], [0x25, 0x60, 0x95, 0x13, 0, 0, 0, 2]);
    assert_eq!(disconnect[8..], [0; 20]);
}

#[test]
fn each_command_says_what_it_does() {
    for (command, _, sends, receives, modifies) in COMMANDS {
        assert_eq!(command.sends_payload(), sends, "{command:?}");
        assert_eq!(command.receives_payload(), receives, "{command:?}");
        assert_eq!(command.modifies(), modifies, "{command:?}");
    }
}

#[test]
fn a_reply_is_decoded_byte_for_byte() {
    let bytes: [u8; REPLY_BYTES] = [
        0x67, 0x44, 0x66, 0x98, // magic
        0x01, 0x02, 0x03, 0x04, // error
        0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2, 0xc1, 0xc2, // cookie
    ];
    let expected = Reply {
        error: 0x0102_0304,
        cookie: request(Command::Read, false, false).cookie,
    };
    assert_eq!(Reply::decode(&bytes), Ok(expected));
}

#[test]
fn other_magics_are_refused() {
    // Structured reply, extended reply, request, the two that were never to be used, and ±1.
    for magic in [
        0x668e_33ef,
        0x6e8a_278c,
        0x2560_9513,
        0x1256_0953,
        0x9674_4668,
        0x6744_6697,
        0x6744_6699,
        0_u32,
        u32::MAX,
    ] {
        let mut bytes = [0; REPLY_BYTES];
        bytes[..4].copy_from_slice(&magic.to_be_bytes());
        assert_eq!(Reply::decode(&bytes), Err(BadMagic(magic)));
    }
}

#[test]
fn a_single_wrong_bit_in_the_magic_is_noticed() {
    for bit in 0..32 {
        let magic = 0x6744_6698_u32 ^ (1 << bit);
        let mut bytes = [0; REPLY_BYTES];
        bytes[..4].copy_from_slice(&magic.to_be_bytes());
        assert_eq!(Reply::decode(&bytes), Err(BadMagic(magic)));
    }
}

/// The errors that mean something for a command; everything else is an I/O error.
fn expected_outcome(command: Command, error: u32) -> Outcome {
    match (command, error) {
        (_, 0) => Outcome::Ok,
        (Command::Write, 28) | (Command::WriteZeroes, 28) => Outcome::NoSpace,
        (Command::Trim, 95) | (Command::WriteZeroes, 95) => Outcome::NotSupported,
        _ => Outcome::IoError,
    }
}

#[test]
fn every_error_value_of_the_protocol_has_its_outcome() {
    // All that the protocol defines are below 110: EPERM 1, EIO 5, ENOMEM 12, EINVAL 22, ENOSPC 28,
    // EOVERFLOW 75, ENOTSUP 95, ESHUTDOWN 108.
    for error in (0..=200).chain([u32::MAX - 27, u32::MAX - 1, u32::MAX]) {
        for (command, ..) in COMMANDS {
            let expected = expected_outcome(command, error);
            assert_eq!(outcome(command, error), expected, "{command:?} {error}");
        }
    }
}

proptest! {
    #[test]
    fn cookies_survive_the_wire(raw: u64, generation: u32, hctx: u16, tag: u16) {
        prop_assert_eq!(Cookie::from_u64(raw).to_u64(), raw);
        let cookie = Cookie { generation, hctx, tag };
        prop_assert_eq!(Cookie::from_u64(cookie.to_u64()), cookie);
    }

    #[test]
    fn a_server_reads_what_was_asked(
        command in any_command(),
        fua: bool,
        no_hole: bool,
        cookie in any_cookie(),
        offset_bytes: u64,
        length_bytes: u32,
    ) {
        let flags = CommandFlags { fua, no_hole };
        let asked = Request { command, flags, cookie, offset_bytes, length_bytes };
        let bytes = asked.encode();
        let number = |range: std::ops::Range<usize>| {
            bytes[range].iter().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte))
        };
        let ranged = !matches!(command, Command::Flush | Command::Disconnect);
        let named = command != Command::Disconnect;
        prop_assert_eq!(number(0..4), 0x2560_9513);
        prop_assert_eq!(number(4..8) & (1 << 16) != 0, named && fua);
        prop_assert_eq!(number(4..8) & (1 << 17) != 0, named && no_hole);
        prop_assert_eq!(number(8..16), if named { cookie.to_u64() } else { 0 });
        prop_assert_eq!(number(16..24), if ranged { offset_bytes } else { 0 });
        prop_assert_eq!(number(24..28), if ranged { u64::from(length_bytes) } else { 0 });
    }

    #[test]
    fn any_sixteen_bytes_are_a_reply_or_a_bad_magic(bytes: [u8; REPLY_BYTES]) {
        let magic = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        prop_assume!(magic != 0x6744_6698);
        prop_assert_eq!(Reply::decode(&bytes), Err(BadMagic(magic)));
    }

    #[test]
    fn replies_survive_the_wire(error: u32, raw: u64) {
        let bytes = crate::rx::reply_bytes(error, raw);
        let expected = Reply { error, cookie: Cookie::from_u64(raw) };
        prop_assert_eq!(Reply::decode(&bytes), Ok(expected));
    }
}
