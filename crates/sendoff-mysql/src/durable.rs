//! What was read outlives a crash of the server before anybody is handed it (I13).
//!
//! InnoDB shows a commit to others a moment before its log is on the disk, also where every commit waits
//! for the disk. Whoever only reads would hand on what a crash in that moment takes back. A commit of our
//! own after the reading has its place in the log after everything that the reading saw, and is answered
//! when the log is on the disk up to there. It must have changed something: one that has not waits for
//! nothing.
//!
//! A claim needs none of this, because it commits before it reads what it took; nor does an event
//! whose own commit was answered.

use sendoff_core::EventId;

use crate::sql::Sql;
use crate::wire::Literal;

/// The text of such a commit, for an outbox.
pub(crate) fn outbox(sql: &Sql) -> String {
    sql.durable.with(&[("part", &Literal::number(fastrand::i64(..)))])
}

/// The same for an inbox: the transaction that made the effect may have been seen early.
pub(crate) fn inbox(sql: &Sql) -> String {
    sql.once_durable.with(&[("id", &Literal::id(EventId::generate()))])
}

/// The same for a journal. Which row it changes is drawn, so that neither other tails nor whoever has
/// locked one of them is waited for again and again.
pub(crate) fn journal(sql: &Sql) -> String {
    let slot = fastrand::i64(FIRST_SLOT..=LAST_SLOT);
    sql.journal.durable.with(&[("slot", &Literal::number(slot))])
}

/// After the row that is the floor, as many as the key can tell apart.
const FIRST_SLOT: i64 = 2;
const LAST_SLOT: i64 = u8::MAX as i64;
