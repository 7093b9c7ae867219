//! What a decision costs, against the same by a row lock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use futures_util::future::{try_join, try_join3};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, TxOpts};
use sendoff_core::journal::{Fact, Item, Query, Recorded, Tag};
use sendoff_core::{BoxError, Event};
use sendoff_engine::journal::{ExecuteError, Fold, Journal, JournalStore, fold};
use sendoff_mysql::MysqlJournal;
use sendoff_postgres::PostgresJournal;
use serde_json::json;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::settings;
use crate::contest::{Rate, alternate};
use crate::ground::Ground;
use crate::load::{Trace, Writer, Writers, flood};
use crate::order;
use crate::report::Finding;
use crate::server::Server;

const MOVED: &str = "account.moved";
const CLOSED: &str = "account.closed";
/// Facts of every account before anything is measured.
const START: i64 = 10;
/// So many facts, and the book is closed by one more.
const CLOSES_AFTER: i64 = 20;

/// By hand: the account's row is locked, changed, and one row is inserted.
const POSTGRES: [&str; 3] = [
    "select balance from account where id = $1 for update",
    "update account set balance = $2 where id = $1",
    "insert into journal_event (event_id, event_type, tags, content_type, occurred_at, recorded_at, payload) \
     values ($1, $2, array[$3::text], 'application/json', now(), now(), $4)",
];
/// By hand, too, in place of the last one: with the row by which a fact is found by its tag.
const POSTGRES_TAGGED: &str = "with new as (insert into journal_event \
     (event_id, event_type, tags, content_type, occurred_at, recorded_at, payload) \
     values ($1, $2, array[$3::text], 'application/json', now(), now(), $4) returning position) \
     insert into journal_tag (tag, position) select $3, position from new";
const MYSQL: [&str; 3] = [
    "select balance from account where id = ? for update",
    "update account set balance = ? where id = ?",
    "insert into journal_event (event_id, event_type, tags, content_type, occurred_at, recorded_at, payload) \
     values (?, ?, ?, 'application/json', utc_timestamp(6), utc_timestamp(6), ?)",
];
const ACCOUNT: &str = "create table account (id bigint primary key, balance bigint not null)";

/// Counts how often the tables were emptied.
static ROUND: AtomicU64 = AtomicU64::new(0);

/// How it is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ByHand,
    /// By hand, with a row for the tag.
    ByHandTagged,
    /// `execute_locked`.
    Locked,
    /// `execute`: who loses tries again.
    Trying,
}

/// Who decides, how many at once, and about how many accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Deciders {
    way: Way,
    clients: usize,
    accounts: u64,
}

impl fmt::Display for Deciders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { way, clients, accounts } = self;
        write!(f, "{way:?}, {clients} clients, {accounts} accounts")
    }
}

/// A journal of either kind.
enum Log {
    Postgres(Journal<PostgresJournal>),
    Mysql(Journal<MysqlJournal>),
}

/// Decisions about few accounts and many, and by one client alone.
pub(crate) async fn run(
    server: &Server,
    rounds: usize,
    clients: usize,
    time: Duration,
) -> Result<Vec<Finding>> {
    let ground = server.ground().await?;
    let database = ground.settings().await?;
    let log = open(&ground, clients).await?;
    let shapes = [(clients, 5), (clients, 500), (1, 500)];
    let mut measured = vec![(Way::Locked, "locked"), (Way::Trying, "trying")];
    if matches!(ground, Ground::Postgres(_)) {
        measured.push((Way::ByHandTagged, "by-hand-tagged"));
    }
    let ways: Vec<_> =
        [Way::ByHand].into_iter().chain(measured.iter().map(|(way, _)| *way)).collect();
    let mut contenders = Vec::new();
    for (clients, accounts) in shapes {
        contenders.extend(ways.iter().map(|&way| Deciders { way, clients, accounts }));
    }
    let tally = alternate("decide", rounds, &contenders, async |deciders| {
        clear(&ground, &log, deciders.accounts).await?;
        let mut writers = Writers::new();
        for client in 0..deciders.clients {
            writers.push(writer(&ground, &log, deciders, client).await?);
        }
        let written = flood(writers, time).await?;
        Ok(Rate::new(written.count, written.took))
    })
    .await?;
    let mut findings = Vec::new();
    for (clients, accounts) in shapes {
        let of = |way| tally.of(Deciders { way, clients, accounts }, |rate: &Rate| rate.0);
        for &(way, name) in &measured {
            findings.push(Finding {
                scenario: "decide",
                variant: format!("{name}-clients-{clients}-accounts-{accounts}"),
                unit: "decisions/s",
                ours: of(way),
                limit: of(Way::ByHand),
                settings: settings(
                    &database,
                    json!({ "seconds": time.as_secs_f64(),
                            "limit_is": "the account's row locked and changed, one row inserted" }),
                ),
            });
        }
    }
    Ok(findings)
}

