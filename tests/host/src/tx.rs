// SPDX-License-Identifier: GPL-2.0
//! The sending machine against a socket that takes any number of bytes at a time: the stream comes
//! out whole and in order, and every request comes back exactly once, wherever the connection dies.

#![forbid(unsafe_code)]

use proptest::prelude::*;

use crate::rnbd::connection::tx::{
    Overrun,
    Part,
    Tx,
    RUN, //
};
use crate::rnbd::proto::REQUEST_BYTES;

/// Stands for a request: neither `Copy` nor `Clone`, so that it cannot be in two places.
#[derive(Debug)]
struct Message {
    id: usize,
    payload: Vec<u8>,
}

/// Bytes that differ from message to message and from place to place.
fn pattern(id: usize, salt: usize, length: usize) -> Vec<u8> {
    let value = |place: usize| (id * 59 + salt * 101 + place * 7) % 251;
    (0..length).map(|place| value(place) as u8).collect()
}

fn header(id: usize) -> [u8; REQUEST_BYTES] {
    pattern(id, 1, REQUEST_BYTES).try_into().unwrap()
}

fn message(id: usize, payload_bytes: usize) -> Message {
    let payload = pattern(id, 2, payload_bytes);
    Message { id, payload }
}

/// What the machine has left to send, in the order of its parts, none of which may be empty or lie
/// side by side with one of its kind.
fn left(tx: &Tx<Message>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut was_header = false;
    for part in tx.parts() {
        match part {
            Part::Headers(headers) => {
                assert!(!headers.is_empty() && !was_header, "headers in two parts");
                was_header = true;
                bytes.extend(headers);
            }
            Part::Payload {
                request,
                offset_bytes,
                length_bytes,
            } => {
                let (offset, length) = (offset_bytes as usize, length_bytes as usize);
                assert!(length > 0);
                assert_eq!(offset + length, request.payload.len());
                was_header = false;
                bytes.extend(&request.payload[offset..]);
            }
        }
    }
    bytes
}

/// A machine, the messages it is to send, and the socket it sends them into.
struct Sender<'a> {
    tx: Tx<Message>,
    payloads: &'a [usize],
    stream: Vec<u8>,
    ends: Vec<usize>,
    wire: Vec<u8>,
    pushed: usize,
    popped: usize,
}

impl<'a> Sender<'a> {
    /// `payloads` are the payload lengths of the messages.
    fn new(payloads: &'a [usize]) -> Self {
        let (mut stream, mut ends) = (Vec::new(), Vec::new());
        for (id, length) in payloads.iter().enumerate() {
            stream.extend(header(id));
            stream.extend(pattern(id, 2, *length));
            ends.push(stream.len());
        }
        Self {
            tx: Tx::new(),
            payloads,
            stream,
            ends,
            wire: Vec::new(),
            pushed: 0,
            popped: 0,
        }
    }

    /// Pushes the next message, if there is one and room for it.
    fn push(&mut self) -> bool {
        let Some(length) = self.payloads.get(self.pushed) else {
            return false;
        };
        let room = self.tx.has_room();
        let next = message(self.pushed, *length);
        let refused = self.tx.push(next, header(self.pushed), *length as u32);
        assert_eq!(refused.is_ok(), room);
        self.pushed += usize::from(room);
        room
    }

    /// Sends at most `limit_bytes` of what is left, and checks where the stream then stands.
    fn send(&mut self, limit_bytes: usize) -> bool {
        let left = left(&self.tx);
        if left.is_empty() {
            return false;
        }
        let sent = limit_bytes.min(left.len());
        self.wire.extend(&left[..sent]);
        assert_eq!(self.tx.advance(sent), Ok(()));
        assert!(self.stream.starts_with(&self.wire), "the stream is torn");
        assert_eq!(self.tx.mid_message(), !self.at_boundary());
        true
    }

    fn at_boundary(&self) -> bool {
        self.wire.is_empty() || self.ends.contains(&self.wire.len())
    }

    fn whole_messages(&self) -> usize {
        let sent = self.ends.iter().filter(|end| **end <= self.wire.len());
        sent.count()
    }

    /// Takes what was sent, which must be every message whose last byte is on the wire.
    fn pop(&mut self) {
        while let Some(sent) = self.tx.pop_sent() {
            assert_eq!(sent.id, self.popped);
            self.popped += 1;
        }
        assert_eq!(self.popped, self.whole_messages());
        assert_eq!(self.tx.is_idle(), self.popped == self.pushed);
    }

    /// Sends everything in pieces of at most `limit_bytes`, until the wire holds `until_bytes`.
    fn run(&mut self, limit_bytes: usize, until_bytes: usize) {
        loop {
            self.pop();
            while self.push() {}
            let left = until_bytes - self.wire.len();
            if left == 0 || !self.send(limit_bytes.min(left)) {
                break;
            }
        }
        self.pop();
        assert_eq!(self.wire.len(), until_bytes);
    }

