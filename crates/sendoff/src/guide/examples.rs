//! Programs to run and to copy from. In the repository they are in `crates/sendoff/examples`.
//!
//! `cargo xtask example NAME` runs one in a clone, with the server it needs unless `DATABASE_URL` names one.

/// A module of each program, with its source.
macro_rules! programs {
    ($($(#[$about:meta])* $name:ident $($file:literal)+;)*) => {$(
        $(#[$about])*
        $(
            #[doc = concat!("\n`", $file, "`\n````ignore")]
            #[doc = include_str!(concat!("../../examples/", $file))]
            #[doc = "````"]
        )+
        pub mod $name {}
    )*};
}

programs! {
    /// An HTTP service on PostgreSQL, with axum and sqlx.
    axum_service "axum_service.rs";
    /// PostgreSQL through deadpool.
    deadpool "deadpool.rs";
    /// PostgreSQL through sea-orm.
    sea_orm "sea_orm.rs";
    /// PostgreSQL through diesel-async.
    diesel_async "diesel_async.rs";
    /// Two processes, one of which only writes, ended by SIGTERM.
    writer_and_worker "writer_and_worker.rs";
    /// MySQL or MariaDB through mysql_async.
    mysql "mysql.rs";
    /// The embedded store, SQLite.
    quick_start "quick_start.rs";
    /// Events in transactions that the application holds.
    your_own_transaction "your_own_transaction.rs";
    /// Effects that are made exactly once.
    inbox "inbox.rs";
    /// Two databases, two outboxes, one process.
    two_databases "two_databases.rs";
    /// What follows when a handler fails.
    retries_and_dead_letters "retries_and_dead_letters.rs";
    /// Events in batches.
    batch_relay "batch_relay.rs";
    /// From a transaction to a topic of Kafka.
    to_kafka "to_kafka.rs";
    /// From a transaction to a stream of NATS JetStream.
    to_nats "to_nats.rs";
    /// Signed webhooks, and a receiver that checks them.
    webhooks "webhooks.rs";
    /// A journal with publishers that are operated over HTTP.
    wallets "wallets/main.rs" "wallets/books.rs" "wallets/bank.rs" "wallets/work.rs";
}
