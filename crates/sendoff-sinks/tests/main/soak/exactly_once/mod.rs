//! From an outbox through a broker into a table, by two processes that are killed with -9 again and again: one writes orders and
//! delivers their events, one consumes them, with an inbox. In the end the table has each event exactly once.
//!
//! Every other life ends for certain where it hurts: the shop's between the broker's confirmation and the settlement, so that its events
//! are sent again; the consumer's between its commit and the acknowledgement, so that the broker hands the event out again. The
//! others end at no particular moment.

#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use rusqlite::Connection;
use sendoff_core::{Delivery, EventId, Sink, Verdict, async_trait};
use sendoff_engine::store::InspectStore;
use sendoff_engine::{Inbox, Outbox, OutboxOptions, Processed, RetryOptions};
use sendoff_sqlite::SqliteStore;
use sendoff_testkit::process::{Node, say};
use sendoff_testkit::soak;
use sendoff_testkit::wait::within;

/// What a process is told: where the broker is, and where both databases are.
const BROKER: &str = "SENDOFF_TEST_BROKER";
const FOLDER: &str = "SENDOFF_TEST_FOLDER";
/// How many orders it writes, and after how many steps it waits for its end.
const ORDERS: &str = "SENDOFF_TEST_ORDERS";
const STEPS: &str = "SENDOFF_TEST_STEPS";

/// What it says then.
const WAITS: &str = "waits for its end";
/// Orders that a life of the shop writes.
const WRITTEN: i64 = 60;
/// Steps that a life takes at most.
const LONGEST: i64 = 20;
const PLENTY: Duration = Duration::from_secs(60);

fn told(variable: &str) -> Option<i64> {
    env::var(variable).ok()?.parse().ok()
}

fn shop_file(folder: &Path) -> PathBuf {
    folder.join("shop.db")
}

fn books_file(folder: &Path) -> PathBuf {
    folder.join("books.db")
}

/// Where a life ends for certain.
struct End(AtomicI64);

impl End {
    fn as_told() -> Self {
        Self(AtomicI64::new(told(STEPS).unwrap_or(i64::MAX)))
    }

    /// These steps were taken. From the last one on nothing is done any more.
    async fn after(&self, steps: usize) {
        let steps = i64::try_from(steps).unwrap();
        if self.0.fetch_sub(steps, Ordering::SeqCst) <= steps {
            say(WAITS);
            std::future::pending::<()>().await;
        }
    }
}

/// A sink whose events may be confirmed and never settled.
struct Unsettled<S> {
    sink: S,
    end: End,
}

#[async_trait]
impl<S: Sink> Sink for Unsettled<S> {
    fn name(&self) -> &str {
        self.sink.name()
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let verdicts = self.sink.deliver(deliveries).await;
        self.end.after(verdicts.iter().filter(|verdict| verdict.is_ok()).count()).await;
        verdicts
    }

    fn is_healthy(&self) -> bool {
        self.sink.is_healthy()
    }
}

fn options() -> OutboxOptions {
    OutboxOptions {
        poll_interval: Duration::from_millis(50),
        // What a killed process held is soon somebody else's.
        hold: Duration::from_secs(1),
        hot_grace: Duration::from_secs(1),
        // Every kill counts an attempt of what was held.
        retry: RetryOptions { max_attempts: 1_000, ..RetryOptions::default() },
        ..OutboxOptions::default()
    }
}

/// What the process does that writes and delivers.
async fn shop(sink: impl Sink) {
    let folder = PathBuf::from(env::var(FOLDER).unwrap());
    let store = SqliteStore::open(shop_file(&folder)).await.unwrap();
    let sink = Unsettled { sink, end: End::as_told() };
    let outbox = Outbox::builder(store.clone()).options(options()).on_any_sink(sink);
    let outbox = outbox.start().await.unwrap();
    let mut conn = store.connect().unwrap();
    for _ in 0..told(ORDERS).unwrap_or(0) {
        let mut tx = outbox.begin_blocking(&mut conn).unwrap();
        let id = tx.emit(("order.placed", "{}")).unwrap();
        tx.execute("insert into orders values (?1)", [id.to_string()]).unwrap();
        tx.commit().unwrap();
    }
    std::future::pending().await
}

/// What the process writes into that consumes.
struct Books {
    inbox: Inbox<SqliteStore>,
    conn: Connection,
    end: End,
}

impl Books {
    async fn open() -> Self {
        let folder = PathBuf::from(env::var(FOLDER).unwrap());
        let store = SqliteStore::open(books_file(&folder)).await.unwrap();
        let conn = store.connect().unwrap();
        Self { inbox: Inbox::new(store), conn, end: End::as_told() }
    }

    /// Comes back when the effect of this event is committed; then its message may be acknowledged.
    async fn book(&mut self, id: EventId) {
        let text = id.to_string();
        let effect = |tx: &mut rusqlite::Transaction<'_>| {
            tx.execute("insert into effect values (?1)", [&text])
        };
        match self.inbox.process_blocking(&mut self.conn, "billing", id, effect).unwrap() {
            Processed::First(_) => self.end.after(1).await,
            Processed::Again => {
                self.conn.execute("insert into refused values (?1)", [&text]).unwrap();
            }
        }
    }
}

