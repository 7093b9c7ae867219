//! What following a journal costs, by a reader and by publishers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use clap::Args;
use sendoff_core::journal::{Position, Topic};
use sendoff_core::{Delivery, Sink, Stopped, Verdict};
use sendoff_engine::journal::publish::{PairOptions, Publishing, Start};
use sendoff_engine::journal::{Journal, TailOptions};
use sendoff_postgres::PostgresJournal;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_postgres::Client;

use super::journal::{ground, postgres};
use super::settings;
use crate::contest::{Rate, alternate};
use crate::measure::Tally;
use crate::report::Finding;
use crate::server::Server;

const FILL: &str = include_str!("../../sql/postgres/journal_fill.sql");
const PAGE: &str = include_str!("../../sql/postgres/journal_page.sql");
const TRANSACTIONS: &str = include_str!("../../sql/postgres/transactions.sql");

/// A journal's own connections, beside those of its tails.
const CONNECTIONS: usize = 4;
/// Longer than anything here takes.
const ENOUGH: Duration = Duration::from_secs(600);
/// Until pairs that find nothing have slowed down.
const SETTLING: Duration = Duration::from_secs(20);

/// Who follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Follower {
    ByHand,
    Reader,
    Pair,
}

impl fmt::Display for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByHand => "by hand",
            Self::Reader => "reader",
            Self::Pair => "pair",
        })
    }
}

/// A log followed from its beginning, against a loop that asks for the next page.
pub(crate) async fn tail(
    server: &Server,
    rounds: usize,
    facts: u64,
    batch: usize,
) -> Result<Vec<Finding>> {
    let (ground, journal) = ground(server, CONNECTIONS).await?;
    let database = ground.settings().await?;
    let client = postgres(&ground)?.connect().await?;
    fill(&client, facts).await?;
    let followers = [Follower::ByHand, Follower::Reader, Follower::Pair];
    let tally = alternate("tail", rounds, &followers, async |follower| {
        forget(&client).await?;
        let started = Instant::now();
        match follower {
            Follower::ByHand => read_by_hand(&client, facts, batch).await?,
            Follower::Reader => read(&journal, facts, batch).await?,
            Follower::Pair => return deliver(&journal, 1, facts, batch).await,
        }
        Ok(Rate::new(facts, started.elapsed()))
    })
    .await?;
    let of = |follower| tally.of(follower, |rate: &Rate| rate.0);
    let limit_is =
        "a loop that asks for the next page, stores nothing and may skip what commits late";
    let finding = |follower| Finding {
        scenario: "tail",
        variant: format!("{follower}-{batch}"),
        unit: "facts/s",
        ours: of(follower),
        limit: of(Follower::ByHand),
        settings: settings(&database, json!({ "facts": facts, "limit_is": limit_is })),
    };
    Ok([Follower::Reader, Follower::Pair].map(finding).into())
}

/// How many publishers, and for what.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Pairs {
    /// Many pairs.
    #[arg(long, default_value_t = 1_000)]
    many: usize,
    /// Few pairs, to compare an idle node with.
    #[arg(long, default_value_t = 10)]
    few: usize,
    /// Facts that each of many pairs is given.
    #[arg(long, default_value_t = 1_000)]
    facts: u64,
    /// Facts that a single pair is given.
    #[arg(long, default_value_t = 200_000)]
    single: u64,
    /// How long idle pairs are watched.
    #[arg(long, default_value_t = 20)]
    idle_seconds: u64,
}

/// A number of pairs on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count(usize);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pairs", self.0)
    }
}

/// Many pairs against few.
pub(crate) async fn pairs(server: &Server, rounds: usize, pairs: Pairs) -> Result<Vec<Finding>> {
    Ok(vec![idle(server, rounds, pairs).await?, delivering(server, rounds, pairs).await?])
}

/// What pairs cost the server that have nothing to do.
async fn idle(server: &Server, rounds: usize, pairs: Pairs) -> Result<Finding> {
    let (ground, journal) = ground(server, CONNECTIONS).await?;
    let database = ground.settings().await?;
    let client = postgres(&ground)?.connect().await?;
    let counts = [Count(pairs.few), Count(pairs.many)];
    let watched = Duration::from_secs(pairs.idle_seconds);
    let tally = alternate("pairs idle", rounds, &counts, async |Count(count)| {
        forget(&client).await?;
        let options = PairOptions { start: Start::Now, ..PairOptions::default() };
        let target = Arc::new(Target::new("idle", 0));
        let publishing = start(&journal, count, target, &options).await?;
        tokio::time::sleep(SETTLING).await;
        ensure!(publishing.statistics().leading == count, "not every pair has a leader");
        let (before, began) = (transactions(&client).await?, Instant::now());
        tokio::time::sleep(watched).await;
        let rate = Rate::new(transactions(&client).await? - before, began.elapsed());
        publishing.close().await;
        Ok(rate)
    })
    .await?;
    let settings = settings(
        &database,
        json!({ "limit_is": format!("{} pairs", pairs.few), "seconds": pairs.idle_seconds }),
    );
    Ok(finding("idle", "queries/s", &tally, [pairs.many, pairs.few], settings))
}

