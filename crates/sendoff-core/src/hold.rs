use crate::order::KeyToken;
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

/// What an event is held by.
///
/// Stores and dispatch match on it without a catch-all arm, so that the compiler names every place
/// that has to know a new way of holding. No holding is read as another: there is no token that all of
/// them have.
///
/// A fact of a journal is not here: it is held with its pair, and what settles it is the move of a
/// cursor, which names the pair's epoch by its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// Its row, by the due time that its holder wrote.
    Row(Token),
    /// Its row, by a lock of the transaction that took it. Nothing was written, so it is a proof inside
    /// of that transaction and nowhere else.
    Lock,
    /// Its key, by the token of whoever holds that. Nothing was written into its row, which is in line.
    Key(KeyToken),
}