/// One process after another, each of which is killed.
struct Lives {
    test: String,
    told: Vec<(&'static str, String)>,
    conn: Connection,
    /// What it fills.
    table: &'static str,
    random: Rng,
    node: Option<Node>,
    death: Death,
    kills: u32,
}

/// When a life is over.
enum Death {
    /// When it says so.
    Said(Arc<AtomicBool>),
    /// When its table has so many rows.
    Rows(i64),
}

fn count(conn: &Connection, table: &str) -> i64 {
    let count = format!("select count(*) from {table}");
    conn.query_row(&count, [], |row| row.get(0)).unwrap()
}

fn ids(conn: &Connection, table: &str) -> BTreeSet<String> {
    let mut all = conn.prepare(&format!("select event_id from {table}")).unwrap();
    all.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

impl Lives {
    fn begin(
        test: String,
        told: Vec<(&'static str, String)>,
        conn: Connection,
        table: &'static str,
        random: Rng,
    ) -> Self {
        let death = Death::Rows(0);
        let mut lives = Self { test, told, conn, table, random, node: None, death, kills: 0 };
        lives.next();
        lives
    }

    /// The next one, and how it ends.
    fn next(&mut self) {
        let after = self.random.i64(1..=LONGEST);
        let mut also = vec![(ORDERS, WRITTEN.to_string())];
        if self.kills % 2 == 1 {
            self.death = Death::Rows(count(&self.conn, self.table) + after);
            return self.live(&also);
        }
        also.push((STEPS, after.to_string()));
        self.live(&also);
        let said = Arc::new(AtomicBool::new(false));
        self.death = Death::Said(Arc::clone(&said));
        if let Some(node) = &mut self.node {
            node.hear(move |line| {
                if line == WAITS {
                    said.store(true, Ordering::SeqCst);
                }
            });
        }
    }

    fn live(&mut self, also: &[(&'static str, String)]) {
        let told = self.told.iter().chain(also).map(|(name, value)| (*name, &**value));
        self.node = Some(Node::start(&self.test, &told.collect::<Vec<_>>()));
    }

    fn is_over(&self) -> bool {
        match &self.death {
            Death::Said(said) => said.load(Ordering::SeqCst),
            Death::Rows(rows) => count(&self.conn, self.table) >= *rows,
        }
    }

    fn kill(&mut self) {
        // Dropped, it is killed with -9.
        self.node = None;
        self.kills += 1;
    }

    fn kill_and_begin_again(&mut self) {
        self.kill();
        self.next();
    }

    /// One that writes nothing more, and lives until this is dropped.
    fn live_to_the_end(&mut self) {
        self.kill();
        self.live(&[]);
    }

    /// How many ended where it hurts.
    fn for_certain(&self) -> i64 {
        i64::from(self.kills.div_ceil(2))
    }
}

/// What was done, and how often it was done in vain.
struct Account {
    orders: i64,
    /// Lives of the shop that ended with events which the broker had, and which were not settled.
    unsettled: i64,
}

/// Kills both again and again. `module` has their tests, `shop` and `books`.
async fn killed_at_random(module: &str, broker: String) -> Account {
    let folder = tempfile::tempdir().unwrap();
    let (shop_file, books_file) = (shop_file(folder.path()), books_file(folder.path()));
    let store = SqliteStore::open(&shop_file).await.unwrap();
    let shop = store.connect().unwrap();
    shop.execute_batch("create table orders (event_id text not null)").unwrap();
    let books_store = SqliteStore::open(&books_file).await.unwrap();
    let books = books_store.connect().unwrap();
    // Nothing of theirs refuses an effect that is made twice.
    let tables = "create table effect (event_id text not null);
                  create table refused (event_id text not null)";
    books.execute_batch(tables).unwrap();
    let looks = books_store.connect().unwrap();

    let mut random = soak::random(16);
    let rounds = soak::rounds(4);
    let test = |role: &str| format!("soak::exactly_once::{module}::{role}");
    let told = vec![(BROKER, broker), (FOLDER, folder.path().display().to_string())];
    let mut shop = Lives::begin(test("shop"), told.clone(), shop, "orders", random.fork());
    let mut books = Lives::begin(test("books"), told, books, "effect", random.fork());
    while shop.kills < rounds || books.kills < rounds {
        let is_over = async || shop.is_over() || books.is_over();
        within(PLENTY, "a life to be over", is_over).await;
        for lives in [&mut shop, &mut books] {
            if lives.is_over() {
                lives.kill_and_begin_again();
            }
        }
    }
    // Those that live now are killed as well, at once.
    let (unsettled, unacknowledged) = (shop.for_certain(), books.for_certain());
    shop.live_to_the_end();
    books.live_to_the_end();
    let delivered = async || store.counts().await.unwrap().pending() == 0;
    within(PLENTY, "all events to be delivered", delivered).await;
    let orders = count(&shop.conn, "orders");
    let made = async || count(&looks, "effect") >= orders;
    within(PLENTY, "all effects to be made", made).await;
    let refused = async || count(&looks, "refused") >= unacknowledged;
    within(PLENTY, "what was not acknowledged to come again", refused).await;

    let (kills, refused) = (shop.kills + books.kills, count(&looks, "refused"));
    eprintln!("{kills} kills, {orders} orders, {refused} refused, which had come again");
    assert_eq!(store.counts().await.unwrap().dead, 0);
    let placed = ids(&shop.conn, "orders");
    assert_eq!(i64::try_from(placed.len()).unwrap(), orders);
    assert_eq!(ids(&looks, "effect"), placed, "nothing is missing, and nothing is made up");
    assert_eq!(count(&looks, "effect"), orders, "and nothing is there twice");
    assert!(unsettled > 0 && unacknowledged > 0);
    Account { orders, unsettled }
}
