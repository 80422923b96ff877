// SPDX-License-Identifier: GPL-2.0
//! The life of a device as a state and a table of legal moves; a plain value, kept under the lock of
//! its device.

#![forbid(unsafe_code)]

/// Where a device is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has no session and can be given one; it may be open.
    Free,
    /// An opener has issued set-up ioctls, and only ioctls can go on from here.
    SettingUp,
    /// A session is being made: limits and sysfs files appear, nobody else may interfere.
    Starting,
    /// The session is live.
    Running,
    /// The session is being torn down.
    Stopping,
    /// The session has ended, but openers from its time are still there.
    Draining,
    /// The disk is being deleted; there is no way back.
    Removing,
}

/// Every legal move, as from and to.
///
/// ```text
///             SettingUp
///              ^     ^
///              v     v
///            Free <-> Starting --> Running --> Stopping --> Draining
///              ^                                  |            |
///              +----------------------------------+------------+
/// ```
///
/// Not drawn: Free, Stopping and Draining also lead to Removing, from where nothing leads back.
pub(crate) const MOVES: [(State, State); 14] = [
    (State::Free, State::SettingUp),
    (State::Free, State::Starting),
    (State::Free, State::Removing),
    (State::SettingUp, State::Free),
    (State::SettingUp, State::Starting),
    (State::Starting, State::Running),
    (State::Starting, State::Free),
    // A DO_IT that failed leaves what the ioctls before it have set up.
    (State::Starting, State::SettingUp),
    (State::Running, State::Stopping),
    (State::Stopping, State::Draining),
    (State::Stopping, State::Free),
    (State::Stopping, State::Removing),
    (State::Draining, State::Free),
    (State::Draining, State::Removing),
];

/// A move that is not in [`MOVES`]; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IllegalMove {
    /// The state the device is in and stays in.
    pub(crate) from: State,
    /// The state it was to move to.
    pub(crate) to: State,
}

impl State {
    /// Moves to the state `to`.
    ///
    /// # Errors
    ///
    /// [`IllegalMove`] if the table does not have the move; the state stays what it was.
    pub(crate) fn advance(&mut self, to: State) -> Result<(), IllegalMove> {
        let from = *self;
        if !MOVES.contains(&(from, to)) {
            return Err(IllegalMove { from, to });
        }
        *self = to;
        Ok(())
    }

    /// Returns its name as users see it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::SettingUp => "setting-up",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Draining => "draining",
            Self::Removing => "removing",
        }
    }

    /// Says whether a session is on its way out: it will be gone soon, by itself or when its openers
    /// close.
    pub(crate) const fn is_going_away(self) -> bool {
        matches!(self, Self::Stopping | Self::Draining)
    }

    /// Says whether the device is taken, which is what a status reply calls connected.
    pub(crate) const fn is_connected(self) -> bool {
        !matches!(self, Self::Free | Self::Removing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [State; 7] = [
        State::Free,
        State::SettingUp,
        State::Starting,
        State::Running,
        State::Stopping,
        State::Draining,
        State::Removing,
    ];

    /// One row for each state to leave, one column for each to enter, in the order of [`ALL`].
    const LEGAL: [&str; 7] = [
        ".xx...x", // Free
        "x.x....", // SettingUp
        "xx.x...", // Starting
        "....x..", // Running
        "x....xx", // Stopping
        "x.....x", // Draining
        ".......", // Removing
    ];

    #[test]
    fn every_pair_of_states_is_a_move_or_is_refused() {
        for (from, row) in ALL.into_iter().zip(LEGAL) {
            for (to, legal) in ALL.into_iter().zip(row.chars()) {
                let mut state = from;
                let result = state.advance(to);
                if legal == 'x' {
                    assert_eq!((result, state), (Ok(()), to));
                } else {
                    assert_eq!((result, state), (Err(IllegalMove { from, to }), from));
                }
            }
        }
    }

    #[test]
    fn the_table_names_no_move_twice() {
        for (index, step) in MOVES.iter().enumerate() {
            assert!(!MOVES[index + 1..].contains(step), "{step:?}");
        }
    }

    #[test]
    fn no_two_states_have_one_name() {
        let names = ALL.map(State::name);
        for (index, name) in names.iter().enumerate() {
            assert!(
                !name.is_empty() && !names[index + 1..].contains(name),
                "{name}"
            );
        }
    }

    #[test]
    fn only_what_is_stopping_or_draining_is_going_away() {
        let going = ALL.map(State::is_going_away);
        assert_eq!(going, [false, false, false, false, true, true, false]);
    }

    #[test]
    fn connected_is_everything_between_free_and_removing() {
        let connected = ALL.map(State::is_connected);
        assert_eq!(connected, [false, true, true, true, true, true, false]);
    }
}
