// SPDX-License-Identifier: GPL-2.0
//! The receiving machine against a stream that arrives in any pieces: every reply and every payload
//! comes out whole and in order, and no fault makes it guess.

#![forbid(unsafe_code)]

use proptest::prelude::*;

use crate::rnbd::connection::rx::{
    Rx,
    RxFault,
    Step,
    BUFFER_BYTES, //
};
use crate::rnbd::proto::{
    Cookie,
    Reply,
    REPLY_BYTES, //
};

/// Stands for a request with its pages: neither `Copy` nor `Clone`, so that it cannot be in two
/// places.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pages(pub(crate) Vec<u8>);

/// Encodes a reply as a server would.
pub(crate) fn reply_bytes(error: u32, cookie: u64) -> [u8; REPLY_BYTES] {
    let mut bytes = [0; REPLY_BYTES];
    bytes[..4].copy_from_slice(&[0x67, 0x44, 0x66, 0x98]);
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// One answer of a server: the error, the cookie and the payload.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    error: u32,
    cookie: u64,
    payload: Vec<u8>,
}

pub(crate) fn answer(error: u32, number: usize, payload_bytes: usize) -> Answer {
    let value = |place: usize| ((number * 59 + place * 7) % 251) as u8;
    Answer {
        error,
        cookie: 0x0123_4567_89ab_cdef_u64.rotate_left(number as u32),
        payload: (0..payload_bytes).map(value).collect(),
    }
}

/// Answers with and without payload, in every neighbourhood.
fn mixed() -> Vec<Answer> {
    let rows = [(0, 0), (0, 5), (5, 0), (0, 1), (0, 17), (0, 0), (28, 0)];
    let numbered = rows.into_iter().enumerate();
    numbered
        .map(|(number, (error, bytes))| answer(error, number, bytes))
        .collect()
}

/// A machine and the stream that feeds it.
pub(crate) struct Receiver<'a> {
    rx: Rx<Pages>,
    answers: &'a [Answer],
    stream: Vec<u8>,
    ends: Vec<usize>,
    read: usize,
    /// How many replies and how many whole answers came out.
    replies: usize,
    whole: usize,
    /// How many receives that took, and how many bytes were copied.
    pub(crate) receives: usize,
    pub(crate) copied: usize,
}

impl<'a> Receiver<'a> {
    pub(crate) fn new(answers: &'a [Answer]) -> Self {
        let (mut stream, mut ends) = (Vec::new(), vec![0]);
        for answer in answers {
            stream.extend(reply_bytes(answer.error, answer.cookie));
            stream.extend(&answer.payload);
            ends.push(stream.len());
        }
        Self {
            rx: Rx::new(),
            answers,
            stream,
            ends,
            read: 0,
            replies: 0,
            whole: 0,
            receives: 0,
            copied: 0,
        }
    }

    /// Receives at most `limit_bytes` of what has arrived, and takes all steps that follow.
    pub(crate) fn receive(&mut self, limit_bytes: usize) {
        let arrived = &self.stream[self.read..];
        let mut rest = &arrived[..limit_bytes.min(arrived.len())];
        let want = self.rx.want().expect("a stream in order wants bytes");
        if let Some(payload) = want.payload {
            let (offset, length) = (payload.offset_bytes as usize, payload.length_bytes as usize);
            assert_eq!(offset + length, payload.request.0.len());
            let (bytes, behind) = rest.split_at(length.min(rest.len()));
            payload.request.0[offset..offset + bytes.len()].copy_from_slice(bytes);
            rest = behind;
        }
        assert!(!want.buffer.is_empty());
        let ahead = rest.len().min(want.buffer.len());
        want.buffer[..ahead].copy_from_slice(&rest[..ahead]);
        let received = limit_bytes.min(arrived.len()) - (rest.len() - ahead);
        self.read += received;
        self.receives += 1;
        assert_eq!(self.rx.advance(received), Ok(()));
        while self.take_step() {}
        assert_eq!(
            self.rx.at_message_boundary(),
            self.ends.contains(&self.read)
        );
    }

    /// Takes one step, and says whether there may be another one.
    fn take_step(&mut self) -> bool {
        match self.rx.step().expect("the stream has no fault") {
            Step::More => return false,
            Step::Reply(reply) => self.decide(reply),
            Step::Buffered => self.copy(),
            Step::Received(pages) => {
                assert_eq!(pages.0, self.answers[self.replies - 1].payload);
                self.whole += 1;
            }
        }
        true
    }

    /// Copies what has come ahead of time, in two pieces if it can be halved.
    fn copy(&mut self) {
        let (payload, bytes) = self.rx.buffered_payload().expect("payload is there");
        let length = payload.length_bytes as usize;
        assert!(!bytes.is_empty() && bytes.len() <= length);
        let now = bytes.len().div_ceil(2);
        let offset = payload.offset_bytes as usize;
        payload.request.0[offset..offset + now].copy_from_slice(&bytes[..now]);
        self.copied += now;
        assert_eq!(self.rx.take_buffered(now), Ok(()));
    }

