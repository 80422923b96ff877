// SPDX-License-Identifier: GPL-2.0
//! Replies and the receiving machine: whatever a server sends, in whatever pieces it arrives, what comes
//! out is what a plain reading of the whole stream gives.

#![no_main]
#![allow(dead_code, unused_imports, reason = "not all of a room is used here")]

use libfuzzer_sys::fuzz_target;

#[path = "../../../rnbd"]
mod rnbd {
    pub(crate) mod proto;
    pub(crate) mod connection {
        pub(crate) mod rx;
    }
}

use rnbd::{
    connection::rx::{
        Rx,
        Step, //
    },
    proto::{
        Cookie,
        Reply,
        REPLY_BYTES, //
    },
};

/// How much payload each request in flight has; its place is its tag.
const PAYLOADS_BYTES: [usize; 8] = [0, 1, 15, 16, 17, 300, 600, 5000];

/// The payload that has arrived of a request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Pages(Vec<u8>);

/// What comes out, in order.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Answered(Reply),
    Received(Vec<u8>),
    Lost,
}

/// What follows a reply: nothing, or so much payload; [`None`] if nobody has asked.
fn payload_of(reply: &Reply, in_flight: &mut [bool; 8]) -> Option<usize> {
    let place = usize::from(reply.cookie.tag);
    let there = in_flight.get_mut(place)?;
    if reply.cookie.generation != 0 || reply.cookie.hctx != 0 || !*there {
        return None;
    }
    *there = false;
    Some(if reply.error == 0 {
        PAYLOADS_BYTES[place]
    } else {
        0
    })
}

/// Reads the stream as a whole. Also says whether it ends between two messages.
fn plainly(mut stream: &[u8]) -> (Vec<Event>, bool) {
    let (mut events, mut in_flight) = (Vec::new(), [true; 8]);
    while let Some((header, rest)) = stream.split_first_chunk::<REPLY_BYTES>() {
        let Ok(reply) = Reply::decode(header) else {
            events.push(Event::Lost);
            return (events, false);
        };
        events.push(Event::Answered(reply));
        let Some(payload_bytes) = payload_of(&reply, &mut in_flight) else {
            events.push(Event::Lost);
            return (events, false);
        };
        stream = rest;
        if payload_bytes > 0 {
            let Some((payload, rest)) = stream.split_at_checked(payload_bytes) else {
                return (events, false);
            };
            events.push(Event::Received(payload.to_vec()));
            stream = rest;
        }
    }
    (events, stream.is_empty())
}

/// Puts the next bytes of the stream where the machine wants them; gives how many.
fn receive(rx: &mut Rx<Pages>, stream: &[u8], most_bytes: usize) -> usize {
    let want = rx
        .want()
        .expect("more is wanted, so there is a place for it");
    assert!(!want.buffer.is_empty());
    let mut left = &stream[..most_bytes.min(stream.len())];
    let mut received_bytes = 0;
    if let Some(payload) = want.payload {
        let taken = left.len().min(payload.length_bytes as usize);
        assert_eq!(payload.request.0.len(), payload.offset_bytes as usize);
        payload.request.0.extend_from_slice(&left[..taken]);
        left = &left[taken..];
        received_bytes += taken;
    }
    let taken = left.len().min(want.buffer.len());
    want.buffer[..taken].copy_from_slice(&left[..taken]);
    received_bytes + taken
}

/// Copies some of the payload that was received ahead of time.
fn copy(rx: &mut Rx<Pages>, most_bytes: usize) {
    let (payload, bytes) = rx.buffered_payload().expect("payload is in the buffer");
    let taken = bytes.len().min(most_bytes);
    payload.request.0.extend_from_slice(&bytes[..taken]);
    rx.take_buffered(taken).expect("it was there");
}

/// Reads the stream in pieces of these sizes.
fn in_pieces(mut stream: &[u8], sizes: &[u8]) -> (Vec<Event>, bool) {
    let (mut events, mut in_flight) = (Vec::new(), [true; 8]);
    let mut rx = Rx::new();
    let mut sizes = sizes.iter().cycle();
    loop {
        // Small ones often, large ones too.
        let size = sizes.next().map_or(1, |size| usize::from(*size));
        let most_bytes = if size < 192 {
            size + 1
        } else {
            (size - 191) * 64
        };
        match rx.step() {
            Ok(Step::More) if stream.is_empty() => break,
            Ok(Step::More) => {
                let received_bytes = receive(&mut rx, stream, most_bytes);
                rx.advance(received_bytes).expect("no more than was wanted");
                stream = &stream[received_bytes..];
            }
            Ok(Step::Buffered) => copy(&mut rx, most_bytes),
            Ok(Step::Received(pages)) => events.push(Event::Received(pages.0)),
            Ok(Step::Reply(reply)) => {
                events.push(Event::Answered(reply));
                match payload_of(&reply, &mut in_flight) {
                    Some(0) => rx.finish_reply(),
                    Some(bytes) => rx
                        .expect_payload(Pages::default(), bytes as u32)
                        .expect("a reply is pending"),
                    None => {
                        events.push(Event::Lost);
                        return (events, false);
                    }
                }
            }
            Err(_) => {
                events.push(Event::Lost);
                assert!(rx.want().is_none() && rx.take().is_none());
                return (events, false);
            }
        }
    }
    let is_between = rx.at_message_boundary();
    assert!(rx.take().is_none_or(|_| !is_between));
    (events, is_between)
}

fuzz_target!(|data: &[u8]| {
    let Some((count, data)) = data.split_first() else {
        return;
    };
    let (sizes, stream) = data.split_at(data.len().min(usize::from(*count)));
    assert_eq!(in_pieces(stream, sizes), plainly(stream));
});
