// SPDX-License-Identifier: GPL-2.0
//! What the receiving machine reads ahead of time: how few receives it takes, and what is copied.

#![forbid(unsafe_code)]

use crate::rnbd::connection::rx::{
    Rx,
    RxFault,
    Step,
    BUFFER_BYTES, //
};
use crate::rnbd::proto::REPLY_BYTES;
use crate::rx::{
    answer,
    feed,
    reply_bytes,
    Pages,
    Receiver, //
};

#[test]
fn many_replies_come_with_one_receive() {
    let answers: Vec<_> = (0..80).map(|number| answer(0, number, 0)).collect();
    let mut receiver = Receiver::new(&answers);
    receiver.finish();
    assert_eq!(receiver.receives, (80 * REPLY_BYTES).div_ceil(BUFFER_BYTES));
}

#[test]
fn reads_that_follow_each_other_take_one_receive_each_and_are_not_copied() {
    let answers: Vec<_> = (0..10).map(|number| answer(0, number, 700)).collect();
    let mut receiver = Receiver::new(&answers);
    // The first reply is met without warning, alone.
    receiver.receive(REPLY_BYTES);
    receiver.finish();
    assert_eq!((receiver.receives, receiver.copied), (1 + 10, 0));
}

#[test]
fn payload_that_comes_without_warning_is_copied_to_its_request() {
    let answers = [answer(0, 1, 0), answer(0, 2, 700), answer(0, 3, 5)];
    let mut receiver = Receiver::new(&answers);
    receiver.finish();
    assert_eq!(receiver.copied, BUFFER_BYTES - 2 * REPLY_BYTES);
}

#[test]
fn a_payload_behind_which_a_reply_is_buffered_is_copied_no_further_than_its_end() {
    let mut rx = Rx::<Pages>::new();
    let mut bytes = reply_bytes(0, 1).to_vec();
    bytes.extend([7; 3]);
    bytes.extend(reply_bytes(5, 2));
    assert!(matches!(feed(&mut rx, &bytes), Ok(Step::Reply(_))));
    assert!(rx.expect_payload(Pages(vec![0; 3]), 3).is_ok());
    assert_eq!(rx.step(), Ok(Step::Buffered));
    assert!(rx.want().is_none());
    assert_eq!(rx.advance(1), Err(RxFault::Overrun));
    assert_eq!(rx.buffered_payload().map(|(_, bytes)| bytes.len()), Some(3));
    assert_eq!(rx.take_buffered(4), Err(RxFault::Overrun));
    assert_eq!(rx.take_buffered(2), Ok(()));
    assert_eq!(rx.take_buffered(2), Err(RxFault::Overrun));
    assert_eq!(rx.take_buffered(1), Ok(()));
    assert_eq!(rx.step(), Ok(Step::Received(Pages(vec![0; 3]))));
    assert!(matches!(rx.step(), Ok(Step::Reply(reply)) if reply.error == 5));
    rx.finish_reply();
    assert!(rx.at_message_boundary());
}
