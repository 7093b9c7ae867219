//! Transactions with an outbox: hooks, savepoints, commits in doubt.

use std::sync::{Arc, Mutex};

use sendoff_core::{Event, InvalidEvent, Validation, limits};
use sendoff_engine::capture::{
    Begin, BeginError, BoxFuture, Commit, CommitError, Nest, Nesting, Release, WriteError,
};
use sendoff_engine::memory::{MemorySavepoint, MemoryStore, MemoryTx};
use sendoff_engine::store::{Born, NewRow};
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_testkit::acceptance::Inbox;

use super::flaky::Flaky;
use super::{EVENT, SECOND, commit, event, options};

type Log = Arc<Mutex<Vec<&'static str>>>;

fn log(log: &Log, text: &'static str) -> impl FnOnce() + Send + 'static {
    let log = log.clone();
    move || log.lock().unwrap().push(text)
}

/// Holds W8.
#[tokio::test]
async fn hooks_run_after_what_they_wait_for_and_only_then() {
    let outbox = Outbox::writer_only(MemoryStore::new());
    let seen = Log::default();
    let mut tx = outbox.begin(outbox.store()).await.unwrap();
    tx.after_commit(log(&seen, "committed"));
    tx.after_rollback(log(&seen, "rolled back"));
    assert!(seen.lock().unwrap().is_empty());
    tx.commit().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["committed"]);

    let mut tx = outbox.begin(outbox.store()).await.unwrap();
    tx.after_commit(log(&seen, "never"));
    tx.after_rollback(log(&seen, "rolled back"));
    tx.rollback().await.unwrap();
    let mut tx = outbox.begin(outbox.store()).await.unwrap();
    tx.after_rollback(log(&seen, "dropped"));
    drop(tx);
    assert_eq!(*seen.lock().unwrap(), ["committed", "rolled back", "dropped"]);
}

/// Holds W8.
#[tokio::test]
async fn a_hook_that_panics_does_not_make_a_commit_look_failed() {
    let outbox = Outbox::writer_only(MemoryStore::new());
    let seen = Log::default();
    let mut tx = outbox.begin(outbox.store()).await.unwrap();
    tx.after_commit(|| std::panic::panic_any("told to"));
    tx.after_commit(log(&seen, "the next one"));
    tx.commit().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["the next one"]);
}

#[tokio::test]
async fn a_savepoint_takes_back_what_was_staged_under_it_and_nothing_else() {
    let outbox = Outbox::writer_only(MemoryStore::new());
    let events: Vec<_> = (0..5).map(|number| Event::json(EVENT, &number).unwrap()).collect();
    let mut tx = outbox.begin(outbox.store()).await.unwrap();
    tx.emit(&events[0]).unwrap();
    let mut kept = tx.savepoint().await.unwrap();
    kept.emit(&events[1]).unwrap();
    kept.release().await.unwrap();
    let mut undone = tx.savepoint().await.unwrap();
    undone.emit(&events[2]).unwrap();
    undone.rollback().await.unwrap();
    let mut dropped = tx.savepoint().await.unwrap();
    dropped.emit(&events[3]).unwrap();
    drop(dropped);
    tx.emit(&events[4]).unwrap();
    tx.commit().await.unwrap();
    let rows = outbox.store().rows();
    let ids: Vec<_> = rows.iter().map(|row| row.event.id()).collect();
    assert_eq!(ids, [events[0].id(), events[1].id(), events[4].id()]);
}

/// Holds W8.
#[tokio::test]
async fn savepoints_nest_and_their_hooks_share_their_fate() {
    let outbox = Outbox::writer_only(MemoryStore::new());
    let (seen, kept) = (Log::default(), event());
    let mut tx = outbox.begin(outbox.store()).await.unwrap();
    let mut outer = tx.savepoint().await.unwrap();
    outer.emit(&kept).unwrap();
    outer.after_commit(log(&seen, "outer committed"));
    let mut inner = outer.savepoint().await.unwrap();
    inner.emit(event()).unwrap();
    inner.after_commit(log(&seen, "never"));
    inner.after_rollback(log(&seen, "inner rolled back"));
    inner.rollback().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["inner rolled back"]);
    outer.release().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["inner rolled back", "outer committed"]);
    let rows = outbox.store().rows();
    assert_eq!(rows.iter().map(|row| row.event.id()).collect::<Vec<_>>(), [kept.id()]);
}