    /// Checks a reply and says what follows it, as the owner of the cookies would.
    fn decide(&mut self, reply: Reply) {
        let answer = &self.answers[self.replies];
        self.replies += 1;
        assert_eq!(reply.error, answer.error);
        assert_eq!(reply.cookie, Cookie::from_u64(answer.cookie));
        assert_eq!(self.rx.step(), Ok(Step::Reply(reply)));
        assert!(self.rx.want().is_none() && !self.rx.at_message_boundary());
        if answer.payload.is_empty() {
            self.rx.finish_reply();
            self.whole += 1;
        } else {
            let pages = Pages(vec![0; answer.payload.len()]);
            let payload_bytes = answer.payload.len() as u32;
            assert_eq!(self.rx.expect_payload(pages, payload_bytes), Ok(()));
        }
    }

    /// Receives in pieces of at most `limit_bytes` until `until_bytes` are read.
    fn run(&mut self, limit_bytes: usize, until_bytes: usize) {
        while self.read < until_bytes {
            self.receive(limit_bytes.min(until_bytes - self.read));
        }
    }

    pub(crate) fn finish(&mut self) {
        self.run(usize::MAX, self.stream.len());
        assert_eq!(self.replies, self.answers.len());
        assert_eq!(self.whole, self.answers.len());
        assert!(self.rx.at_message_boundary());
    }
}

#[test]
fn any_piece_size_receives_the_whole_stream() {
    let answers = mixed();
    for piece in 1..=Receiver::new(&answers).stream.len() {
        let mut receiver = Receiver::new(&answers);
        receiver.run(piece, receiver.stream.len());
        receiver.finish();
    }
}

#[test]
fn any_single_split_receives_the_whole_stream() {
    let answers = mixed();
    for split in 0..=Receiver::new(&answers).stream.len() {
        let mut receiver = Receiver::new(&answers);
        receiver.run(usize::MAX, split);
        receiver.receive(0);
        receiver.finish();
    }
}

#[test]
fn a_death_at_any_byte_gives_back_the_request_being_received() {
    let answers = mixed();
    for split in 0..=Receiver::new(&answers).stream.len() {
        let mut receiver = Receiver::new(&answers);
        receiver.run(usize::MAX, split);
        let receiving = receiver.replies != receiver.whole;
        let Some(pages) = receiver.rx.take() else {
            assert!(!receiving);
            receiver.finish();
            continue;
        };
        assert!(receiving);
        assert_eq!(pages.0.len(), answers[receiver.whole].payload.len());
        assert_broken(&mut receiver.rx);
    }
}

/// Checks that nothing moves the machine any more.
fn assert_broken(rx: &mut Rx<Pages>) {
    rx.finish_reply();
    assert_eq!(rx.expect_payload(Pages(vec![7]), 1), Err(Pages(vec![7])));
    assert!(rx.want().is_none() && rx.take().is_none());
    assert!(rx.buffered_payload().is_none() && !rx.at_message_boundary());
    assert_eq!(rx.step(), Ok(Step::More));
    assert_eq!(rx.advance(0), Ok(()));
    assert_eq!(rx.advance(1), Err(RxFault::Overrun));
    assert_eq!(rx.take_buffered(1), Err(RxFault::Overrun));
}

/// Puts bytes into the machine's buffer and takes the first step.
pub(crate) fn feed(rx: &mut Rx<Pages>, bytes: &[u8]) -> Result<Step<Pages>, RxFault> {
    let want = rx.want().expect("bytes are wanted");
    assert!(want.payload.is_none());
    want.buffer[..bytes.len()].copy_from_slice(bytes);
    assert_eq!(rx.advance(bytes.len()), Ok(()));
    rx.step()
}

#[test]
fn a_bad_magic_breaks_the_stream_for_good() {
    let mut rx = Rx::<Pages>::new();
    let mut bytes = reply_bytes(0, 1);
    bytes[3] = 0x99;
    assert_eq!(feed(&mut rx, &bytes), Err(RxFault::BadMagic(0x6744_6699)));
    assert_broken(&mut rx);
}

#[test]
fn a_bad_magic_behind_good_messages_is_noticed_when_its_turn_comes() {
    let mut rx = Rx::<Pages>::new();
    let mut bytes = reply_bytes(0, 1).to_vec();
    bytes.extend(reply_bytes(7, 2));
    bytes.extend([0; REPLY_BYTES]);
    assert!(matches!(feed(&mut rx, &bytes), Ok(Step::Reply(_))));
    rx.finish_reply();
    assert!(matches!(rx.step(), Ok(Step::Reply(reply)) if reply.error == 7));
    rx.finish_reply();
    assert_eq!(rx.step(), Err(RxFault::BadMagic(0)));
    assert_broken(&mut rx);
}

