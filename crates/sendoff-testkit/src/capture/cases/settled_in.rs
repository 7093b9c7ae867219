//! Events that are settled in the transaction of their effect.

use std::time::Duration;

use sendoff_core::{Delivery, Failure};
use sendoff_engine::capture::JoinError;
use sendoff_engine::store::{Claim, ClaimStore, InspectStore};
use sendoff_engine::{HandlerResult, Outbox, OutboxOptions, RetryOptions, SettleInError};
use tokio::sync::{mpsc, oneshot};

use crate::capture::shop::event;
use crate::capture::{CaptureHarness, Database, Face, StoreOf};
use crate::wait::eventually;

/// A run of a handler, which ends with what it is told.
type Run = (Delivery, oneshot::Sender<HandlerResult>);

/// An outbox whose handler waits for what the case says.
async fn waiting<H: CaptureHarness>(
    harness: &H,
) -> (Outbox<StoreOf<H>>, mpsc::UnboundedReceiver<Run>) {
    let (runs, next) = mpsc::unbounded_channel();
    let handler = move |delivery: Delivery| {
        let runs = runs.clone();
        async move {
            let (say, said) = oneshot::channel();
            runs.send((delivery, say)).map_err(|_| "the case is over")?;
            said.await?
        }
    };
    let step = Duration::from_millis(50);
    let options = OutboxOptions {
        poll_interval: step,
        retry: RetryOptions { base: step, max: step, ..RetryOptions::default() },
        ..OutboxOptions::default()
    };
    let builder = Outbox::builder(harness.store()).options(options);
    (builder.on(event().event_type(), handler).start().await.unwrap(), next)
}

/// Effect and settlement commit together, whatever the handler says afterwards; and where they do not commit, the event
/// comes again, also where the handler says that all was well.
pub async fn an_event_is_settled_in_the_transaction_of_its_effect<H: CaptureHarness>(
    harness: &H,
    _: Face,
) {
    let (outbox, mut runs) = waiting(harness).await;
    let mut conn = harness.connect().await;
    let table = harness.database().orders_table();
    let order = |id: i64| format!("insert into {table} (id) values ({id})");
    let done = async |count| {
        let store = harness.store();
        eventually("it to be done", async || store.counts().await.unwrap().done == count).await;
    };

    // It commits, and the handler says so.
    outbox.send(event()).await.unwrap();
    let (delivery, say) = runs.recv().await.unwrap();
    let mut tx = H::own(&mut conn, &outbox).await.unwrap();
    tx.sql(&order(1)).await.unwrap();
    tx.settle_in(&delivery).await.unwrap();
    tx.commit().await.unwrap();
    done(1).await;
    say.send(Ok(())).unwrap();

    // It is rolled back, and the handler says that all was well: it is not.
    outbox.send(event()).await.unwrap();
    let (delivery, say) = runs.recv().await.unwrap();
    let mut tx = H::own(&mut conn, &outbox).await.unwrap();
    tx.settle_in(&delivery).await.unwrap();
    tx.sql(&order(2)).await.unwrap();
    tx.rollback().await.unwrap();
    say.send(Ok(())).unwrap();
    // It is rolled back, and the handler fails.
    let (again, say) = runs.recv().await.unwrap();
    assert_eq!((again.id(), again.attempt), (delivery.id(), 2));
    let mut tx = H::own(&mut conn, &outbox).await.unwrap();
    tx.settle_in(&again).await.unwrap();
    tx.rollback().await.unwrap();
    say.send(Err(Failure::from("it went wrong"))).unwrap();
    // It commits, and the handler fails afterwards.
    let (again, say) = runs.recv().await.unwrap();
    assert_eq!((again.id(), again.attempt), (delivery.id(), 3));
    let mut tx = H::own(&mut conn, &outbox).await.unwrap();
    tx.settle_in(&again).await.unwrap();
    tx.sql(&order(3)).await.unwrap();
    tx.commit().await.unwrap();
    say.send(Err(Failure::from("too late"))).unwrap();
    done(2).await;

    // Neither comes again.
    outbox.send(event()).await.unwrap();
    let (last, say) = runs.recv().await.unwrap();
    assert_ne!(last.id(), delivery.id());
    let mut tx = H::own(&mut conn, &outbox).await.unwrap();
    tx.settle_in(&last).await.unwrap();
    tx.commit().await.unwrap();
    say.send(Ok(())).unwrap();
    outbox.close().await;
    assert!(runs.try_recv().is_err());
    let counts = harness.store().counts().await.unwrap();
    assert_eq!((counts.done, counts.pending(), counts.dead), (3, 0, 0));
    if let Some(orders) = harness.database().orders().await {
        assert_eq!(orders, [1, 3]);
    }
}

/// While the transaction is open others may wait for it, the engine's own settlements among them: on a database with
/// one writer all do. The event is settled in it all the same, and then they go on.
pub async fn who_waits_for_that_transaction_does_not_keep_it_waiting<H: CaptureHarness>(
    harness: &H,
    _: Face,
) {
    let (outbox, mut runs) = waiting(harness).await;
    let mut conn = harness.connect().await;
    outbox.send(event()).await.unwrap();
    outbox.send(event()).await.unwrap();
    let (delivery, say) = runs.recv().await.unwrap();
    let (_, say_other) = runs.recv().await.unwrap();
    let mut tx = H::own(&mut conn, &outbox).await.unwrap();
    let table = harness.database().orders_table();
    tx.sql(&format!("insert into {table} (id) values (1)")).await.unwrap();
    say_other.send(Ok(())).unwrap();
    // Where writers wait, none of them comes to its end before the transaction does.
    if !H::Database::WRITERS_WAIT {
        let store = harness.store();
        eventually("the other to be done", async || store.counts().await.unwrap().done == 1).await;
    }
    tx.settle_in(&delivery).await.unwrap();
    tx.commit().await.unwrap();
    say.send(Ok(())).unwrap();
    outbox.close().await;
    let counts = harness.store().counts().await.unwrap();
    assert_eq!((counts.done, counts.pending(), counts.dead), (2, 0, 0));
}

/// A stale token changes nothing, and whoever uses it is told.
pub async fn a_hold_that_was_lost_settles_nothing<H: CaptureHarness>(harness: &H, _: Face) {
    let (outbox, mut runs) = waiting(harness).await;
    let mut conn = harness.connect().await;
    outbox.send(event()).await.unwrap();
    let (delivery, say) = runs.recv().await.unwrap();
    let mut stale = delivery.clone();
    stale.event = event();
    let mut tx = H::own(&mut conn, &outbox).await.unwrap();
    let error = tx.settle_in(&stale).await.unwrap_err();
    assert!(matches!(error, SettleInError::NotRunning(_)), "{error:?}");
    // Twice in one transaction: the first settled it.
    tx.settle_in(&delivery).await.unwrap();
    let error = tx.settle_in(&delivery).await.unwrap_err();
    assert!(
        matches!(error, SettleInError::Lost(_) | SettleInError::Join(JoinError::Busy(_))),
        "{error:?}"
    );
    // Nobody else can have it meanwhile.
    if !H::Database::WRITERS_WAIT {
        let claim = Claim::new("other", 10, Duration::from_secs(60));
        assert!(harness.store().claim(&claim).await.unwrap().rows.is_empty());
    }
    tx.commit().await.unwrap();
    say.send(Ok(())).unwrap();
    outbox.close().await;
    let mut tx = H::own(&mut conn, &outbox).await.unwrap();
    let error = tx.settle_in(&delivery).await.unwrap_err();
    assert!(matches!(error, SettleInError::NotRunning(_)), "{error:?}");
}
