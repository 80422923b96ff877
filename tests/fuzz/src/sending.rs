// SPDX-License-Identifier: GPL-2.0
//! The sending machine: whatever a socket takes and whenever it dies, the stream is whole messages in
//! their order, and each request comes out once.

#![no_main]
#![allow(dead_code, unused_imports, reason = "not all of a room is used here")]

use std::collections::VecDeque;

use libfuzzer_sys::fuzz_target;

#[path = "../../../rnbd"]
mod rnbd {
    pub(crate) mod proto;
    pub(crate) mod connection {
        pub(crate) mod tx;
    }
}

use rnbd::{
    connection::tx::{
        Part,
        Tx,
        RUN, //
    },
    proto::REQUEST_BYTES,
};

/// A message as the model has it.
struct Message {
    number: u32,
    payload_bytes: u32,
}

impl Message {
    fn length_bytes(&self) -> usize {
        REQUEST_BYTES + self.payload_bytes as usize
    }
}

fn header(number: u32) -> [u8; REQUEST_BYTES] {
    core::array::from_fn(|place| (number as u8).wrapping_mul(31).wrapping_add(place as u8))
}

/// What the machine has to do, in the simplest terms.
#[derive(Default)]
struct Model {
    sent: VecDeque<Message>,
    unsent: VecDeque<Message>,
    partial_bytes: usize,
    pushed: usize,
    is_dying: bool,
}

impl Model {
    fn has_room(&self) -> bool {
        self.pushed < RUN && !self.is_dying
    }

    fn left_bytes(&self) -> usize {
        let all_bytes: usize = self.unsent.iter().map(Message::length_bytes).sum();
        if self.is_dying {
            0
        } else {
            all_bytes - self.partial_bytes
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.partial_bytes += bytes;
        while let Some(first) = self.unsent.front() {
            if self.partial_bytes < first.length_bytes() {
                break;
            }
            self.partial_bytes -= first.length_bytes();
            self.sent.extend(self.unsent.pop_front());
        }
    }

    fn forget_when_empty(&mut self) {
        if self.sent.is_empty() && self.unsent.is_empty() {
            *self = Self::default();
        }
    }
}

/// The stream as the machine names it: bytes of headers, and payload bytes by owner and place.
fn check_parts(tx: &Tx<u32>, model: &Model) {
    let mut skip_bytes = model.partial_bytes;
    let mut left_bytes = 0;
    let mut parts = tx.parts();
    let mut headers: &[u8] = &[];
    let messages = model.unsent.iter().filter(|_| !model.is_dying);
    for message in messages {
        if skip_bytes < REQUEST_BYTES {
            if headers.is_empty() {
                let Some(Part::Headers(bytes)) = parts.next() else {
                    panic!("a header comes next");
                };
                headers = bytes;
            }
            let (mine, rest) = headers.split_at(REQUEST_BYTES - skip_bytes);
            assert_eq!(mine, &header(message.number)[skip_bytes..]);
            headers = rest;
            left_bytes += mine.len();
        }
        let offset_bytes = skip_bytes.saturating_sub(REQUEST_BYTES) as u32;
        if message.payload_bytes > 0 {
            assert!(
                headers.is_empty(),
                "nothing between a header and its payload"
            );
            let Some(Part::Payload {
                request,
                offset_bytes: offset,
                length_bytes,
            }) = parts.next()
            else {
                panic!("payload comes next");
            };
            assert_eq!((*request, offset), (message.number, offset_bytes));
            assert_eq!(length_bytes, message.payload_bytes - offset_bytes);
            left_bytes += length_bytes as usize;
        }
        skip_bytes = 0;
    }
    assert!(headers.is_empty() && parts.next().is_none());
    assert_eq!(left_bytes, model.left_bytes());
}

fn step(tx: &mut Tx<u32>, model: &mut Model, number: u32, operation: u8, value: u16) {
    match operation % 5 {
        0 | 1 => {
            let payload_bytes = if operation % 5 == 0 {
                0
            } else {
                u32::from(value)
            };
            let pushed = tx.push(number, header(number), payload_bytes);
            assert_eq!(pushed.is_ok(), model.has_room());
            if pushed.is_ok() {
                model.unsent.push_back(Message {
                    number,
                    payload_bytes,
                });
                model.pushed += 1;
            }
        }
        2 => {
            let bytes = usize::from(value);
            let advanced = tx.advance(bytes);
            assert_eq!(advanced.is_ok(), bytes <= model.left_bytes());
            if advanced.is_ok() {
                model.advance(bytes);
            }
        }
        3 => {
            let popped = tx.pop_sent();
            assert_eq!(popped, model.sent.pop_front().map(|message| message.number));
            model.forget_when_empty();
        }
        _ => {
            let popped = tx.pop_unsent();
            let expected = model.unsent.pop_front().map(|message| message.number);
            assert_eq!(popped, expected);
            if expected.is_some() {
                (model.is_dying, model.partial_bytes) = (true, 0);
            }
            model.forget_when_empty();
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let (mut tx, mut model) = (Tx::new(), Model::default());
    for (number, bytes) in data.chunks_exact(3).enumerate() {
        let value = u16::from_le_bytes([bytes[1], bytes[2]]);
        step(&mut tx, &mut model, number as u32, bytes[0], value);
        assert_eq!(tx.has_room(), model.has_room());
        assert_eq!(tx.is_idle(), model.pushed == 0);
        check_parts(&tx, &model);
    }
});