    /// Lets the connection die, and checks that what was not sent comes back, and nothing else.
    fn die(&mut self) {
        let sent = self.whole_messages();
        for id in sent..self.pushed {
            assert_eq!(self.tx.pop_unsent().map(|unsent| unsent.id), Some(id));
        }
        assert!(self.tx.pop_unsent().is_none());
        self.pushed = sent;
        self.pop();
        assert!(self.tx.is_idle() && self.tx.has_room() && !self.tx.mid_message());
        assert!(self.tx.parts().next().is_none());
    }
}

/// Messages with and without payload, in every neighbourhood.
const MIXED: [usize; 9] = [0, 0, 5, 0, 1, 2, 0, 0, 3];

#[test]
fn any_piece_size_sends_the_whole_stream() {
    let total = Sender::new(&MIXED).stream.len();
    for piece in 1..=total {
        let mut sender = Sender::new(&MIXED);
        sender.run(piece, total);
        assert!(sender.tx.is_idle());
    }
}

#[test]
fn any_single_split_sends_the_whole_stream() {
    let total = Sender::new(&MIXED).stream.len();
    for split in 0..=total {
        let mut sender = Sender::new(&MIXED);
        sender.run(usize::MAX, split);
        assert_eq!(sender.tx.mid_message(), !sender.at_boundary());
        sender.run(usize::MAX, total);
        assert!(sender.tx.is_idle());
    }
}

#[test]
fn a_death_at_any_byte_loses_and_doubles_nothing() {
    let total = Sender::new(&MIXED).stream.len();
    for split in 0..=total {
        let mut sender = Sender::new(&MIXED);
        sender.run(usize::MAX, split);
        sender.die();
        // The machine serves the next connection.
        let mut next = Sender::new(&MIXED);
        next.tx = sender.tx;
        next.run(usize::MAX, total);
    }
}

#[test]
fn a_run_of_headers_is_one_part_and_has_its_limit() {
    let mut tx = Tx::new();
    for id in 0..RUN {
        assert!(tx.has_room());
        assert!(tx.push(message(id, 0), header(id), 0).is_ok());
    }
    assert!(!tx.has_room());
    let refused = tx.push(message(RUN, 0), header(RUN), 0).unwrap_err();
    assert_eq!(refused.id, RUN);
    let mut parts = tx.parts();
    assert!(matches!(parts.next(), Some(Part::Headers(bytes)) if bytes.len() == 32 * 28));
    assert!(parts.next().is_none());
    assert_eq!(tx.advance(32 * 28), Ok(()));
    // Sent is not handed back: the run opens again with the last of them.
    for id in 0..RUN {
        assert!(!tx.has_room() && !tx.is_idle());
        assert_eq!(tx.pop_sent().unwrap().id, id);
    }
    assert!(tx.has_room() && tx.is_idle());
}

#[test]
fn a_run_holds_several_messages_with_payload() {
    let mut tx = Tx::new();
    for (id, length) in [(0, 0), (1, 4), (2, 0), (3, 0), (4, 6)] {
        let next = message(id, length);
        assert!(tx.push(next, header(id), length as u32).is_ok());
    }
    let lengths: Vec<_> = tx
        .parts()
        .map(|part| match part {
            Part::Headers(bytes) => bytes.len(),
            Part::Payload { length_bytes, .. } => length_bytes as usize,
        })
        .collect();
    assert_eq!(lengths, [2 * 28, 4, 3 * 28, 6]);
    // The first two whole, and the third to the last byte of its header but one.
    assert_eq!(tx.advance(2 * 28 + 4 + 27), Ok(()));
    assert_eq!(tx.pop_sent().unwrap().id, 0);
    assert_eq!(tx.pop_sent().unwrap().id, 1);
    assert!(tx.pop_sent().is_none() && tx.mid_message() && tx.has_room());
    assert_eq!(left(&tx).len(), 1 + 2 * 28 + 6);
    assert_eq!(tx.advance(1 + 2 * 28 + 6), Ok(()));
    assert_eq!(left(&tx), []);
}

#[test]
fn a_payload_that_is_partly_sent_goes_on_where_it_stopped() {
    let mut tx = Tx::new();
    assert!(tx.push(message(0, 9), header(0), 9).is_ok());
    assert_eq!(tx.advance(28), Ok(()));
    assert!(tx.mid_message());
    assert_eq!(left(&tx), pattern(0, 2, 9));
    assert_eq!(tx.advance(3), Ok(()));
    assert_eq!(left(&tx), pattern(0, 2, 9)[3..]);
    assert!(tx.push(message(1, 0), header(1), 0).is_ok());
    assert_eq!(left(&tx).len(), 6 + 28);
    assert_eq!(tx.pop_unsent().unwrap().id, 0);
}

#[test]
fn a_message_joins_a_run_that_is_under_way() {
    let mut tx = Tx::new();
    for (id, sent) in [(0, 10), (1, 18 + 28), (2, 5)] {
        assert!(tx.push(message(id, 0), header(id), 0).is_ok());
        assert_eq!(tx.advance(sent), Ok(()));
    }
    assert_eq!(left(&tx), &header(2)[5..]);
    assert_eq!(tx.pop_sent().unwrap().id, 0);
    assert_eq!(tx.pop_sent().unwrap().id, 1);
    assert!(tx.pop_sent().is_none());
}

