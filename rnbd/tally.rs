// SPDX-License-Identifier: GPL-2.0
//! What was answered on one connection, counted: a plain value, kept by whoever receives there.

#![forbid(unsafe_code)]

use super::proto::Command;

/// Requests of one kind that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    requests: u64,
    bytes: u64,
}

impl Count {
    fn add(&mut self, requests: u64, bytes: u64) {
        self.requests = self.requests.wrapping_add(requests);
        self.bytes = self.bytes.wrapping_add(bytes);
    }
}

/// What the answers of a server amount to. The counts wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    read: Count,
    write: Count,
    other: Count,
    errors: u64,
}

impl Tally {
    /// The server has carried out a request of `length_bytes`.
    pub(crate) fn add_success(&mut self, command: Command, length_bytes: u32) {
        let count = match command {
            Command::Read => &mut self.read,
            Command::Write => &mut self.write,
            _ => &mut self.other,
        };
        count.add(1, u64::from(length_bytes));
    }

    /// The server has answered with an error.
    pub(crate) fn add_error(&mut self) {
        self.errors = self.errors.wrapping_add(1);
    }

    /// Adds what was counted elsewhere.
    pub(crate) fn add(&mut self, other: &Self) {
        self.read.add(other.read.requests, other.read.bytes);
        self.write.add(other.write.requests, other.write.bytes);
        self.other.add(other.other.requests, other.other.bytes);
        self.errors = self.errors.wrapping_add(other.errors);
    }

    /// The counts under the names that users see.
    pub(crate) const fn fields(&self) -> [(&'static str, u64); 7] {
        [
            ("read_requests", self.read.requests),
            ("read_bytes", self.read.bytes),
            ("write_requests", self.write.requests),
            ("write_bytes", self.write.bytes),
            ("other_requests", self.other.requests),
            ("other_bytes", self.other.bytes),
            ("errors", self.errors),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(tally: &Tally) -> [u64; 7] {
        tally.fields().map(|(_, value)| value)
    }

    #[test]
    fn each_command_is_counted_in_its_place() {
        let mut tally = Tally::default();
        for (command, length_bytes) in [
            (Command::Read, 512),
            (Command::Read, 4096),
            (Command::Write, u32::MAX),
            (Command::Flush, 0),
            (Command::Trim, 1 << 20),
            (Command::WriteZeroes, 3),
        ] {
            tally.add_success(command, length_bytes);
        }
        tally.add_error();
        let other_bytes = (1 << 20) + 3;
        let expected = [2, 4608, 1, u64::from(u32::MAX), 3, other_bytes, 1];
        assert_eq!(values(&tally), expected);
    }

    #[test]
    fn sums_are_field_by_field() {
        let mut tally = Tally::default();
        tally.add_success(Command::Read, 1);
        tally.add_success(Command::Write, 2);
        tally.add_success(Command::Flush, 3);
        tally.add_error();
        let mut sum = tally;
        sum.add(&tally);
        assert_eq!(values(&sum), values(&tally).map(|value| value * 2));
    }

    #[test]
    fn counts_wrap() {
        let mut tally = Tally::default();
        tally.read = Count {
            requests: u64::MAX,
            bytes: u64::MAX,
        };
        tally.errors = u64::MAX;
        tally.add_success(Command::Read, 2);
        tally.add_error();
        assert_eq!(values(&tally), [0, 1, 0, 0, 0, 0, 0]);
        let before = tally;
        tally.read.requests = u64::MAX;
        tally.add(&Tally {
            read: Count {
                requests: 1,
                bytes: 0,
            },
            ..Tally::default()
        });
        assert_eq!(tally, before);
    }
}
