//! Wallets in a journal: several workers transfer money under a condition on balances, publishers follow
//! beside them, and the publishers can be operated over HTTP meanwhile.
//!
//! ```text
//! cargo run -p sendoff --example wallets --features admin,sqlite
//! ```
//!
//! It prints four requests to try in another terminal. Ctrl-C ends it, and it shows what must be true:
//! no money came or went but what was deposited, and no balance was ever below zero. `--self-test` makes
//! the requests itself, and ends. It works in an SQLite file that is deleted afterwards; with `--db FILE` in
//! one that stays, and with `--postgres URL` (feature `postgres`) in a database.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod bank;
mod books;
mod work;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use futures_util::TryStreamExt;
use sendoff::Sink;
use sendoff::admin::{Admin, Bearer};
use sendoff::journal::publish::{PairId, PairOptions, PublishStore, Publishing, To, Which};
use sendoff::journal::{Journal, Position, Query, Topic};
use sendoff::sink::{LogSink, StatisticsSink};
use sendoff::sqlite::SqliteJournal;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

use bank::MoneyTransferred;
use books::{BookKeeper, Books};
use work::{Plan, Tally};

#[derive(Parser)]
struct Arguments {
    /// Where the publishers are operated.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// What requests must carry; one is made up if none is given.
    #[arg(long, env = "SENDOFF_ADMIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Works in this SQLite file, which stays.
    #[arg(long, value_name = "FILE")]
    db: Option<std::path::PathBuf>,
    /// Works in this database.
    #[cfg(feature = "postgres")]
    #[arg(long, value_name = "URL", conflicts_with = "db")]
    postgres: Option<String>,
    /// Makes the four requests to itself, and ends.
    #[arg(long)]
    self_test: bool,
}

/// What is true at the end.
#[derive(Debug)]
struct Audit {
    /// The books as the whole journal gives them.
    journal: Books,
    /// The books as their publisher kept them.
    kept: Books,
}

impl Audit {
    fn check(&self) -> Result<()> {
        let Books { deposited, lowest, .. } = self.journal;
        ensure!(self.journal.sum() == deposited, "money came or went: {self:?}");
        ensure!(lowest >= 0, "a balance was below zero: {self:?}");
        // A publisher that was left paused lags; what it has is right all the same.
        let lags = self.kept.at < self.journal.at;
        ensure!(lags || self.kept.balances == self.journal.balances, "books differ: {self:?}");
        Ok(())
    }
}

