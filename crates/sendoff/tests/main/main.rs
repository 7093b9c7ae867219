//! Every example runs to its end. Each holds itself to what it shows.

#![allow(dead_code, reason = "each example also has a main of its own")]
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod any;
#[path = "../../examples/axum_service.rs"]
mod axum_service;
#[path = "../../examples/batch_relay.rs"]
mod batch_relay;
#[path = "../../examples/deadpool.rs"]
mod by_deadpool;
#[path = "../../examples/diesel_async.rs"]
mod by_diesel_async;
#[path = "../../examples/mysql.rs"]
mod by_mysql;
#[path = "../../examples/sea_orm.rs"]
mod by_sea_orm;
mod database;
#[path = "../../examples/inbox.rs"]
mod inbox;
#[path = "../../examples/quick_start.rs"]
mod quick_start;
#[path = "../../examples/retries_and_dead_letters.rs"]
mod retries_and_dead_letters;
mod sinks;
mod soak;
#[path = "../../examples/to_kafka.rs"]
mod to_kafka;
#[path = "../../examples/to_nats.rs"]
mod to_nats;
#[path = "../../examples/two_databases.rs"]
mod two_databases;
#[path = "../../examples/wallets/main.rs"]
mod wallets;
#[path = "../../examples/webhooks.rs"]
mod webhooks;
#[path = "../../examples/writer_and_worker.rs"]
mod writer_and_worker;
#[path = "../../examples/your_own_transaction.rs"]
mod your_own_transaction;

use std::env;
use std::process::Command;

use sendoff_testkit::broker::{Broker, OwnBroker};

use self::database::{mariadb, postgres};

/// Holds W3.
#[tokio::test(flavor = "multi_thread")]
async fn quick_start() {
    quick_start::run().await.unwrap();
}

/// Holds D7, E7, E11.
#[tokio::test(flavor = "multi_thread")]
async fn retries_and_dead_letters() {
    retries_and_dead_letters::run().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn inbox() {
    inbox::run().await.unwrap();
}

/// Holds W2, W5, W8.
#[tokio::test(flavor = "multi_thread")]
async fn your_own_transaction() {
    your_own_transaction::run().await.unwrap();
}

/// Holds S9: several databases side by side.
#[tokio::test(flavor = "multi_thread")]
async fn two_databases() {
    two_databases::run().await.unwrap();
}

/// Holds S9: inside an axum service.
#[tokio::test(flavor = "multi_thread")]
async fn axum_service() {
    let Some(url) = postgres("axum_service").await else { return };
    axum_service::run(&url).await.unwrap();
}

/// Holds W3.
#[tokio::test(flavor = "multi_thread")]
async fn deadpool() {
    let Some(url) = postgres("deadpool").await else { return };
    by_deadpool::run(&url).await.unwrap();
}

/// Holds W2.
#[tokio::test(flavor = "multi_thread")]
async fn sea_orm() {
    let Some(url) = postgres("sea_orm").await else { return };
    by_sea_orm::run(&url).await.unwrap();
}

/// Holds W2.
#[tokio::test(flavor = "multi_thread")]
async fn diesel_async() {
    let Some(url) = postgres("diesel_async").await else { return };
    by_diesel_async::run(&url).await.unwrap();
}

/// Holds W3.
#[tokio::test(flavor = "multi_thread")]
async fn mysql() {
    let Some(url) = mariadb("mysql").await else { return };
    by_mysql::run(&url).await.unwrap();
}

const ROLE: &str = "SENDOFF_EXAMPLE_ROLE";

/// Not a test of its own: one of the two processes of the next one.
#[tokio::test(flavor = "multi_thread")]
async fn writer_or_worker() {
    let Ok(role) = env::var(ROLE) else { return };
    writer_and_worker::play(&role, &env::var("DATABASE_URL").unwrap()).await.unwrap();
}

/// Holds W7.
#[tokio::test(flavor = "multi_thread")]
async fn writer_and_worker() {
    let Some(url) = postgres("writer_and_worker").await else { return };
    let program = env::current_exe().unwrap();
    let this_as = |role: &str| {
        let mut command = Command::new(&program);
        command.args(["--exact", "writer_or_worker", "--nocapture"]);
        command.env(ROLE, role).env("DATABASE_URL", &url);
        command
    };
    writer_and_worker::show(this_as, 10).unwrap();
}

/// Holds L1, L2.
#[tokio::test(flavor = "multi_thread")]
async fn batch_relay() {
    batch_relay::run().await.unwrap();
}

/// Holds J2, J10, J13: the four requests of the journal's operators, made to it while it works.
#[tokio::test(flavor = "multi_thread")]
async fn wallets() {
    wallets::run().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn to_nats() {
    let Some(nats) = OwnBroker::start(Broker::Nats) else { return };
    to_nats::run(&nats.url()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn to_kafka() {
    to_kafka::run_on_mock().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks() {
    webhooks::run().await.unwrap();
}
