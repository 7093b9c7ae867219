use crate::timestamp::Timestamp;

/// Proof of a hold on one row: the due time the holder wrote, as the database stamped it.
///
/// Whoever settles names it. Somebody who took the row since wrote another one, so a stale token
/// matches nothing and changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(Timestamp);

impl Token {
    /// The token of a row held until `due_at`.
    pub const fn new(due_at: Timestamp) -> Self {
        Self(due_at)
    }

    /// The due time that was written.
    pub const fn due_at(self) -> Timestamp {
        self.0
    }
}

/// What a node holds an event by.
///
/// An enum although there is one way today: whole shards will be held by an epoch, and then dispatch
/// and settlement need not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// The row itself, by its due time.
    Row(Token),
}

impl Holding {
    /// The row's token.
    pub const fn token(self) -> Token {
        match self {
            Self::Row(token) => token,
        }
    }
}
