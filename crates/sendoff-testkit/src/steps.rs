//! What tests do with a store, step by step.

#![allow(clippy::missing_panics_doc, reason = "a step that panics is a store that failed it")]
#![allow(clippy::unwrap_used, reason = "a step that cannot unwrap says less, not more")]

use std::time::Duration;

use sendoff_core::{Event, Holding, Token};
use sendoff_engine::capture::{
    Begin, BeginBlocking, Capture, CaptureBlocking, Commit, CommitBlocking, CommitError,
    InsertResult, WriteError,
};
use sendoff_engine::store::{
    Birth, Claim, ClaimStore, Claimed, Held, NewRow, Outcome, SettleStore, Settlement,
};

/// Any event.
pub fn event() -> Event {
    Event::json_text("order.placed", "{}").unwrap()
}

/// Its row, which is due at once.
pub fn due(event: Event) -> NewRow {
    NewRow { event, birth: Birth::Due }
}

/// One with so large a payload.
pub fn sized(bytes: usize) -> NewRow {
    due(Event::builder("t").bytes(vec![0; bytes]).build().unwrap())
}

/// A claim of all there is.
pub fn by(owner: &str) -> Claim<'_> {
    Claim::new(owner, 1_000, Duration::from_secs(30))
}

/// Claims all there is.
pub async fn claim(store: &impl ClaimStore, owner: &str) -> Vec<Claimed> {
    store.claim(&by(owner)).await.unwrap().rows
}

/// The hold of a row that was claimed.
pub fn hold_of(claimed: &Claimed) -> Held {
    claimed.held()
}

/// The token that a row is held by.
pub fn token_of(held: &Held) -> Token {
    match held.by {
        Holding::Row(token) => token,
        Holding::Lock | Holding::Key(_) => panic!("{} is not held by its row", held.id),
    }
}

/// Settles a row, and says whether that changed it.
pub async fn settle_one(store: &impl SettleStore, held: Held, outcome: Outcome) -> bool {
    !store.settle(&[Settlement { held, outcome }]).await.unwrap().applied.is_empty()
}

/// Why a write was refused.
pub fn refusal(error: CommitError) -> WriteError {
    match error {
        CommitError::Refused(refused) => refused,
        other => WriteError::Driver(other.into()),
    }
}

/// Inserts rows in a transaction of the store's, and commits it.
pub async fn commit_on<S, Conn>(store: &S, conn: Conn, rows: &[NewRow]) -> InsertResult
where
    S: Begin<Conn> + Commit<<S as Begin<Conn>>::Tx>,
{
    let tx = store.begin(conn).await.unwrap();
    store.commit(tx, rows).await.map_err(refusal)
}

/// Inserts rows in a transaction of the store's, and rolls it back.
pub async fn roll_back_on<S, Conn>(store: &S, conn: Conn, rows: &[NewRow]) -> InsertResult
where
    S: Begin<Conn> + Commit<<S as Begin<Conn>>::Tx> + Capture<<S as Begin<Conn>>::Tx>,
{
    let mut tx = store.begin(conn).await.unwrap();
    let born = store.insert(&mut tx, rows).await?;
    store.rollback(tx).await.unwrap();
    Ok(born)
}

/// [`commit_on`] through a driver that blocks.
pub fn commit_blocking_on<S, Conn>(store: &S, conn: Conn, rows: &[NewRow]) -> InsertResult
where
    S: BeginBlocking<Conn> + CommitBlocking<<S as BeginBlocking<Conn>>::Tx>,
{
    let tx = store.begin_blocking(conn).unwrap();
    store.commit_blocking(tx, rows).map_err(refusal)
}

/// [`roll_back_on`] through a driver that blocks.
pub fn roll_back_blocking_on<S, Conn>(store: &S, conn: Conn, rows: &[NewRow]) -> InsertResult
where
    S: BeginBlocking<Conn>
        + CommitBlocking<<S as BeginBlocking<Conn>>::Tx>
        + CaptureBlocking<<S as BeginBlocking<Conn>>::Tx>,
{
    let tx = store.begin_blocking(conn).unwrap();
    let born = store.insert_blocking(&tx, rows)?;
    store.rollback_blocking(tx).unwrap();
    Ok(born)
}
