//! Every example runs to its end. Each holds itself to what it shows.

#![allow(dead_code, reason = "each example also has a main of its own")]

mod any;
#[path = "../../examples/axum_service.rs"]
mod axum_service;
#[path = "../../examples/batch_relay.rs"]
mod batch_relay;
#[path = "../../examples/quick_start.rs"]
mod quick_start;
#[path = "../../examples/retries_and_dead_letters.rs"]
mod retries_and_dead_letters;
#[path = "../../examples/two_databases.rs"]
mod two_databases;
#[path = "../../examples/wallets/main.rs"]
mod wallets;
#[path = "../../examples/your_own_transaction.rs"]
mod your_own_transaction;

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
    axum_service::run().await.unwrap();
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
