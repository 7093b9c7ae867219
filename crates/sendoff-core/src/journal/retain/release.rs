//! Up to which position facts may be deleted, and who still needs the rest.

use std::fmt;

use crate::Timestamp;
use crate::journal::Position;
use crate::journal::publish::{CursorStatus, PairId};

/// Whoever follows a journal, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followers {
    /// The time, by the database's clock.
    pub now: Timestamp,
    /// The last position that was taken.
    pub head: Position,
    /// Every cursor, whatever its status is.
    pub cursors: Vec<Follower>,
    /// The lowest position that each pair has parked.
    pub parked: Vec<(PairId, Position)>,
}

/// How far one of them is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follower {
    /// The pair.
    pub pair: PairId,
    /// Everything up to here it has passed.
    pub position: Position,
    /// Whether it is worked.
    pub status: CursorStatus,
}

/// What the user wants to keep. Without either bound everything is kept; with both, what either
/// keeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// So many of the newest positions.
    pub last: Option<u64>,
    /// Everything above the last position that is old enough.
    pub aged: Option<Position>,
}

/// What may go, and who holds the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Release {
    /// Everything up to here may go.
    pub up_to: Position,
    /// Everything up to here the user does not want to keep.
    pub wanted: Position,
    /// Why `up_to` is not `wanted`, the one that holds most first. Empty where it is.
    pub held_by: Vec<HeldBy>,
}

/// Why something stays although the user does not want to keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldBy {
    /// A pair has not passed it.
    Cursor(Follower),
    /// A pair has parked it.
    Parked {
        /// Which pair.
        pair: PairId,
        /// Its lowest.
        position: Position,
    },
}

impl HeldBy {
    /// The pair.
    pub fn pair(&self) -> &PairId {
        match self {
            Self::Cursor(Follower { pair, .. }) | Self::Parked { pair, .. } => pair,
        }
    }

    /// The last position that it lets go.
    pub fn lets_go(&self) -> Position {
        match self {
            Self::Cursor(Follower { position, .. }) => *position,
            Self::Parked { position, .. } => position.back(1),
        }
    }
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cursor(Follower { pair, position, status }) => {
                write!(f, "{pair} is {status} at position {position}")
            }
            Self::Parked { pair, position } => {
                write!(f, "{pair} has parked position {position}")
            }
        }
    }
}

/// Decides up to where a journal may go.
///
/// Never above a cursor, whether its pair is worked, paused or failed; never a fact that was set
/// aside; never what the user wants to keep.
///
/// ```
/// use sendoff_core::Timestamp;
/// use sendoff_core::journal::Position;
/// use sendoff_core::journal::retain::{Followers, Wanted, release};
///
/// let head = Position::new(1_000).unwrap();
/// let followers = Followers { now: Timestamp::now(), head, cursors: vec![], parked: vec![] };
/// let wanted = Wanted { last: Some(100), aged: None };
/// assert_eq!(release(wanted, &followers).up_to.get(), 900);
/// ```
pub fn release(wanted: Wanted, followers: &Followers) -> Release {
    let Followers { head, cursors, parked, .. } = followers;
    let bounds = [wanted.last.map(|last| head.back(last)), wanted.aged];
    // What nobody has taken yet is nobody's to give away.
    let wanted = bounds.into_iter().flatten().min().map_or(Position::START, |low| low.min(*head));
    let cursors = cursors.iter().cloned().map(HeldBy::Cursor);
    let parked = parked.iter().cloned();
    let parked = parked.map(|(pair, position)| HeldBy::Parked { pair, position });
    let mut held_by: Vec<_> = cursors.chain(parked).filter(|h| h.lets_go() < wanted).collect();
    held_by.sort_by_key(HeldBy::lets_go);
    let up_to = held_by.first().map_or(wanted, HeldBy::lets_go);
    Release { up_to, wanted, held_by }
}
