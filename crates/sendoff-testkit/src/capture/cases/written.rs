//! What a commit leaves.

use std::time::Duration;

use sendoff_core::{Event, Status};
use sendoff_engine::store::{Claim, ClaimStore, InspectStore, NewRow};

use crate::capture::shop::{Shop, event, ids};
use crate::capture::{CaptureHarness, Database, Face};
use crate::thorny;

/// Holds W2: on the caller's connection, NEW, attempts 0, and the end is the caller's.
pub async fn a_row_is_seen_by_others_only_after_the_commit<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::writer(harness, face).await;
    let (store, event) = (harness.store(), event());
    let mut tx = shop.begin().await;
    assert_eq!(tx.write(std::slice::from_ref(&event)).await.unwrap(), [event.id()]);
    assert!(store.find(event.id()).await.unwrap().is_none());
    assert_eq!(store.counts().await.unwrap().new, 0);
    tx.commit().await.unwrap();
    let row = store.find(event.id()).await.unwrap().unwrap();
    assert_eq!((row.status, row.attempts, row.locked_by), (Status::New, 0, None));
}

/// Holds W5: of more events than fit one statement or one claim, one transaction, one order.
pub async fn many_events_in_one_commit_are_whole_and_in_order<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::writer(harness, face).await;
    let events: Vec<_> = (0..2_500).map(|n| Event::json("order.placed", &n).unwrap()).collect();
    let mut tx = shop.begin().await;
    assert_eq!(tx.write(&events).await.unwrap(), ids(&events));
    tx.commit().await.unwrap();
    let (store, mut claimed) = (harness.store(), Vec::new());
    for _ in 0..3 {
        let claim = Claim::new("a", 1_000, Duration::from_secs(30));
        claimed.extend(store.claim(&claim).await.unwrap().rows.into_iter().map(|row| row.id));
    }
    assert_eq!(claimed, ids(&events));
}

/// Holds E6: the same values through every driver, of many rows in one statement and of one.
pub async fn every_value_comes_back_as_it_was<H: CaptureHarness>(harness: &H, face: Face) {
    let mut shop = Shop::writer(harness, face).await;
    // A store may write many in another way than a few.
    let many = (0..5).flat_map(|_| thorny::rows(H::Database::TIMES)).collect();
    let one_by_one = thorny::rows(H::Database::TIMES).into_iter().map(|row| vec![row]);
    for rows in one_by_one.chain([thorny::rows(H::Database::TIMES), many]) {
        commit_and_check(&mut shop, &rows).await;
    }
}

/// Holds E6: another character set, another zone, another way to show bytes and times.
pub async fn a_write_does_not_depend_on_the_state_of_the_session<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::writer(harness, face).await;
    for odd in H::Database::ODD_SETTINGS {
        H::sql(&mut shop.conn, odd).await.unwrap();
        commit_and_check(&mut shop, &thorny::rows(H::Database::TIMES)).await;
    }
}

async fn commit_and_check<H: CaptureHarness>(shop: &mut Shop<'_, H>, rows: &[NewRow]) {
    let store = shop.harness.store();
    let born = match shop.face {
        Face::Guard => H::commit(&mut shop.conn, &store, rows).await.unwrap(),
        Face::Own => {
            let mut tx = shop.begin().await;
            let born = tx.insert(rows).await.unwrap();
            tx.commit().await.unwrap();
            born
        }
    };
    thorny::check(&store, rows, &born).await;
}