/// Holds E11.
#[tokio::test]
async fn a_value_is_written_as_json_in_a_guard_a_savepoint_and_a_transaction_of_ones_own() {
    #[derive(serde::Serialize)]
    struct Placed {
        total: u32,
    }
    let outbox = Outbox::writer_only(MemoryStore::new());
    let mut tx = outbox.begin(outbox.store()).await.unwrap();
    tx.emit_json(EVENT, &Placed { total: 1 }).unwrap();
    let mut savepoint = tx.savepoint().await.unwrap();
    savepoint.emit_json(EVENT, &Placed { total: 2 }).unwrap();
    savepoint.release().await.unwrap();
    tx.commit().await.unwrap();
    let mut own = outbox.store().begin(outbox.store()).await.unwrap();
    let staged = outbox.write_json(&mut own, EVENT, &Placed { total: 3 }).await.unwrap();
    outbox.store().commit(own, &[]).await.unwrap();
    staged.release();
    let rows = outbox.store().rows();
    let payloads: Vec<_> = rows.iter().map(|row| &row.event.payload()[..]).collect();
    assert_eq!(payloads, [br#"{"total":1}"#, br#"{"total":2}"#, br#"{"total":3}"#]);
}

/// Holds W3.
#[tokio::test]
async fn a_guard_that_is_dropped_leaves_no_row() {
    let outbox = Outbox::writer_only(MemoryStore::new());
    let mut tx = outbox.begin(outbox.store()).await.unwrap();
    tx.emit(event()).unwrap();
    drop(tx);
    assert!(outbox.store().rows().is_empty());
}

/// Holds E5, E9, W3: refused before anything is stored, and the transaction goes on.
#[tokio::test]
async fn bad_input_is_refused_with_its_limit_and_costs_nothing_else() {
    let outbox = Outbox::writer_only(MemoryStore::new());
    let mut tx = outbox.begin(outbox.store()).await.unwrap();
    let large = "x".repeat(limits::PAYLOAD_BYTES + 1);
    let error = tx.emit(Event::builder(EVENT).bytes(large)).unwrap_err();
    assert_eq!(error.to_string(), "payload is 1048577 bytes; the limit is 1048576");
    let error = tx.emit((EVENT, "{not json")).unwrap_err();
    assert!(matches!(error, WriteError::Invalid(InvalidEvent::NotJson(_))));
    tx.emit(Event::builder(EVENT).bytes("x".repeat(limits::PAYLOAD_BYTES))).unwrap();
    tx.commit().await.unwrap();
    assert_eq!(outbox.store().rows().len(), 1);
}

/// Holds E9.
#[tokio::test]
async fn checks_of_payload_and_headers_can_each_be_switched_off() {
    let odd = || Event::builder(EVENT).json_text("{not json").build().unwrap();
    let line = || Event::builder(EVENT).json(&1).header("a", "b\nc").build().unwrap();
    let accepts = |payload, headers| {
        let validation = Validation { payload, headers };
        let options = OutboxOptions { validation, ..options() };
        let outbox = Outbox::writer_with(MemoryStore::new(), &options);
        async move {
            let mut tx = outbox.begin(outbox.store()).await.unwrap();
            [tx.emit(odd()).is_ok(), tx.emit(line()).is_ok()]
        }
    };
    assert_eq!(accepts(true, true).await, [false, false]);
    assert_eq!(accepts(false, true).await, [true, false]);
    assert_eq!(accepts(true, false).await, [false, true]);
}

/// Holds W5.
#[tokio::test]
async fn one_bad_event_refuses_the_whole_write() {
    let outbox = Outbox::writer_only(MemoryStore::new());
    let mut tx = outbox.store().transaction().unwrap();
    let events = [(EVENT, "{}"), (EVENT, "{")];
    assert!(outbox.write_all(&mut tx, events).await.is_err());
    tx.commit().unwrap();
    assert!(outbox.store().rows().is_empty());
}

#[tokio::test]
async fn a_commit_the_store_refuses_rolls_back_and_says_why() {
    let outbox = Outbox::writer_only(MemoryStore::new());
    let first = event();
    commit(&outbox, &first).await;
    let seen = Log::default();
    let mut tx = outbox.begin(outbox.store()).await.unwrap();
    tx.emit(event()).unwrap();
    tx.emit(&first).unwrap();
    tx.after_rollback(log(&seen, "rolled back"));
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::Refused(WriteError::DuplicateId)), "{error:?}");
    assert_eq!(outbox.store().rows().len(), 1);
    assert_eq!(*seen.lock().unwrap(), ["rolled back"]);
}

