//! The cases. Each is what a journal promises, whatever it lives in.

#![allow(clippy::missing_panics_doc, reason = "a case that panics is a journal that failed it")]
#![allow(clippy::unwrap_used, reason = "a case that cannot unwrap says less, not more")]

mod append;
mod command;
mod decide;
mod load;
mod retain;
mod tail;
mod transaction;

use std::time::Duration;

use futures_util::TryStreamExt;
use sendoff_core::journal::{Append, Condition, Fact, Position, Query, Recorded};
use sendoff_engine::journal::{AppendError, Journal, JournalStore, Receipt};

use super::facts::{fact, position, tag, tagged};
use super::harness::{Ending, JournalHarness};

pub use append::*;
pub use command::*;
pub use decide::*;
pub use load::*;
pub use retain::*;
pub use tail::*;
pub use transaction::*;

pub(super) async fn found<S: JournalStore>(journal: &Journal<S>, query: Query) -> Vec<Recorded> {
    journal.read(query, Position::START).try_collect().await.unwrap()
}

async fn types<S: JournalStore>(journal: &Journal<S>, query: Query) -> Vec<String> {
    let found = found(journal, query).await;
    found.iter().map(|fact| fact.event().event_type().to_owned()).collect()
}

/// In a transaction of the application's, at once.
async fn append_in(
    harness: &impl JournalHarness,
    facts: &[Fact],
    condition: Option<Condition>,
    ending: Ending,
) -> Result<Vec<Receipt>, AppendError> {
    let append = Append::new(facts.to_vec(), condition)?;
    harness.append_in(&append, Duration::ZERO, ending).await
}
