//! Inserting into a transaction, whichever driver it is of.

use sendoff_core::BoxError;
use sendoff_engine::capture::{CommitError, InsertResult, Inserted, WriteError};
use sendoff_engine::store::NewRow;

use super::draft::{Draft, Proof, UNDO, names_our_key, preamble, refused};
use crate::error::{code, is_lost_race};
use crate::store::MysqlStore;

/// A connection of some driver's.
pub(super) trait Carrier: Send {
    type Error: Into<BoxError> + Send;

    /// Inserts rows; see [`Insert`]. When that was, in microseconds, and the session's number.
    fn insert(
        &mut self,
        insert: Insert<'_>,
    ) -> impl Future<Output = Result<(i64, u64), Self::Error>> + Send;

    /// Runs one statement of ours that answers nothing.
    fn run(&mut self, text: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Runs one statement of ours that answers yes or no.
    fn ask(&mut self, text: &str) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// The server's number and message, where it was the server that refused.
    fn refusal(error: &Self::Error) -> Option<(u16, &str)>;

    fn number(error: &Self::Error) -> Option<u16> {
        Self::refusal(error).map(|(number, _)| number)
    }
}

/// Rows to be inserted, and the texts to run before, which fail where they must not be.
pub(super) struct Insert<'a> {
    pub(super) store: &'a MysqlStore,
    pub(super) draft: &'a Draft<'a>,
    pub(super) before: String,
}

/// Inserts all rows in one statement, in a transaction that somebody else ends.
pub(super) async fn insert_all<C: Carrier>(
    store: &MysqlStore,
    conn: &mut C,
    rows: &[NewRow],
) -> InsertResult {
    let sent = send(store, conn, Proof::Open, &Draft::written(store, rows)?).await;
    sent.map(|inserted| inserted.born).map_err(|error| write_error::<C>(store, error))
}

/// Whatever makes the COMMIT after it a proof.
pub(super) async fn insert_last<C: Carrier>(
    store: &MysqlStore,
    conn: &mut C,
    proof: Proof,
    rows: &[NewRow],
) -> Result<Inserted, CommitError> {
    let drafts = Draft::all(rows).map_err(CommitError::Refused)?;
    let lost = |error: C::Error| CommitError::RolledBack(error.into());
    if drafts.is_empty() {
        if let Some(proof) = proof.text(store) {
            conn.run(proof).await.map_err(|error| match C::number(&error) {
                Some(code::DOES_NOT_EXIST) => {
                    CommitError::RolledBack(WriteError::NoTransaction.into())
                }
                _ => lost(error),
            })?;
        }
        return Ok(Inserted::default());
    }
    send(store, conn, proof, &drafts).await.map_err(|error| match C::number(&error) {
        // COMMIT was not sent: whatever it was, the transaction ends without.
        None => lost(error),
        Some(number) if undoes(number) => lost(error),
        Some(_) => CommitError::Refused(write_error::<C>(store, error)),
    })
}

/// Inserts the drafts one after the other; where one fails, those before it are undone.
pub(super) async fn send<C: Carrier>(
    store: &MysqlStore,
    conn: &mut C,
    proof: Proof,
    drafts: &[Draft<'_>],
) -> Result<Inserted, C::Error> {
    let mut inserted = Inserted::default();
    for (at, draft) in drafts.iter().enumerate() {
        let before = preamble(store, proof, drafts, at);
        match conn.insert(Insert { store, draft, before }).await {
            Ok((created_at, session)) => {
                inserted.born.extend(draft.born(created_at));
                inserted.xid = Some(session);
            }
            Err(error) => {
                if at > 0 && C::number(&error).is_some() {
                    // Fails only where the transaction is gone, and they with it.
                    let _ = conn.run(UNDO).await;
                }
                return Err(error);
            }
        }
    }
    Ok(inserted)
}

pub(super) fn write_error<C: Carrier>(store: &MysqlStore, error: C::Error) -> WriteError {
    let refusal = C::refusal(&error);
    let is_our_key = refusal.is_some_and(|(_, message)| names_our_key(store, message));
    refused(refusal.map(|(number, _)| number), is_our_key, error.into())
}

/// Whether a COMMIT that was answered with this error did not commit.
pub(super) fn is_rolled_back<C: Carrier>(error: &C::Error) -> bool {
    C::number(error).is_some_and(undoes)
}

/// Whether COMMIT answered with this number did not commit.
pub(super) fn undoes(number: u16) -> bool {
    is_lost_race(number) || number == code::GROUP_CONFLICT
}
