//! From times to positions.

use std::time::Duration;

use sendoff_core::Timestamp;
use sendoff_core::journal::{Position, Query};

use super::store::{JournalStore, Page};
use crate::store::{StoreError, within};

/// Facts are recorded a little before they have their positions, so times are not quite in the order
/// of positions.
const MARGIN: Duration = Duration::from_secs(1);

/// The last position before `time`, give or take a second too early.
/// A search by halves: there is no index of times, and need not be.
pub(super) async fn position_before<S: JournalStore + ?Sized>(
    store: &S,
    time: Timestamp,
) -> Result<Position, StoreError> {
    let time = time.saturating_sub(MARGIN);
    let wait = store.longest_wait();
    let (mut low, mut high) = (0, within(wait, store.head()).await?.get());
    // Everything up to `low` is older; the first fact after `high` is not.
    while low < high {
        let middle = low + (high - low) / 2;
        let page = Page::first(place(middle), place(high));
        let next = within(wait, store.read(&Query::all(), page)).await?;
        match next.facts.first() {
            Some(fact) if fact.recorded_at < time => low = fact.position.get(),
            _ => high = middle,
        }
    }
    Ok(place(low))
}

fn place(number: u64) -> Position {
    Position::new(number).unwrap_or(Position::END)
}