#[test]
fn more_than_wanted_is_an_overrun_and_counts_nothing() {
    let mut rx = Rx::<Pages>::new();
    for received in [BUFFER_BYTES + 1, usize::MAX] {
        assert_eq!(rx.advance(received), Err(RxFault::Overrun));
        assert!(rx.at_message_boundary());
    }
    assert_eq!(feed(&mut rx, &reply_bytes(0, 1)[..15]), Ok(Step::More));
    assert_eq!(rx.advance(BUFFER_BYTES - 14), Err(RxFault::Overrun));
    assert!(!rx.at_message_boundary());
    assert!(matches!(
        feed(&mut rx, &reply_bytes(0, 1)[15..]),
        Ok(Step::Reply(_))
    ));
    assert_eq!(rx.advance(1), Err(RxFault::Overrun));
    assert_eq!(rx.advance(0), Ok(()));
    assert!(rx.expect_payload(Pages(vec![0; 4]), 4).is_ok());
    assert_eq!(rx.advance(3), Ok(()));
    for received in [18, 1 << 32, (1 << 32) + 1, usize::MAX] {
        assert_eq!(rx.advance(received), Err(RxFault::Overrun));
    }
    assert_eq!(rx.step(), Ok(Step::More));
    assert_eq!(rx.advance(1), Ok(()));
    assert_eq!(rx.step(), Ok(Step::Received(Pages(vec![0; 4]))));
    assert!(rx.at_message_boundary());
}

#[test]
fn decisions_without_a_pending_reply_change_nothing() {
    let mut rx = Rx::<Pages>::new();
    rx.finish_reply();
    assert_eq!(rx.expect_payload(Pages(vec![]), 1), Err(Pages(vec![])));
    assert!(rx.take().is_none() && rx.at_message_boundary());

    assert_eq!(feed(&mut rx, &reply_bytes(0, 1)[..5]), Ok(Step::More));
    rx.finish_reply();
    assert_eq!(rx.expect_payload(Pages(vec![]), 1), Err(Pages(vec![])));
    assert!(rx.take().is_none() && !rx.at_message_boundary());
    assert!(matches!(
        feed(&mut rx, &reply_bytes(0, 1)[5..]),
        Ok(Step::Reply(_))
    ));

    assert!(rx.take().is_none());
    assert!(rx.expect_payload(Pages(vec![1]), 1).is_ok());
    rx.finish_reply();
    assert_eq!(rx.expect_payload(Pages(vec![2]), 1), Err(Pages(vec![2])));
    assert_eq!(rx.step(), Ok(Step::More));
    assert_eq!(rx.take(), Some(Pages(vec![1])));
    assert_broken(&mut rx);
}

#[test]
fn a_payload_of_nothing_is_complete_at_once() {
    let mut rx = Rx::<Pages>::new();
    assert!(feed(&mut rx, &reply_bytes(0, 1)).is_ok());
    assert!(rx.expect_payload(Pages(vec![]), 0).is_ok());
    assert!(rx.want().is_none());
    assert_eq!(rx.advance(1), Err(RxFault::Overrun));
    assert_eq!(rx.step(), Ok(Step::Received(Pages(vec![]))));
}

#[test]
fn the_largest_payload_is_counted_to_its_last_byte() {
    let mut rx = Rx::<Pages>::new();
    assert!(feed(&mut rx, &reply_bytes(0, 1)).is_ok());
    assert!(rx.expect_payload(Pages(vec![]), u32::MAX).is_ok());
    assert_eq!(rx.advance(u32::MAX as usize - 1), Ok(()));
    assert_eq!(rx.step(), Ok(Step::More));
    assert_eq!(rx.advance(2 + REPLY_BYTES), Err(RxFault::Overrun));
    assert_eq!(rx.advance(1), Ok(()));
    assert_eq!(rx.step(), Ok(Step::Received(Pages(vec![]))));
}

/// Answers as a server may give them: payload only without an error.
fn answers() -> impl Strategy<Value = Vec<Answer>> {
    let row = prop_oneof![
        2 => (0..1_u32, 1..60_usize),
        1 => (0..1_u32, 400..900_usize),
        3 => (0..1_u32, Just(0)),
        1 => (1_u32.., Just(0)),
    ];
    prop::collection::vec(row, 0..40).prop_map(|rows| {
        let numbered = rows.into_iter().enumerate();
        numbered
            .map(|(number, (error, bytes))| answer(error, number, bytes))
            .collect()
    })
}

proptest! {
    #[test]
    fn any_pieces_give_the_same_replies(
        answers in answers(),
        pieces in prop::collection::vec(prop_oneof![0..70_usize, 0..1200_usize], 0..200),
    ) {
        let mut receiver = Receiver::new(&answers);
        for piece in pieces {
            receiver.receive(piece);
        }
        receiver.finish();
    }

    #[test]
    fn no_bytes_make_it_guess(bytes: [u8; REPLY_BYTES], good: bool) {
        let mut bytes = bytes;
        if good {
            bytes[..4].copy_from_slice(&[0x67, 0x44, 0x66, 0x98]);
        }
        let mut rx = Rx::<Pages>::new();
        let step = feed(&mut rx, &bytes);
        match Reply::decode(&bytes) {
            Ok(reply) => prop_assert_eq!(step, Ok(Step::Reply(reply))),
            Err(bad) => {
                prop_assert_eq!(step, Err(RxFault::BadMagic(bad.0)));
                assert_broken(&mut rx);
            }
        }
    }
}