#[tokio::test]
async fn a_closed_store_says_so_and_delivers_nothing() {
    let inbox = Inbox::new();
    let outbox =
        Outbox::builder(MemoryStore::new()).on(EVENT, inbox.clone()).start().await.unwrap();
    let mut tx = outbox.begin(outbox.store()).await.unwrap();
    tx.emit(event()).unwrap();
    outbox.store().close();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::Refused(WriteError::Closed)), "{error:?}");
    assert!(outbox.begin(outbox.store()).await.is_err());
    outbox.close().await;
    assert!(inbox.received().is_empty());
}

/// The guard of an async driver can live in a spawned task, savepoint and all.
#[tokio::test]
async fn a_guarded_transaction_can_be_spawned() {
    let outbox = Outbox::writer_only(MemoryStore::new());
    let task = tokio::spawn({
        let outbox = outbox.clone();
        async move {
            let mut tx = outbox.begin(outbox.store()).await.unwrap();
            let mut savepoint = tx.savepoint().await.unwrap();
            savepoint.emit(event()).unwrap();
            tokio::task::yield_now().await;
            savepoint.release().await.unwrap();
            tx.commit().await.unwrap();
        }
    });
    task.await.unwrap();
    assert_eq!(outbox.store().rows().len(), 1);
}

/// Savepoints whose end is never answered.
impl Begin<()> for Flaky {
    type Tx = MemoryTx;

    async fn begin(&self, (): ()) -> Result<MemoryTx, BeginError> {
        self.table.transaction().map_err(|error| BeginError(error.into()))
    }
}

impl Commit<MemoryTx> for Flaky {
    async fn commit(&self, tx: MemoryTx, rows: &[NewRow]) -> Result<Vec<Born>, CommitError> {
        self.table.commit(tx, rows).await
    }

    async fn rollback(&self, tx: MemoryTx) -> Result<(), CommitError> {
        self.table.rollback(tx).await
    }
}

impl<'t> Nest<'t, MemoryTx> for Flaky {
    type Nested = MemorySavepoint<'t>;

    fn savepoint(&'t self, tx: &'t mut MemoryTx) -> Nesting<'t, Self::Nested> {
        self.table.savepoint(tx)
    }
}

impl<'t> Release<'t, MemorySavepoint<'t>> for Flaky {
    fn release(&'t self, nested: MemorySavepoint<'t>) -> BoxFuture<'t, Result<(), CommitError>> {
        self.roll_back_to(nested)
    }

    fn roll_back_to(
        &'t self,
        nested: MemorySavepoint<'t>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            let _never_answered = nested;
            std::future::pending().await
        })
    }
}

/// Whoever stops waiting for the end of a savepoint cannot commit by mistake what was undone.
#[tokio::test(start_paused = true)]
async fn a_savepoint_whose_end_was_cut_off_takes_the_transaction_with_it() {
    let outbox = Outbox::writer_only(Flaky::default());
    let seen = Log::default();
    let mut tx = outbox.begin(()).await.unwrap();
    tx.emit(event()).unwrap();
    tx.after_commit(log(&seen, "never"));
    tx.after_rollback(log(&seen, "rolled back"));
    let mut savepoint = tx.savepoint().await.unwrap();
    savepoint.emit(event()).unwrap();
    assert!(tokio::time::timeout(SECOND, savepoint.rollback()).await.is_err());
    tx.emit(event()).unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::RolledBack(_)), "{error:?}");
    assert!(outbox.store().table.rows().is_empty());
    assert_eq!(*seen.lock().unwrap(), ["rolled back"]);
}
