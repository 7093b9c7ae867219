//! A write needs a transaction that is open.

use sendoff_engine::capture::{CommitError, WriteError};

use crate::capture::shop::{Shop, event};
use crate::capture::{CaptureHarness, Database, Face};

/// Holds W1: the type proves that a transaction was begun, not that it is still open.
pub async fn a_transaction_ended_by_hand_is_none<H: CaptureHarness>(harness: &H, face: Face) {
    let mut shop = Shop::open(harness, face).await;
    for (at, end) in H::Database::ENDS_BY_HAND.iter().enumerate() {
        // Also after a write: what it learned is over with its transaction.
        for written in [false, true] {
            // The driver of an application's own transaction commits what is written when it is told to.
            let written = written && (face == Face::Guard || at == 0);
            let mut tx = shop.begin().await;
            if written {
                tx.write(&[event()]).await.unwrap();
            }
            tx.sql(end).await.unwrap();
            match face {
                Face::Own => {
                    let error = tx.write(&[event()]).await.unwrap_err();
                    assert!(matches!(error, WriteError::NoTransaction), "{end}: {error:?}");
                    // Some drivers notice that nothing is open, and some do not.
                    let _ = tx.rollback().await;
                }
                Face::Guard => {
                    let error = tx.commit().await.unwrap_err();
                    let expected = match error {
                        CommitError::Refused(WriteError::NoTransaction) => written,
                        CommitError::RolledBack(_) => !written,
                        _ => false,
                    };
                    assert!(expected, "{end}, written: {written}: {error:?}");
                }
            }
            assert_eq!(shop.rows().await, 0, "{end}");
            if !H::CONNECTIONS_OUTLIVE_ENDS_BY_HAND {
                shop.conn = harness.connect().await;
            }
        }
        if face == Face::Guard {
            let mut tx = shop.begin().await;
            tx.sql(end).await.unwrap();
            assert!(tx.savepoint().await.is_err(), "{end}: there is nothing to set it in");
            drop(tx);
            shop.conn = harness.connect().await;
        }
    }
    shop.delivered(&[]).await;
}

/// Holds W1: a connection is not a transaction, and drivers do not count what is sent as text.
pub async fn a_connection_needs_a_transaction_whoever_began_it<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::open(harness, face).await;
    let (first, order) = (event(), shop.order(1));
    let Shop { conn, outbox, .. } = &mut shop;
    // Twice: the second time the statement may be prepared already.
    for _ in 0..2 {
        let error = H::write(conn, outbox, &[event()]).await.unwrap_err();
        assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
    }
    H::sql(conn, "begin").await.unwrap();
    let staged = H::write(conn, outbox, std::slice::from_ref(&first)).await.unwrap();
    H::sql(conn, &order).await.unwrap();
    H::sql(conn, "commit").await.unwrap();
    staged.release();

    // What the last transaction said about itself is not believed of the next.
    let error = H::write(conn, outbox, &[event()]).await.unwrap_err();
    assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
    H::sql(conn, "begin").await.unwrap();
    let undone = H::write(conn, outbox, &[event()]).await.unwrap();
    H::sql(conn, "rollback").await.unwrap();
    undone.release();
    let error = H::write(conn, outbox, &[event()]).await.unwrap_err();
    assert!(matches!(error, WriteError::NoTransaction), "{error:?}");
    shop.has_orders(&[1]).await;
    shop.delivered(&[first.id()]).await;
}