async fn open(ground: &Ground, clients: usize) -> Result<Log> {
    // A journal keeps a quarter of its connections, and two at least, from decisions.
    let connections = clients + clients.div_ceil(3).max(2);
    Ok(match ground {
        Ground::Postgres(ground) => {
            let options = sendoff_postgres::JournalOptions {
                connections,
                ..sendoff_postgres::JournalOptions::default()
            };
            let store = PostgresJournal::connect_with(ground.url(), options).await?;
            store.migrate().await?;
            ground.connect().await?.batch_execute(ACCOUNT).await?;
            Log::Postgres(Journal::new(store))
        }
        Ground::Mysql(ground) => {
            let options = sendoff_mysql::JournalOptions {
                connections,
                ..sendoff_mysql::JournalOptions::default()
            };
            let store = MysqlJournal::connect_with(ground.url(), options).await?;
            store.migrate().await?;
            ground.connect().await?.query_drop(ACCOUNT).await?;
            Log::Mysql(Journal::new(store))
        }
        Ground::Sqlite(_) => bail!("`decide` is not measured on SQLite, which has one writer"),
    })
}

/// Every account with its first facts, and nothing else.
async fn clear(ground: &Ground, log: &Log, accounts: u64) -> Result<()> {
    ROUND.fetch_add(1, Ordering::Relaxed);
    let rows: Vec<_> = (0..accounts).map(|id| format!("({id}, 0)")).collect();
    let fill = format!("insert into account values {}", rows.join(","));
    match ground {
        Ground::Postgres(ground) => {
            let client = ground.connect().await?;
            client.batch_execute("truncate journal_event, journal_tag, account").await?;
            client.batch_execute(&format!("{fill}; checkpoint")).await?;
        }
        Ground::Mysql(ground) => {
            let mut conn = ground.connect().await?;
            conn.query_drop("truncate journal_event; truncate journal_tag; truncate account")
                .await?;
            conn.query_drop(fill).await?;
        }
        Ground::Sqlite(_) => {}
    }
    for id in 0..accounts {
        let facts: Vec<_> = (0..START).map(|number| moved(id, number)).collect::<Result<_>>()?;
        match log {
            Log::Postgres(journal) => journal.append(facts).await?,
            Log::Mysql(journal) => journal.append(facts).await?,
        };
    }
    Ok(())
}

/// No journal is ever emptied, and a process remembers where books were closed: so what the accounts of a
/// round are called is new.
fn tag(account: u64) -> Result<Tag> {
    Ok(Tag::new("account", format!("{account}.{}", ROUND.load(Ordering::Relaxed)))?)
}

fn moved(account: u64, number: i64) -> Result<Fact> {
    let event = Event::builder(MOVED).bytes(order::payload(number.unsigned_abs()));
    Ok(Fact::builder(event.content_type("application/json").build()?)
        .tags([tag(account)?])
        .build()?)
}

fn closed(account: u64, balance: i64) -> Result<Fact> {
    Ok(Fact::builder(Event::json(CLOSED, &balance)?).tags([tag(account)?]).build()?)
}

/// What an account is: its balance, which counts its facts, and how many there are since it was closed.
type Account = (i64, i64);

fn account(
    tag: &Tag,
) -> Fold<Account, impl FnMut(&mut Account, &Recorded) -> Result<(), BoxError> + Send + use<>> {
    let closing = Query::of(Item::any().of_type(CLOSED).tagged(tag.clone()));
    let apply = |(balance, since): &mut Account, fact: &Recorded| {
        if fact.event().event_type() == CLOSED {
            (*balance, *since) = (fact.event().read_json()?, 0);
        } else {
            (*balance, *since) = (*balance + 1, *since + 1);
        }
        Ok(())
    };
    fold(Query::tagged(tag.clone()), (0, 0), apply).from_last(closing)
}

/// One fact, and now and then one that closes the book.
fn decision(account: u64, (balance, since): Account) -> Result<Vec<Fact>, BoxError> {
    let mut facts = vec![moved(account, balance)?];
    if since + 1 >= CLOSES_AFTER {
        facts.push(closed(account, balance + 1)?);
    }
    Ok(facts)
}

