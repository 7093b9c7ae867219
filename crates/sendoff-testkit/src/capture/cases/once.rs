//! What an inbox remembers in a transaction: effects that are made exactly once.

use sendoff_core::{EventId, InvalidEvent, limits};
use sendoff_engine::capture::{CommitError, JoinError};
use sendoff_engine::store::{Cutoff, RetainStore, Trail};
use sendoff_engine::{Inbox, OnceError};

use crate::capture::shop::{Shop, begin, event};
use crate::capture::{CaptureHarness, Database, Face};

const BILLING: &str = "billing";

/// Whether an event is seen for the first time, in a transaction that commits.
async fn seen<H: CaptureHarness>(shop: &mut Shop<'_, H>, consumer: &str, id: EventId) -> bool {
    let mut tx = shop.begin().await;
    let first = tx.once(consumer, id).await.unwrap();
    assert!(!tx.once(consumer, id).await.unwrap(), "its own transaction sees it");
    tx.commit().await.unwrap();
    first
}

/// The first time and no other, for each consumer by itself, and with the effect or not at all.
pub async fn an_event_is_seen_once_by_each_consumer<H: CaptureHarness>(harness: &H, face: Face) {
    let mut shop = Shop::writer(harness, face).await;
    let (id, other) = (EventId::generate(), EventId::generate());
    let longest = "ü".repeat(limits::CONSUMER_CHARS);
    for consumer in [BILLING, "Billing", "billing ", "shipping\\'\"", &longest] {
        assert!(seen(&mut shop, consumer, id).await, "{consumer}");
        assert!(!seen(&mut shop, consumer, id).await, "{consumer}");
        assert!(seen(&mut shop, consumer, other).await, "{consumer}");
    }
}

/// The mark and the effect are one.
pub async fn what_is_rolled_back_was_not_seen<H: CaptureHarness>(harness: &H, face: Face) {
    let mut shop = Shop::writer(harness, face).await;
    let (id, order) = (EventId::generate(), shop.order(1));
    let mut tx = shop.begin().await;
    assert!(tx.once(BILLING, id).await.unwrap());
    tx.sql(&order).await.unwrap();
    tx.rollback().await.unwrap();
    {
        let mut dropped = shop.begin().await;
        assert!(dropped.once(BILLING, id).await.unwrap());
        dropped.sql(&order).await.unwrap();
    }
    // Not every driver rolls back what is dropped before its connection is.
    shop.conn = harness.connect().await;
    let mut tx = shop.begin().await;
    assert!(tx.once(BILLING, id).await.unwrap());
    tx.sql(&order).await.unwrap();
    tx.write(&[event()]).await.unwrap();
    tx.commit().await.unwrap();
    assert!(!seen(&mut shop, BILLING, id).await);
    shop.has_orders(&[1]).await;
    assert_eq!(shop.rows().await, 1, "events go with it");
}

/// Holds W3: a savepoint that is rolled back takes with it what was seen under it.
pub async fn what_was_seen_under_a_savepoint_goes_with_it<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::writer(harness, face).await;
    let (undone, kept) = (EventId::generate(), EventId::generate());
    let mut tx = shop.begin().await;
    let mut savepoint = tx.savepoint().await.unwrap();
    assert!(savepoint.once(BILLING, undone).await.unwrap());
    savepoint.rollback().await.unwrap();
    let mut savepoint = tx.savepoint().await.unwrap();
    assert!(savepoint.once(BILLING, kept).await.unwrap());
    savepoint.commit().await.unwrap();
    assert!(!tx.once(BILLING, kept).await.unwrap());
    tx.commit().await.unwrap();
    assert!(!seen(&mut shop, BILLING, kept).await);
    assert!(seen(&mut shop, BILLING, undone).await);
}

