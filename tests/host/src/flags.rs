// SPDX-License-Identifier: GPL-2.0
//! The flags against their bits as the header has them.

#![forbid(unsafe_code)]

use crate::rnbd::proto::{
    ClientFlags,
    ServerFlags, //
};

const SERVER_BITS: [(ServerFlags, u32); 8] = [
    (ServerFlags::HAS_FLAGS, 0x001),
    (ServerFlags::READ_ONLY, 0x002),
    (ServerFlags::SEND_FLUSH, 0x004),
    (ServerFlags::SEND_FUA, 0x008),
    (ServerFlags::ROTATIONAL, 0x010),
    (ServerFlags::SEND_TRIM, 0x020),
    (ServerFlags::SEND_WRITE_ZEROES, 0x040),
    (ServerFlags::CAN_MULTI_CONN, 0x100),
];

#[test]
fn server_flags_have_the_bits_of_the_protocol() {
    for (flag, bit) in SERVER_BITS {
        assert_eq!(flag.bits(), bit);
        assert!(ServerFlags::from_bits(u32::MAX).contains(flag));
        assert!(!ServerFlags::from_bits(!bit).contains(flag));
        assert!(!ServerFlags::default().contains(flag));
    }
}

#[test]
fn contains_wants_every_bit() {
    let both = ServerFlags::from_bits(0x00c);
    assert!(both.contains(ServerFlags::SEND_FLUSH));
    assert!(both.contains(both));
    assert!(!ServerFlags::SEND_FLUSH.contains(both));
    assert!(both.contains(ServerFlags::default()));
}

#[test]
fn client_flags_have_the_bits_of_the_header() {
    assert_eq!(
        ClientFlags::DESTROY_ON_DISCONNECT,
        ClientFlags::from_bits(1)
    );
    assert_eq!(ClientFlags::DISCONNECT_ON_CLOSE, ClientFlags::from_bits(2));
    assert_eq!(ClientFlags::default(), ClientFlags::from_bits(0));
    let unknown = ClientFlags::from_bits(u64::MAX - 1);
    assert!(unknown.contains(ClientFlags::DISCONNECT_ON_CLOSE));
    assert!(!unknown.contains(ClientFlags::DESTROY_ON_DISCONNECT));
}