#[test]
fn more_than_a_run_is_an_overrun_and_counts_nothing() {
    let mut tx = Tx::new();
    assert_eq!(tx.advance(0), Ok(()));
    assert_eq!(tx.advance(1), Err(Overrun));
    assert!(tx.push(message(0, 4), header(0), 4).is_ok());
    assert!(tx.push(message(1, 0), header(1), 0).is_ok());
    for sent in [61, usize::MAX, 1 << 32, (1 << 32) + 1] {
        assert_eq!(tx.advance(sent), Err(Overrun));
        assert!(!tx.mid_message() && tx.pop_sent().is_none());
        assert_eq!(left(&tx).len(), 60);
    }
    assert_eq!(tx.advance(31), Ok(()));
    assert_eq!(tx.advance(30), Err(Overrun));
    assert!(tx.pop_sent().is_none() && tx.mid_message());
    assert_eq!(tx.advance(29), Ok(()));
    assert_eq!(tx.advance(1), Err(Overrun));
    assert_eq!(tx.pop_sent().unwrap().id, 0);
    assert_eq!(tx.pop_sent().unwrap().id, 1);
}

#[test]
fn the_largest_payloads_are_counted_to_their_last_byte() {
    let mut tx = Tx::new();
    for id in 0..RUN {
        assert!(tx.push(message(id, 0), header(id), u32::MAX).is_ok());
    }
    let total = RUN * (28 + u32::MAX as usize);
    assert_eq!(tx.advance(total - 1), Ok(()));
    assert!(tx.mid_message());
    assert_eq!(tx.advance(2), Err(Overrun));
    assert_eq!(tx.advance(1), Ok(()));
    assert!(!tx.mid_message());
}

#[test]
fn a_machine_that_gives_requests_back_sends_nothing_more() {
    let mut tx = Tx::new();
    for id in 0..4 {
        assert!(tx.push(message(id, 0), header(id), 0).is_ok());
    }
    assert_eq!(tx.advance(28 + 3), Ok(()));
    assert_eq!(tx.pop_unsent().unwrap().id, 1);
    assert!(tx.parts().next().is_none() && !tx.has_room() && !tx.is_idle());
    assert_eq!(tx.advance(0), Ok(()));
    assert_eq!(tx.advance(1), Err(Overrun));
    assert_eq!(tx.push(message(9, 0), header(9), 0).unwrap_err().id, 9);
    // Both ends still hand back in order, whichever is asked first.
    assert_eq!(tx.pop_unsent().unwrap().id, 2);
    assert_eq!(tx.pop_sent().unwrap().id, 0);
    assert!(tx.pop_sent().is_none());
    assert_eq!(tx.pop_unsent().unwrap().id, 3);
    assert!(tx.is_idle() && tx.has_room() && !tx.mid_message());
}

#[test]
fn nothing_unsent_leaves_the_machine_in_use() {
    let mut tx = Tx::new();
    assert!(tx.pop_unsent().is_none() && tx.pop_sent().is_none());
    assert!(tx.push(message(0, 0), header(0), 0).is_ok());
    assert_eq!(tx.advance(28), Ok(()));
    assert!(tx.pop_unsent().is_none());
    assert!(tx.has_room());
    assert!(tx.push(message(1, 0), header(1), 0).is_ok());
    assert_eq!(left(&tx), header(1));
}

/// Payload lengths: mostly none, as reads are headers only.
fn payloads() -> impl Strategy<Value = Vec<usize>> {
    let length = prop_oneof![3 => Just(0), 1 => 1..40_usize];
    prop::collection::vec(length, 0..120)
}

/// What happens next: push so many, send so many bytes, and hand back or not.
fn events() -> impl Strategy<Value = Vec<(usize, usize, bool)>> {
    let bytes = prop_oneof![0..80_usize, 0..1200_usize];
    prop::collection::vec((0..40_usize, bytes, any::<bool>()), 0..60)
}

fn play(sender: &mut Sender<'_>, events: &[(usize, usize, bool)]) {
    for (pushes, bytes, pop) in events {
        for _ in 0..*pushes {
            sender.push();
        }
        sender.send(*bytes);
        if *pop {
            sender.pop();
        }
    }
}

proptest! {
    #[test]
    fn any_order_of_events_sends_the_whole_stream(payloads in payloads(), events in events()) {
        let mut sender = Sender::new(&payloads);
        play(&mut sender, &events);
        sender.run(usize::MAX, sender.stream.len());
        prop_assert!(sender.tx.is_idle());
        prop_assert_eq!(sender.popped, payloads.len());
    }

    #[test]
    fn a_death_after_any_order_of_events_loses_nothing(payloads in payloads(), events in events()) {
        let mut sender = Sender::new(&payloads);
        play(&mut sender, &events);
        sender.die();
    }
}
