//! The journal on a real server.

mod append;
mod busy;
mod by_sql;
mod decide;
mod doorbell;
mod drivers;
mod frozen;
mod gap_alone;
mod gaps;
mod limits;
mod plans;
pub(crate) mod publish;
mod race;
pub(crate) mod restart;
mod retain;
mod schema;
mod session;
mod suite;
mod torture;

use std::num::NonZeroU64;

use futures_util::TryStreamExt;
use sendoff_core::EventId;
use sendoff_core::journal::retain::Ranges;
use sendoff_core::journal::{Position, Query, Recorded};
use sendoff_engine::journal::{Batch, Journal, TailReader};
use sendoff_postgres::{JournalLayout, JournalOptions, PostgresJournal};
use tokio_postgres::Client;

pub(crate) use sendoff_testkit::journal::facts::{
    QUICK, count, fact, position, positions, tag, tagged, tail,
};

use crate::place::{Place, connect};

pub(crate) type Log = Journal<PostgresJournal>;

pub(crate) fn options(place: &Place) -> JournalOptions {
    JournalOptions { server: place.options(), ..JournalOptions::default() }
}

/// A journal in partitions of so many positions, two of which are there ahead.
pub(crate) fn ranges(size: u64) -> Ranges {
    let most_moved = NonZeroU64::new(100).unwrap();
    Ranges { size: NonZeroU64::new(size).unwrap(), ahead: 2, most_moved }
}

pub(crate) fn partitioned(place: &Place, size: u64) -> JournalOptions {
    JournalOptions { layout: JournalLayout::Partitioned(ranges(size)), ..options(place) }
}

/// A journal in this place, laid out like this.
pub(crate) async fn journal_in(place: &Place, layout: JournalLayout) -> Log {
    journal_with(place, JournalOptions { layout, ..options(place) }).await
}

/// A journal in this place.
pub(crate) async fn journal(place: &Place) -> Log {
    journal_with(place, options(place)).await
}

pub(crate) async fn journal_with(place: &Place, options: JournalOptions) -> Log {
    let store = PostgresJournal::connect_with(&place.url, options).await.unwrap();
    store.migrate().await.unwrap();
    Journal::new(store)
}

/// As many looks as it takes to know what can be known now.
pub(crate) async fn settled(reader: &mut TailReader) -> (Vec<u64>, Batch) {
    let mut passed = Vec::new();
    loop {
        let at = reader.at();
        let batch = reader.look().await.unwrap();
        passed.extend(positions(&batch));
        let waits = !batch.waits_for.is_empty();
        // Where a gap was passed, there is something after it.
        if waits || (batch.up_to == at && batch.gap.is_none()) {
            return (passed, batch);
        }
    }
}

/// A name for a transaction that is prepared; whatever is left of it is rolled back at the end.
pub(crate) struct Gid {
    url: String,
    name: String,
}

impl Gid {
    pub(crate) fn new(place: &Place) -> Self {
        Self { url: place.url.clone(), name: format!("t_{}", EventId::generate()) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) async fn prepare(&self, client: &Client) {
        client.batch_execute(&format!("prepare transaction '{}'", self.name)).await.unwrap();
    }

    pub(crate) async fn commit(&self, client: &Client) {
        client.batch_execute(&format!("commit prepared '{}'", self.name)).await.unwrap();
    }

    pub(crate) async fn roll_back(&self, client: &Client) {
        client.batch_execute(&format!("rollback prepared '{}'", self.name)).await.unwrap();
    }
}

impl Drop for Gid {
    fn drop(&mut self) {
        let (url, name) = (self.url.clone(), self.name.clone());
        // What a failed test leaves prepared would keep its schema from being dropped.
        if !std::thread::panicking() {
            return;
        }
        let clean = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = connect(&url).await?;
                client.batch_execute(&format!("rollback prepared '{name}'")).await
            })
        });
        let _ = clean.join();
    }
}

/// Every fact there is.
pub(crate) async fn facts(journal: &Log) -> Vec<Recorded> {
    journal.read(Query::all(), Position::START).try_collect().await.unwrap()
}
