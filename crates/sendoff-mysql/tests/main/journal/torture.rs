//! Everything that can happen to an append, at once, for ten seconds (or as long as is said).

use std::time::Duration;

use mysql_async::Conn;
use sendoff_engine::journal::{AppendError, AppendIn};
use sendoff_testkit::journal::{
    Ending, Script, Step, Torture, TortureHarness, Writer, async_trait, torture,
};

use super::suite::OnServer;
use super::{Log, burn, run};
use crate::place::{MARIADB, MYSQL};

pub(super) struct Session {
    journal: Log,
    conn: Conn,
}

#[async_trait]
impl TortureHarness for OnServer {
    type Writer = Session;

    /// At the server's own isolation.
    async fn writer(&self) -> Session {
        Session { journal: self.journal.clone(), conn: self.place.conn().await }
    }
}

impl Session {
    async fn step(&mut self, step: &Step) -> Result<(), AppendError> {
        match step {
            Step::Pause(time) => tokio::time::sleep(*time).await,
            Step::Append(append) => {
                self.journal.store().append_in(&mut self.conn, append).await?;
            }
            Step::Savepoint => run(&mut self.conn, "savepoint s").await,
            Step::RollBackTo => run(&mut self.conn, "rollback to s").await,
            Step::Release => run(&mut self.conn, "release savepoint s").await,
        }
        Ok(())
    }
}

#[async_trait]
impl Writer for Session {
    async fn run(&mut self, script: &Script) -> Result<(), AppendError> {
        run(&mut self.conn, "begin").await;
        for step in &script.steps {
            if let Err(error) = self.step(step).await {
                run(&mut self.conn, "rollback").await;
                return Err(error);
            }
        }
        let end = match script.ending {
            Ending::Commit => "commit",
            Ending::RollBack => "rollback",
        };
        run(&mut self.conn, end).await;
        Ok(())
    }
}

/// Beside a foreign transaction that reads the journal, writes something else and is open throughout.
async fn on(server: &str) {
    let server = OnServer::on(server).await;
    let place = &server.place;
    place.run("create table foreign_work (n int)").await;
    let mut foreign = place.conn().await;
    run(&mut foreign, "begin; insert into foreign_work values (1)").await;
    run(&mut foreign, "select count(*) from journal_event").await;
    let tortured = torture(&server, Torture::default()).await;
    run(&mut foreign, "commit").await;
    println!("{tortured}");
    let verdict = &tortured.verdict;
    assert!(verdict.rolled_back > 0 && verdict.written > 500, "{tortured}");
    let voids = place.number("select count(*) from journal_event where event_id is null").await;
    assert!(voids > 0, "nothing was filled, and so nothing was tested");
}

/// Holds J6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_nothing_comes_twice_and_all_is_in_order() {
    on(MARIADB).await;
}

/// Holds J6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_on_mysql() {
    on(MYSQL).await;
}

/// Holds J6: imports that fail beside all that, each of which takes 50,000 numbers with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_beside_imports_that_fail() {
    for server in [MARIADB, MYSQL] {
        let server = OnServer::on(server).await;
        let mut import = server.place.conn().await;
        let lasts = Duration::from_secs(5);
        // An import is open for longer than any script.
        let torture = torture(&server, Torture { lasts, slack: lasts, ..Torture::default() });
        let burnt = async {
            for _ in 0..3 {
                burn(&mut import, 50_000).await;
            }
        };
        let (tortured, ()) = tokio::join!(torture, burnt);
        println!("{tortured}");
        assert!(tortured.verdict.written > 100, "{tortured}");
        assert!(server.place.number("select count(*) from journal_hole").await > 0, "no hole");
    }
}