async fn writer(
    ground: &Ground,
    log: &Log,
    deciders: Deciders,
    client: usize,
) -> Result<Box<dyn Writer>> {
    let turn = Turn { next: client as u64 * 7_919, accounts: deciders.accounts };
    Ok(match (deciders.way, ground, log) {
        (way @ (Way::ByHand | Way::ByHandTagged), Ground::Postgres(ground), _) => {
            let client = ground.connect().await?;
            let [lock, update, insert] = POSTGRES;
            let insert = if way == Way::ByHandTagged { POSTGRES_TAGGED } else { insert };
            let mut statements = Vec::new();
            for text in [lock, update, insert] {
                statements.push(client.prepare(text).await?);
            }
            Box::new(PostgresByHand { client, statements, turn })
        }
        (Way::ByHand, Ground::Mysql(ground), _) => {
            let mut conn = ground.connect().await?;
            let mut statements = Vec::new();
            for text in MYSQL {
                statements.push(conn.prep(text).await?);
            }
            Box::new(MysqlByHand { conn, statements, turn })
        }
        (way, _, Log::Postgres(journal)) => Box::new(Ours { journal: journal.clone(), way, turn }),
        (way, _, Log::Mysql(journal)) => Box::new(Ours { journal: journal.clone(), way, turn }),
    })
}

/// Which account is next: any of them, and for both sides the same.
struct Turn {
    next: u64,
    accounts: u64,
}

impl Turn {
    fn account(&mut self) -> u64 {
        self.next = self
            .next
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.next >> 33) % self.accounts
    }
}

struct Ours<S> {
    journal: Journal<S>,
    way: Way,
    turn: Turn,
}

#[async_trait]
impl<S: JournalStore> Writer for Ours<S> {
    async fn write(&mut self, _: u64, _: &Trace) -> Result<()> {
        let id = self.turn.account();
        let tag = Arc::new(tag(id)?);
        if self.way == Way::Locked {
            let decided =
                self.journal.execute_locked(|| account(&tag), |model| decision(id, model.state));
            decided.await.map_err(|error| anyhow::anyhow!("{error:?}"))?;
            return Ok(());
        }
        loop {
            let done = self.journal.execute(|| {
                let (journal, tag) = (self.journal.clone(), Arc::clone(&tag));
                async move {
                    let decided = journal.decide(account(&tag)).await?;
                    let mut given = sendoff_engine::journal::Decision::given(decided.condition);
                    for fact in decision(id, decided.model.state)? {
                        given = given.fact(fact)?;
                    }
                    Ok::<_, BoxError>(given)
                }
            });
            match done.await {
                Ok(_) => return Ok(()),
                // Giving up is not counted as a decision, and nothing else is an answer.
                Err(ExecuteError::Contended { .. }) => {}
                Err(error) => bail!("{error:?}"),
            }
        }
    }
}

struct PostgresByHand {
    client: Client,
    statements: Vec<Statement>,
    turn: Turn,
}

#[async_trait]
impl Writer for PostgresByHand {
    async fn write(&mut self, _: u64, _: &Trace) -> Result<()> {
        let id = i64::try_from(self.turn.account())?;
        let [lock, update, insert] = &self.statements[..] else { bail!("three statements") };
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&id];
        let locking = self.client.query_one(lock, &params);
        let (_, row) = try_join(self.client.batch_execute("begin"), locking).await?;
        let balance: i64 = row.try_get::<_, i64>(0)? + 1;
        let (event, tag) = (Uuid::now_v7(), format!("account={id}"));
        let payload = order::payload(balance.unsigned_abs());
        let changed: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&id, &balance];
        let row: [&(dyn tokio_postgres::types::ToSql + Sync); 4] = [&event, &MOVED, &tag, &payload];
        let (update, insert) =
            (self.client.execute(update, &changed), self.client.execute(insert, &row));
        try_join3(update, insert, self.client.batch_execute("commit")).await?;
        Ok(())
    }
}

struct MysqlByHand {
    conn: Conn,
    statements: Vec<mysql_async::Statement>,
    turn: Turn,
}

#[async_trait]
impl Writer for MysqlByHand {
    async fn write(&mut self, _: u64, _: &Trace) -> Result<()> {
        let id = self.turn.account();
        let [lock, update, insert] = &self.statements[..] else { bail!("three statements") };
        let mut tx = self.conn.start_transaction(TxOpts::new()).await?;
        let balance: i64 = tx.exec_first(lock, (id,)).await?.context("there is such an account")?;
        tx.exec_drop(update, (balance + 1, id)).await?;
        let tags = format!(r#"["account={id}"]"#);
        let (event, payload) = (Uuid::now_v7(), order::payload(balance.unsigned_abs()));
        tx.exec_drop(insert, (event.as_bytes(), MOVED, tags, payload)).await?;
        Ok(tx.commit().await?)
    }
}