/// Serves, works until `stop`, and looks whether everything is in order.
async fn serve<S: PublishStore>(
    journal: Journal<S>,
    listener: TcpListener,
    token: Bearer,
    plan: Plan,
    stop: impl Future<Output = ()> + Send,
) -> Result<Audit> {
    let (close, closed) = oneshot::channel::<()>();
    let serving = tokio::spawn(Admin::new(&journal).token(token).serve(listener, async move {
        let _ = closed.await;
    }));

    let wallets = Topic::builder("wallets").required_tags(["wallet_id"]).build()?;
    let transfers = Topic::builder("transfers").types([MoneyTransferred::EVENT_TYPE]).build()?;
    let (statistics, keeper) = (StatisticsSink::default(), BookKeeper::default());
    // These books are in memory only, and begin anew with every run.
    let keeping = Which::pair(&PairId::new(wallets.name(), keeper.name())?);
    journal.publishers().rewind(&keeping, To::Position(Position::START)).await?;
    let often = PairOptions { interval: Duration::from_millis(100), ..PairOptions::default() };
    let publishing = Publishing::builder(&journal)
        .pair_with(&wallets, Arc::new(LogSink::default()), often.clone())
        .pair_with(&wallets, Arc::new(keeper.clone()), often.clone())
        .pair_with(&wallets, Arc::new(statistics.clone()), often.clone())
        .pair_with(&transfers, Arc::new(StatisticsSink::default()), often)
        .start()
        .await?;

    let tally = Arc::new(Tally::default());
    work::begin(&journal, plan, &tally).await?;
    work::rush(&journal, plan, &tally).await?;
    println!(
        "{} workers: {} commands carried out, {} decided again because another was quicker, \
         {} refused for want of money, {} ended without success",
        plan.workers,
        tally.carried_out.load(Relaxed),
        tally.decided_again.load(Relaxed),
        tally.insufficient.load(Relaxed),
        tally.given_up.load(Relaxed),
    );
    let (over, is_over) = watch::channel(false);
    let stopping = async {
        stop.await;
        over.send_replace(true);
        Ok(())
    };
    tokio::try_join!(work::trickle(&journal, plan, &tally, is_over), stopping)?;

    let mut books = Books::default();
    let mut facts = pin!(journal.read(Query::all(), Position::START));
    while let Some(fact) = facts.try_next().await? {
        books.enter(&fact).map_err(anyhow::Error::from_boxed)?;
    }
    let caught_up = async {
        while keeper.books().at < books.at {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let caught_up = tokio::time::timeout(Duration::from_secs(5), caught_up).await.is_ok();
    publishing.close().await;
    let _ = close.send(());
    serving.await??;
    let audit = Audit { journal: books, kept: keeper.books() };
    println!("published: {:?}", statistics.seen().by_type);
    println!(
        "{} facts; deposited {}, sum of {} balances {}, lowest balance ever {}; books {}",
        audit.journal.at,
        audit.journal.deposited,
        audit.journal.balances.len(),
        audit.journal.sum(),
        audit.journal.lowest,
        if caught_up {
            "agree"
        } else {
            "lag: their publisher is paused, or another process has it"
        },
    );
    audit.check()?;
    Ok(audit)
}

/// Makes the four requests while it works, and some that must fail.
pub(crate) async fn run() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let token = uuid::Uuid::new_v4().simple().to_string();
    let plan = Plan { wallets: 4, workers: 4, transfers: 25, trickle: Duration::from_millis(5) };
    let (stop, stopped) = oneshot::channel::<()>();
    let folder = tempfile::tempdir()?;
    let store = SqliteJournal::open(folder.path().join("wallets.db")).await?;
    let service = serve(Journal::new(store), listener, Bearer::new(&token)?, plan, async move {
        let _ = stopped.await;
    });
    let service = tokio::spawn(service);
    try_out(address, &token).await?;
    let _ = stop.send(());
    let audit = service.await??;
    ensure!(audit.kept.at == audit.journal.at, "everything was resumed, so nothing lags");
    Ok(())
}

/// The requests that [`announce`] prints, in an order that shows what they do.
async fn try_out(address: SocketAddr, token: &str) -> Result<()> {
    let ask = async |method: &str, path: &str| request(address, method, path, Some(token)).await;
    // Of a publisher in the topic `wallets`, once it is there.
    let state = async |name: &str| {
        let (status, body) = ask("GET", &format!("/{name}?topic=wallets")).await?;
        ensure!(status == 200, "{body}");
        Ok(body["pairs"][0].clone())
    };
    eventually("the log is being written", async || {
        let (status, _) = ask("GET", "/log").await?;
        Ok(status == 200 && state("log").await?["position"].as_u64() > Some(100))
    })
    .await?;

    let (status, body) = ask("POST", "/log/pause").await?;
    ensure!(status == 200 && body["now"]["pairs"][0]["status"] == "PAUSED", "{body}");
    // It stops after the batch it is at, and the others go on.
    let at = async |name: &str| anyhow::Ok(state(name).await?["position"].as_u64());
    eventually("the log stands still while the others go on", async || {
        let (log, others) = (at("log").await?, at("balances").await?);
        eventually("the others go on", async || {
            Ok(at("balances").await? > others.map(|position| position + 20))
        })
        .await?;
        Ok(at("log").await? == log)
    })
    .await?;
    let paused_at = at("log").await?;
    eventually("the log lags", async || {
        let (_, lag) = ask("GET", "/lag").await?;
        let of = |name: &str| {
            let pairs = lag["pairs"].as_array().into_iter().flatten();
            pairs.filter(|pair| pair["publisher"] == name).find_map(|pair| pair["lag"].as_u64())
        };
        Ok(of("log") > Some(20)
            && of("balances") < of("log")
            && lag["longest"].as_u64() == of("log"))
    })
    .await?;
    ensure!(at("log").await? == paused_at, "it does not move");

    let (status, body) = ask("POST", "/log/resume").await?;
    ensure!(status == 200 && body["now"]["pairs"][0]["status"] == "ACTIVE", "{body}");
    ensure!(body["now"]["pairs"][0]["position"].as_u64() >= paused_at, "from where it was: {body}");
    eventually(
        "the log has caught up",
        async || Ok(state("log").await?["lag"].as_u64() < Some(20)),
    )
    .await?;

    let (status, body) = request(address, "POST", "/log/pause", None).await?;
    ensure!(status == 401, "without the token: {status} {body}");
    let (status, body) = ask("POST", "/KafkaPublisher/pause").await?;
    ensure!(status == 404, "there is no such publisher: {status} {body}");
    println!(
        "paused, lagging, resumed, caught up; 401 without the token, 404 for who is not there"
    );
    Ok(())
}

/// Asks again and again, for a while.
async fn eventually(what: &str, mut ask: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let asking = async {
        while !ask().await? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(Duration::from_secs(20), asking)
        .await
        .with_context(|| format!("still waiting: {what}"))?
}

/// One request about publishers, over a connection of its own.
async fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    token: Option<&str>,
) -> Result<(u16, Value)> {
    let mut stream = TcpStream::connect(address).await?;
    let authorization =
        token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "{method} /api/outbox/publishers{path} HTTP/1.1\r\nhost: {address}\r\n\
         connection: close\r\n{authorization}\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer")?;
    let status = head.split(' ').nth(1).context("a status")?.parse()?;
    Ok((status, serde_json::from_str(body)?))
}

/// What to try.
fn announce(address: SocketAddr, token: &str) {
    println!("in another terminal:");
    for (method, path) in
        [("-X POST ", "log/pause"), ("-X POST ", "log/resume"), ("", "log"), ("", "lag")]
    {
        println!(
            "  curl {method}-H 'Authorization: Bearer {token}' \
             http://{address}/api/outbox/publishers/{path}"
        );
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    if arguments.self_test {
        return run().await;
    }
    let token = arguments.token.unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string());
    let bearer = Bearer::new(&token).context("--token")?;
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("{} cannot be listened on; see --listen", arguments.listen))?;
    let address = listener.local_addr()?;
    let interrupted = async move {
        announce(address, &token);
        println!("  RUST_LOG=info shows what the publisher `log` writes; Ctrl-C ends this");
        let _ = tokio::signal::ctrl_c().await;
    };
    let plan = Plan { wallets: 5, workers: 8, transfers: 50, trickle: Duration::from_millis(200) };
    #[cfg(feature = "postgres")]
    if let Some(url) = &arguments.postgres {
        let store = sendoff::postgres::PostgresJournal::connect(url).await?;
        store.migrate().await?;
        serve(Journal::new(store), listener, bearer, plan, interrupted).await?;
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let file = arguments.db.unwrap_or_else(|| folder.path().join("wallets.db"));
    let store = SqliteJournal::open(file).await?;
    serve(Journal::new(store), listener, bearer, plan, interrupted).await?;
    Ok(())
}
