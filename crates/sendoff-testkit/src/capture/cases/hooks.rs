//! Code that waits for the end of a transaction.

use std::sync::{Arc, Mutex};

use crate::capture::shop::Shop;
use crate::capture::{CaptureHarness, Face, Hook};

type Log = Arc<Mutex<Vec<&'static str>>>;

fn hook(log: &Log, text: &'static str) -> Hook {
    let log = log.clone();
    Box::new(move || log.lock().unwrap().push(text))
}

/// Holds W8: after the commit, after the rollback, and after a drop, of a savepoint too.
pub async fn hooks_run_after_what_they_wait_for_and_only_then<H: CaptureHarness>(
    harness: &H,
    face: Face,
) {
    let mut shop = Shop::writer(harness, face).await;
    let log = Log::default();
    let said = || std::mem::take(&mut *log.lock().unwrap());

    let mut tx = shop.begin().await;
    tx.after(hook(&log, "committed"), hook(&log, "not committed"));
    let mut undone = tx.savepoint().await.unwrap();
    undone.after(hook(&log, "kept"), hook(&log, "undone"));
    assert!(said().is_empty());
    undone.rollback().await.unwrap();
    assert_eq!(said(), ["undone"]);
    tx.commit().await.unwrap();
    assert_eq!(said(), ["committed"]);

    let mut tx = shop.begin().await;
    tx.after(hook(&log, "committed"), hook(&log, "rolled back"));
    tx.rollback().await.unwrap();
    assert_eq!(said(), ["rolled back"]);
    let mut tx = shop.begin().await;
    tx.after(hook(&log, "committed"), hook(&log, "dropped"));
    drop(tx);
    assert_eq!(said(), ["dropped"]);
}
