//! Everything that can happen to an append, at once, for ten seconds (or as long as is said).

use std::sync::Arc;
use std::time::Duration;

use sendoff_engine::journal::retain::{JournalMaintainer, RetainOptions};
use sendoff_engine::journal::{AppendError, AppendIn};
use sendoff_testkit::journal::{
    Ending, Script, Step, Torture, TortureHarness, Writer, async_trait, torture,
};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use super::suite::OnServer;
use super::{Gid, Log, ranges};
use crate::place::SERVER;

pub(super) struct Session {
    journal: Log,
    client: Client,
    gid: Gid,
}

#[async_trait]
impl TortureHarness for OnServer {
    type Writer = Session;

    async fn writer(&self) -> Session {
        let (journal, gid) = (self.journal.clone(), Gid::new(&self.place));
        Session { journal, client: self.place.client().await, gid }
    }
}

impl Session {
    async fn execute(&self, statement: &str) {
        self.client.batch_execute(statement).await.unwrap();
    }

    async fn step(&mut self, step: &Step) -> Result<(), AppendError> {
        match step {
            Step::Pause(time) => tokio::time::sleep(*time).await,
            Step::Append(append) => {
                self.journal.store().append_in(&mut self.client, append).await?;
            }
            Step::Savepoint => self.execute("savepoint s").await,
            Step::RollBackTo => self.execute("rollback to s").await,
            Step::Release => self.execute("release s").await,
        }
        Ok(())
    }
}

#[async_trait]
impl Writer for Session {
    async fn run(&mut self, script: &Script) -> Result<(), AppendError> {
        self.execute("begin").await;
        for step in &script.steps {
            if let Err(error) = self.step(step).await {
                self.execute("rollback").await;
                return Err(error);
            }
        }
        match (script.prepared_for, script.ending) {
            (None, Ending::Commit) => self.execute("commit").await,
            (None, Ending::RollBack) => self.execute("rollback").await,
            (Some(time), ending) => {
                self.gid.prepare(&self.client).await;
                tokio::time::sleep(time).await;
                match ending {
                    Ending::Commit => self.gid.commit(&self.client).await,
                    Ending::RollBack => self.gid.roll_back(&self.client).await,
                }
            }
        }
        Ok(())
    }
}

/// Holds J6: while partitions of a hundred positions are made and dropped, and facts move out of the
/// tail. Whatever is older than five seconds goes: nobody who reads is that late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_in_partitions_that_come_and_go() {
    let server = OnServer::in_partitions(SERVER).await;
    let keeping = RetainOptions {
        keep: Some(Duration::from_secs(5)),
        ranges: ranges(100),
        check_every: Duration::from_millis(50),
        lock_wait: Duration::from_millis(200),
        ..RetainOptions::default()
    };
    let store = Arc::new(server.journal.store().clone());
    let maintainer = JournalMaintainer::new(store, keeping).unwrap();
    let stop = CancellationToken::new();
    let kept = tokio::spawn({
        let stop = stop.clone();
        async move { maintainer.run(stop.cancelled()).await }
    });
    let tortured = torture(&server, Torture { prepares: true, ..Torture::default() }).await;
    stop.cancel();
    kept.await.unwrap();
    println!("{tortured}");
    let verdict = &tortured.verdict;
    assert!(verdict.rolled_back > 0 && verdict.written > 500, "{tortured}");
    let lowest = server.place.number("select min(position) from journal_event").await;
    assert!(lowest > 100, "partitions were dropped meanwhile: {lowest}");
}

/// Holds J6: also in two phases, and beside a transaction that writes something else throughout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_nothing_comes_twice_and_all_is_in_order() {
    let server = OnServer::on(SERVER).await;
    server.place.run("create table foreign_work (n int)").await;
    let foreign = server.place.client().await;
    let write = format!("begin; insert into {}.foreign_work values (1)", server.place.schema);
    foreign.batch_execute(&write).await.unwrap();
    let tortured = torture(&server, Torture { prepares: true, ..Torture::default() }).await;
    foreign.batch_execute("commit").await.unwrap();
    println!("{tortured}");
    let verdict = &tortured.verdict;
    assert!(verdict.rolled_back > 0 && verdict.written > 500, "{tortured}");
}