/// Holds W1: it is refused, with the reason, and nothing is remembered.
pub async fn what_cannot_be_remembered_is_refused<H: CaptureHarness>(harness: &H, face: Face) {
    let mut shop = Shop::writer(harness, face).await;
    let id = EventId::generate();
    let mut tx = shop.begin().await;
    let long = "x".repeat(limits::CONSUMER_CHARS + 1);
    for (name, is_expected) in [
        ("", (|why| matches!(why, InvalidEvent::Empty { .. })) as fn(&InvalidEvent) -> bool),
        (&long, |why| matches!(why, InvalidEvent::TooLong { chars: 129, limit: 128, .. })),
        ("a\0", |why| matches!(why, InvalidEvent::Character { .. })),
        ("a\nb", |why| matches!(why, InvalidEvent::Character { .. })),
    ] {
        let error = tx.once(name, id).await.unwrap_err();
        assert!(matches!(&error, OnceError::Consumer(why) if is_expected(why)), "{error:?}");
    }
    // It cost the transaction nothing.
    assert!(tx.once(BILLING, id).await.unwrap());
    tx.commit().await.unwrap();

    // Where statements do nothing, none of them ends a transaction.
    let speaks = harness.database().orders().await.is_some();
    for end in H::Database::ENDS_BY_HAND.iter().filter(|_| speaks) {
        let mut tx = shop.begin().await;
        tx.sql(end).await.unwrap();
        let error = tx.once(BILLING, EventId::generate()).await.unwrap_err();
        let refused = matches!(&error, OnceError::Join(JoinError::NoTransaction));
        assert!(refused, "{end}: {error:?}");
        drop(tx);
        shop.conn = harness.connect().await;
    }
    H::Database::close(&harness.store()).await;
    // Nothing of ours begins on a closed store.
    let Ok(mut tx) = H::own(&mut shop.conn, &shop.outbox).await else { return };
    let error = tx.once(BILLING, EventId::generate()).await.unwrap_err();
    assert!(matches!(&error, OnceError::Join(JoinError::Closed)), "{error:?}");
}

/// Of transactions that see the same event at once, one makes the effect: another waits until it is over, or
/// is told to try again.
pub async fn of_many_at_once_one_makes_the_effect<H: CaptureHarness>(harness: &H, face: Face) {
    const EVENTS: usize = 8;
    const WORKERS: usize = 4;
    let shop = Shop::writer(harness, face).await;
    let events: Vec<_> = (0..EVENTS).map(|at| (EventId::generate(), shop.order(at))).collect();
    let worker = async || {
        let mut conn = harness.connect().await;
        let mut made = 0;
        for (id, order) in &events {
            loop {
                let attempt = async {
                    let mut tx = begin::<H>(face, &mut conn, &shop.outbox).await;
                    let first = tx.once(BILLING, *id).await.map_err(|error| match error {
                        OnceError::Join(
                            JoinError::Busy(_) | JoinError::LostRace(_) | JoinError::Driver(_),
                        ) => (),
                        other => panic!("{other:?}"),
                    })?;
                    tokio::task::yield_now().await;
                    if !first {
                        return tx.rollback().await.map(|()| 0).map_err(|_| ());
                    }
                    tx.sql(order).await.map_err(|_| ())?;
                    match tx.commit().await {
                        Ok(()) => Ok(1),
                        Err(CommitError::RolledBack(_) | CommitError::Refused(_)) => Err(()),
                        Err(error) => panic!("{error:?}"),
                    }
                };
                if let Ok(effects) = attempt.await {
                    made += effects;
                    break;
                }
                // Where nothing is waited for, the others have their turn.
                tokio::task::yield_now().await;
                // After an error a driver may be in no state to go on.
                conn = harness.connect().await;
            }
        }
        made
    };
    let made: [usize; WORKERS] = {
        let (a, b, c, d) = tokio::join!(worker(), worker(), worker(), worker());
        [a, b, c, d]
    };
    assert_eq!(made.iter().sum::<usize>(), EVENTS, "{made:?}");
    let orders: Vec<_> = (0..EVENTS as i64).collect();
    shop.has_orders(&orders).await;
}

/// What is old goes, in batches, and what is not stays.
pub async fn what_was_seen_long_ago_is_forgotten_in_batches<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::writer(harness, face).await;
    let ids: Vec<_> = (0..5).map(|_| EventId::generate()).collect();
    let mut tx = shop.begin().await;
    for id in &ids {
        assert!(tx.once(BILLING, *id).await.unwrap());
    }
    tx.commit().await.unwrap();
    let (store, year) = (harness.store(), std::time::Duration::from_secs(365 * 24 * 60 * 60));
    let inbox = Inbox::new(store.clone());
    assert_eq!(inbox.forget(Cutoff::Age(year), 1_000).await.unwrap(), 0);
    assert!(!seen(&mut shop, BILLING, ids[0]).await);
    let later = sendoff_core::Timestamp::now().saturating_add(year);
    assert_eq!(
        store.forget(Trail::Seen, Cutoff::Before(later), 2).await.unwrap(),
        2,
        "no more than asked for"
    );
    assert_eq!(inbox.forget(Cutoff::Before(later), 2).await.unwrap(), 3, "until nothing is left");
    assert!(seen(&mut shop, BILLING, ids[0]).await, "it is forgotten");
}
