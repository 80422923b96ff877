// SPDX-License-Identifier: GPL-2.0
//! What happens to a request whose time is up: one pure table, no lock.

#![forbid(unsafe_code)]

/// What to do with a request that was sent and not answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// Leave it in flight, log that it may be stuck, and start its timer again.
    Keep,
    /// Take it and send it again: the connection it was sent on is dead or was replaced, so no reply
    /// can come, and a new connection in the same place is not to blame.
    Resend,
    /// Kill the connection it was sent on, then take it and send it again.
    KillAndResend,
}

/// Decides about a request that was sent and not answered in time.
///
/// `connections` is how many the session has, dead ones included. `timeout_is_set` says whether the
/// user asked for a timeout; if not, the timer fires every 30 s all the same.
/// `connection_is_current_and_live` says whether the very connection the request was sent on still
/// serves.
///
/// | connection of the request | connections | timeout | decision                           |
/// | ------------------------- | ----------- | ------- | ---------------------------------- |
/// | dead or replaced          | any         | any     | [`Resend`](Expiry::Resend)         |
/// | current and live          | several     | any     | [`KillAndResend`][kill]            |
/// | current and live          | one         | set     | [`KillAndResend`][kill]            |
/// | current and live          | one         | not set | [`Keep`](Expiry::Keep)             |
///
/// So a timeout of zero means "never give up" only with a single connection: with several the
/// request has somewhere else to go. Where a request that is to be sent again goes, and how long it
/// may wait for a connection, is for the dead-connection clock to say.
///
/// [kill]: Expiry::KillAndResend
pub(crate) const fn decide(
    connections: u32,
    timeout_is_set: bool,
    connection_is_current_and_live: bool,
) -> Expiry {
    if !connection_is_current_and_live {
        Expiry::Resend
    } else if connections > 1 || timeout_is_set {
        Expiry::KillAndResend
    } else {
        Expiry::Keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_gone_means_resend() {
        for connections in [0, 1, 2, 3, u32::MAX] {
            for timeout_is_set in [false, true] {
                assert_eq!(decide(connections, timeout_is_set, false), Expiry::Resend);
            }
        }
    }

    #[test]
    fn a_live_connection_is_kept_only_if_alone_and_without_timeout() {
        for (connections, timeout_is_set, expiry) in [
            (0, false, Expiry::Keep),
            (0, true, Expiry::KillAndResend),
            (1, false, Expiry::Keep),
            (1, true, Expiry::KillAndResend),
            (2, false, Expiry::KillAndResend),
            (2, true, Expiry::KillAndResend),
            (u32::MAX, false, Expiry::KillAndResend),
            (u32::MAX, true, Expiry::KillAndResend),
        ] {
            assert_eq!(decide(connections, timeout_is_set, true), expiry);
        }
    }
}
