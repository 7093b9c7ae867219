//! Fault 21: what nobody waits for any more.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::capture::shop::{Shop, begin, event, events};
use crate::capture::{CaptureHarness, Database, Face};
use crate::wait::eventually;

/// Far above what a statement takes, and far below for ever.
const PLENTY: Duration = Duration::from_secs(30);

/// Fault 21: a future dropped before its first step, and a transaction that is dropped.
pub async fn what_is_dropped_is_rolled_back_and_the_connection_stays_usable<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::open(harness, face).await;
    for _ in 0..20 {
        let mut tx = shop.begin().await;
        tx.write(&[event()]).await.unwrap();
        drop(tx);
        let mut tx = shop.begin().await;
        tx.write(&[event()]).await.unwrap();
        drop(tx.commit());
    }
    assert_eq!(shop.rows().await, 0);
    shop.delivered(&[]).await;
}

/// Fault 21: whenever it is dropped, a commit is carried out or not, but never half.
pub async fn a_commit_dropped_on_its_way_is_carried_out_or_not_but_never_half<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    const ROUNDS: u32 = 20;
    let mut shop = Shop::writer(harness, face).await;
    let mut whole = Duration::ZERO;
    for n in 0..=ROUNDS {
        // What is cut off may still be with the server: the next has a connection of its own.
        shop.conn = harness.connect().await;
        let order = shop.order(n as usize);
        let mut tx = shop.begin().await;
        tx.sql(&order).await.unwrap();
        tx.write(&[event()]).await.unwrap();
        let (began, wait) = (Instant::now(), if n == 0 { PLENTY } else { whole * n / ROUNDS });
        let _ = timeout(wait, tx.commit()).await;
        if n == 0 {
            whole = began.elapsed();
        }
        // Either of the two reads may be the earlier one; half of a commit would stay half.
        let whole =
            async || shop.harness.database().orders().await.unwrap().len() == shop.rows().await;
        eventually("an order and its event, or neither", whole).await;
    }
    assert!(shop.rows().await > 0, "the first one had time");
}

/// Holds W5. Fault 21: a write that is dropped on its way leaves all of its events or none, and nobody
/// waits for its connection.
pub async fn a_write_of_many_that_is_dropped_leaves_all_or_none<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    const MANY: usize = 3_000;
    const ROUNDS: u32 = 10;
    let mut shop = Shop::writer(harness, face).await;
    let (mut whole, mut certain) = (Duration::ZERO, 0);
    for n in 0..=ROUNDS {
        let many = events(MANY);
        let begun = begin::<H>(face, &mut shop.conn, &shop.outbox);
        let mut tx = timeout(PLENTY, begun).await.expect("a connection");
        let (began, wait) = (Instant::now(), if n == 0 { PLENTY } else { whole * n / ROUNDS });
        let written = timeout(wait, tx.write(&many)).await;
        if n == 0 {
            whole = began.elapsed();
        }
        let committed = timeout(PLENTY, tx.commit()).await.expect("an answer");
        if let (Ok(written), Ok(())) = (written, committed) {
            certain += written.unwrap().len();
        }
        // What was dropped may come later, but never in part.
        let rows = shop.rows().await;
        assert!(rows % MANY == 0 && rows >= certain, "{rows} rows after {wait:?}");
        shop.conn = harness.connect().await;
    }
    assert!(certain >= MANY, "the first one had time");
}
