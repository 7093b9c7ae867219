//! Facts, and what is asked about them, in few words.

#![allow(
    clippy::missing_panics_doc,
    reason = "what cannot be built is a mistake of the test's own"
)]
#![allow(clippy::unwrap_used, reason = "what cannot be built is a mistake of the test's own")]

use std::time::Duration;

use futures_util::TryStreamExt;
use sendoff_core::journal::{Fact, Position, Query, Recorded, Tag};
use sendoff_core::{BoxError, Ident, limits};
use sendoff_engine::journal::{Batch, Fold, Journal, JournalStore, TailOptions, TailReader, fold};
use sendoff_engine::store::StoreError;

/// A tag by its text.
pub fn tag(text: &str) -> Tag {
    text.parse().unwrap()
}

/// What has this tag.
pub fn tagged(text: &str) -> Query {
    Query::tagged(tag(text))
}

/// A fact of this type with these tags.
pub fn fact(event_type: &str, tags: &[&str]) -> Fact {
    Fact::builder((event_type, "{}")).tags(tags.iter().map(|text| tag(text))).build().unwrap()
}

/// How many facts a query means.
pub fn count(
    query: Query,
) -> Fold<usize, impl FnMut(&mut usize, &Recorded) -> Result<(), BoxError> + Send> {
    fold(query, 0, |count: &mut usize, _: &Recorded| {
        *count += 1;
        Ok(())
    })
}

/// A position by its number.
pub fn position(number: u64) -> Position {
    Position::new(number).unwrap()
}

/// Looks that follow one another quickly.
pub const QUICK: TailOptions = TailOptions {
    batch: 100,
    batch_bytes: limits::READ_BYTES,
    interval: Duration::from_millis(5),
    gap_interval: Duration::from_millis(2),
};

/// A tail from the beginning on.
pub async fn tail<S: JournalStore>(journal: &Journal<S>) -> TailReader {
    journal.tail(Position::START, QUICK).await.unwrap()
}

/// Where the facts of a batch are.
pub fn positions(batch: &Batch) -> Vec<u64> {
    batch.rows.iter().map(|row| row.position.get()).collect()
}

/// Journals without a prefix, with a long one, and with one that begins like a keyword have facts of
/// their own each.
pub async fn journals_with_different_prefixes_live_side_by_side<S: JournalStore>(
    journal: impl AsyncFn(Option<Ident>) -> Journal<S>,
) {
    let prefix = |text: &str| Some(Ident::new(text).unwrap());
    let mut journals = Vec::new();
    for prefix in [None, prefix(&"p".repeat(40)), prefix("select_")] {
        journals.push(journal(prefix).await);
    }
    for (nth, journal) in journals.iter().enumerate() {
        for _ in 0..=nth {
            journal.append([fact("a", &["w=1"])]).await.unwrap();
        }
    }
    for (nth, journal) in journals.iter().enumerate() {
        let found: Vec<_> =
            journal.read(Query::all(), Position::START).try_collect().await.unwrap();
        assert_eq!(found.len(), nth + 1);
    }
}

/// A journal that was closed says so to whoever asks, also through a tail from before.
pub async fn nothing_is_answered_any_more<S: JournalStore>(
    journal: &Journal<S>,
    mut reader: TailReader,
) {
    assert!(journal.append([fact("a", &[])]).await.is_err());
    assert!(reader.look().await.is_err());
    assert!(matches!(journal.head().await, Err(StoreError::Closed)));
}
