//! What is refused, and what becomes of the transaction.

use sendoff_core::{Event, InvalidEvent, limits};
use sendoff_engine::capture::{CommitError, WriteError};
use sendoff_engine::store::{InspectStore, StoreError};

use crate::capture::shop::{Shop, event, events};
use crate::capture::{CaptureHarness, Database, Face};

/// Holds W5: all or none, wherever in a write the duplicate is, and however many statements it takes. A
/// commit goes with its events; a transaction of the application's goes on, where errors let it.
pub async fn a_duplicate_id_is_refused_with_its_whole_write<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::writer(harness, face).await;
    let first = event();
    let mut tx = shop.begin().await;
    tx.write(std::slice::from_ref(&first)).await.unwrap();
    tx.commit().await.unwrap();
    let mut kept = Vec::new();
    for others in [1, 63, 64, 1_500] {
        let mut twice = events(others);
        twice.push(if others < 1_500 { first.clone() } else { twice[others - 1].clone() });
        let order = shop.order(others);
        let mut tx = shop.begin().await;
        tx.sql(&order).await.unwrap();
        let refused = match face {
            Face::Guard => {
                tx.write(&twice).await.unwrap();
                match tx.commit().await {
                    Err(CommitError::Refused(refused)) => refused,
                    other => panic!("{other:?}"),
                }
            }
            Face::Own => {
                let refused = tx.write(&twice).await.unwrap_err();
                if H::Database::ERRORS_END_TRANSACTIONS {
                    let error = tx.write(&[event()]).await.unwrap_err();
                    assert!(matches!(error, WriteError::Driver(_)), "aborted by now: {error:?}");
                    tx.rollback().await.unwrap();
                } else {
                    tx.commit().await.unwrap();
                    kept.push(others as i64);
                }
                refused
            }
        };
        assert!(matches!(refused, WriteError::DuplicateId), "{others}: {refused:?}");
        assert_eq!(shop.rows().await, 1, "all or none of {others}");
        shop.has_orders(&kept).await;
    }
    let mut tx = shop.begin().await;
    tx.write(&[event()]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.rows().await, 2, "the connection is as good as new");
}

/// Holds E5, E9, W3 and W5: refused before anything is stored, and the transaction goes on.
pub async fn a_bad_event_is_refused_and_costs_nothing_else<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::open(harness, face).await;
    let (good, order) = (event(), shop.order(1));
    let mut tx = shop.begin().await;
    tx.sql(&order).await.unwrap();
    tx.write(std::slice::from_ref(&good)).await.unwrap();
    let bytes = |count| Event::builder("order.placed").bytes("x".repeat(count)).build();
    let error = bytes(limits::PAYLOAD_BYTES + 1).unwrap_err();
    assert_eq!(error.to_string(), "payload is 1048577 bytes; the limit is 1048576");
    let bad = Event::builder("order.placed").json_text("{not json").build().unwrap();
    let error = tx.write(&[bad]).await.unwrap_err();
    assert!(matches!(error, WriteError::Invalid(InvalidEvent::NotJson(_))), "{error:?}");
    let largest = bytes(limits::PAYLOAD_BYTES).unwrap();
    tx.write(std::slice::from_ref(&largest)).await.unwrap();
    tx.commit().await.unwrap();
    shop.has_orders(&[1]).await;
    shop.delivered(&[good.id(), largest.id()]).await;
}

/// Refused with the limit, before any SQL; written in parts it fits.
pub async fn what_is_too_much_for_one_write_is_refused_and_costs_nothing_else<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    static LARGE: [u8; limits::PAYLOAD_BYTES] = [7; limits::PAYLOAD_BYTES];
    let mut shop = Shop::writer(harness, face).await;
    let order = shop.order(1);
    let mut tx = shop.begin().await;
    tx.sql(&order).await.unwrap();
    let error = tx.write(&events(limits::WRITE_EVENTS + 1)).await.unwrap_err();
    let limit = limits::WRITE_EVENTS;
    assert!(
        matches!(error, WriteError::TooMany { events, limit: most } if (events, most) == (limit + 1, limit)),
        "{error:?}"
    );
    let large = || Event::builder("large").bytes(&LARGE[..]).build().unwrap();
    let most = limits::WRITE_BYTES / limits::PAYLOAD_BYTES;
    let error = tx.write(&(0..=most).map(|_| large()).collect::<Vec<_>>()).await.unwrap_err();
    assert!(matches!(error, WriteError::TooLarge { .. }), "{error:?}");
    tx.write(&events(2)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.rows().await, 2);
    shop.has_orders(&[1]).await;
}

/// Holds W3: an application that swallows the error of a statement, goes on and commits. Where the
/// error ended the transaction, the server answers this COMMIT with ROLLBACK, and drivers call that a
/// success; where it did not, who commits commits what he did.
pub async fn an_error_of_a_statement_is_never_delivered_over<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::open(harness, face).await;
    let (order, written) = (shop.order(1), event());
    let mut tx = shop.begin().await;
    tx.sql(&order).await.unwrap();
    tx.write(std::slice::from_ref(&written)).await.unwrap();
    assert!(tx.sql(&order).await.is_err(), "there is such an order");
    if H::Database::ERRORS_END_TRANSACTIONS && face == Face::Own {
        let error = tx.write(&[event()]).await.unwrap_err();
        assert!(matches!(error, WriteError::Driver(_)), "not a duplicate of ours: {error:?}");
    }
    let ended = tx.commit().await;
    if !H::Database::ERRORS_END_TRANSACTIONS {
        ended.unwrap();
        shop.has_orders(&[1]).await;
        shop.delivered(&[written.id()]).await;
        return;
    }
    if face == Face::Guard {
        assert!(matches!(ended, Err(CommitError::RolledBack(_))), "{ended:?}");
        let mut tx = shop.begin().await;
        assert!(tx.sql("select 1 / 0").await.is_err());
        let ended = tx.commit().await;
        assert!(matches!(ended, Err(CommitError::RolledBack(_))), "without events too: {ended:?}");
    }
    shop.has_orders(&[]).await;
    shop.delivered(&[]).await;
}

/// A constraint that is checked by COMMIT; the connection is free again.
pub async fn a_commit_that_the_database_refuses_was_rolled_back<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::open(harness, face).await;
    let orphan =
        format!("insert into {} (id, parent) values (1, 7)", harness.database().orders_table());
    let mut tx = shop.begin().await;
    tx.sql(&orphan).await.unwrap();
    tx.write(&[event()]).await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, CommitError::RolledBack(_)), "{error:?}");
    assert_eq!(shop.rows().await, 0);
    shop.has_orders(&[]).await;
    shop.delivered(&[]).await;
}

/// Whatever is open by then commits no event.
pub async fn a_closed_store_refuses_everything<H: CaptureHarness>(harness: &H, face: Face) {
    let mut shop = Shop::writer(harness, face).await;
    let store = harness.store();
    let mut tx = shop.begin().await;
    if face == Face::Guard {
        tx.write(&[event()]).await.unwrap();
    }
    H::Database::close(&store).await;
    let refused = match face {
        Face::Guard => match tx.commit().await {
            Err(CommitError::Refused(refused)) => refused,
            other => panic!("{other:?}"),
        },
        Face::Own => tx.write(&[event()]).await.unwrap_err(),
    };
    assert!(matches!(refused, WriteError::Closed), "{refused:?}");
    assert!(matches!(store.counts().await, Err(StoreError::Closed)));
}
