//! Everything that can happen to an append, at once, for ten seconds (or as long as is said).

use sendoff_core::journal::Append;
use sendoff_engine::journal::{AppendError, AppendIn, Receipt};
use sendoff_testkit::journal::{Writer, async_trait, torture};
use tokio_postgres::Client;

use super::{Gid, Log, journal};
use crate::place::Place;

const WRITERS: usize = 12;

pub(super) struct Connected {
    journal: Log,
    client: Client,
    gid: Gid,
    is_prepared: bool,
}

impl Connected {
    pub(super) async fn new(journal: &Log, place: &Place) -> Self {
        let (client, gid) = (place.client().await, Gid::new(place));
        Self { journal: journal.clone(), client, gid, is_prepared: false }
    }
}

#[async_trait]
impl Writer for Connected {
    async fn begin(&mut self) {
        self.run("begin").await;
    }

    async fn append(&mut self, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        self.journal.store().append_in(&mut self.client, append).await
    }

    async fn run(&mut self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    async fn prepare(&mut self) {
        self.gid.prepare(&self.client).await;
        self.is_prepared = true;
    }

    async fn end(&mut self, commits: bool) {
        match (std::mem::take(&mut self.is_prepared), commits) {
            (true, true) => self.gid.commit(&self.client).await,
            (true, false) => self.gid.roll_back(&self.client).await,
            (false, true) => self.run("commit").await,
            (false, false) => self.run("rollback").await,
        }
    }
}

/// Holds J6: with prepared transactions, and beside a foreign one that writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_nothing_comes_twice_and_all_is_in_order() {
    let place = Place::new();
    let journal = journal(&place).await;
    place.run("create table foreign_work (n int)").await;
    // Open from before the first append until after the last, and it writes.
    let foreign = place.client().await;
    let write = format!("begin; insert into {}.foreign_work values (1)", place.schema);
    foreign.batch_execute(&write).await.unwrap();
    let mut writers: Vec<Box<dyn Writer>> = Vec::new();
    for _ in 0..WRITERS {
        writers.push(Box::new(Connected::new(&journal, &place).await));
    }
    println!("{}", torture(&journal, writers).await);
    foreign.batch_execute("commit").await.unwrap();
}