/// What so many pairs do, compared with so many.
fn finding(
    variant: &str,
    unit: &'static str,
    tally: &Tally<Count, Rate>,
    [many, few]: [usize; 2],
    settings: Value,
) -> Finding {
    let of = |count| tally.of(Count(count), |rate: &Rate| rate.0);
    let variant = format!("{variant}-{many}");
    Finding { scenario: "pairs", variant, unit, ours: of(many), limit: of(few), settings }
}

/// What pairs deliver that all have the same to do.
async fn delivering(server: &Server, rounds: usize, pairs: Pairs) -> Result<Finding> {
    let (many_ground, many) = ground(server, CONNECTIONS).await?;
    let (single_ground, single) = ground(server, CONNECTIONS).await?;
    let database = many_ground.settings().await?;
    let many_client = postgres(&many_ground)?.connect().await?;
    let single_client = postgres(&single_ground)?.connect().await?;
    fill(&many_client, pairs.facts).await?;
    fill(&single_client, pairs.single).await?;
    let batch = PairOptions::default().batch;
    let counts = [Count(1), Count(pairs.many)];
    let tally = alternate("pairs delivering", rounds, &counts, async |Count(count)| {
        if count == 1 {
            forget(&single_client).await?;
            deliver(&single, 1, pairs.single, batch).await
        } else {
            forget(&many_client).await?;
            deliver(&many, count, pairs.facts, batch).await
        }
    })
    .await?;
    let settings = settings(
        &database,
        json!({ "limit_is": "a single pair", "facts": pairs.facts, "single": pairs.single }),
    );
    Ok(finding("delivering", "deliveries/s", &tally, [pairs.many, 1], settings))
}

/// Delivers everything to each of so many pairs, from the start of the node to the last delivery.
async fn deliver(
    journal: &Journal<PostgresJournal>,
    count: usize,
    facts: u64,
    batch: usize,
) -> Result<Rate> {
    let target = Arc::new(Target::new("bench", facts * count as u64));
    let options = PairOptions { batch, ..PairOptions::default() };
    let started = Instant::now();
    let publishing = start(journal, count, Arc::clone(&target), &options).await?;
    tokio::time::timeout(ENOUGH, target.full.notified()).await.context("not all was delivered")?;
    let rate = Rate::new(target.wanted, started.elapsed());
    publishing.close().await;
    let delivered = target.delivered.load(Ordering::Relaxed);
    ensure!(delivered == target.wanted, "{delivered} of {} were delivered", target.wanted);
    Ok(rate)
}

async fn start(
    journal: &Journal<PostgresJournal>,
    count: usize,
    target: Arc<Target>,
    options: &PairOptions,
) -> Result<Publishing> {
    let mut builder = Publishing::builder(journal);
    for number in 0..count {
        let topic = Topic::builder(format!("bench-{number}")).build()?;
        builder = builder.pair_with(&topic, Arc::<Target>::clone(&target) as _, options.clone());
    }
    Ok(builder.start().await?)
}

/// A publisher that reads what it is given, as any would.
struct Target {
    name: &'static str,
    wanted: u64,
    delivered: AtomicU64,
    full: Notify,
}

impl Target {
    fn new(name: &'static str, wanted: u64) -> Self {
        Self { name, wanted, delivered: AtomicU64::new(0), full: Notify::new() }
    }
}

#[async_trait]
impl Sink for Target {
    fn name(&self) -> &str {
        self.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        for delivery in deliveries {
            std::hint::black_box((delivery.event_type(), delivery.payload()));
        }
        let more = deliveries.len() as u64;
        if self.delivered.fetch_add(more, Ordering::Relaxed) + more >= self.wanted {
            self.full.notify_one();
        }
        Stopped::verdicts(Ok(()), deliveries.len())
    }
}

async fn read(journal: &Journal<PostgresJournal>, facts: u64, batch: usize) -> Result<()> {
    let options = TailOptions { batch, ..TailOptions::default() };
    let mut tail = journal.tail(Position::START, options).await?;
    let mut read = 0;
    while read < facts {
        read += tail.next().await?.rows.len() as u64;
    }
    Ok(())
}

async fn read_by_hand(client: &Client, facts: u64, batch: usize) -> Result<()> {
    let page = client.prepare(PAGE).await?;
    let (mut last, mut read) = (0_i64, 0);
    while read < facts {
        let rows = client.query(&page, &[&last, &i64::try_from(batch)?]).await?;
        last = rows.last().context("there are too few facts")?.try_get(0)?;
        read += rows.len() as u64;
        // What any reader would want of them.
        for row in &rows {
            let kept = (row.try_get::<_, String>(3)?, row.try_get::<_, Vec<u8>>(8)?);
            std::hint::black_box(kept);
        }
    }
    Ok(())
}

async fn fill(client: &Client, facts: u64) -> Result<()> {
    client.execute(FILL, &[&i64::try_from(facts)?]).await?;
    Ok(client.batch_execute("vacuum analyze journal_event").await?)
}

/// Forgets all cursors, so that everything begins anew.
async fn forget(client: &Client) -> Result<()> {
    Ok(client.batch_execute("truncate journal_cursor, journal_node, journal_parked").await?)
}

/// How many transactions ended in this database so far; each statement of a node is one.
async fn transactions(client: &Client) -> Result<u64> {
    let row = client.query_one(TRANSACTIONS, &[]).await?;
    Ok(u64::try_from(row.try_get::<_, i64>(0)?)?)
}
