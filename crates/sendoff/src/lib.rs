#![cfg_attr(docsrs, feature(doc_cfg))]
//! A transactional outbox: events leave only after your commit, and always arrive.
//!
//! Write events in the transaction that changes your data. If it commits, they are delivered to the
//! handlers you registered, at least once, also when the process dies in between. If it rolls back,
//! they never existed.
//!
//! ## Begin here
//!
//! With PostgreSQL and sqlx (`features = ["postgres-sqlx"]`):
//!
#![cfg_attr(feature = "postgres-sqlx", doc = "```no_run")]
#![cfg_attr(not(feature = "postgres-sqlx"), doc = "```ignore")]
//! use sendoff::postgres::PostgresStore;
//! use sendoff::{Delivery, HandlerResult, Outbox};
//!
//! async fn ship(delivery: Delivery) -> HandlerResult {
//!     let total: u32 = delivery.read_json()?;
//!     println!("{} for {total}", delivery.id());
//!     Ok(())
//! }
//!
//! # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! let store = PostgresStore::connect("postgres://app@localhost/shop").await?;
//! store.migrate().await?;
//! let outbox = Outbox::builder(store).on("order.placed", ship).start().await?;
//!
//! let mut tx = outbox.begin(&pool).await?; // dereferences to sqlx's transaction
//! sqlx::query("insert into orders values (990)").execute(&mut **tx).await?;
//! tx.emit(("order.placed", "990"))?;
//! tx.commit().await?; // order and event, both or none
//!
//! outbox.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Read on:
//!
//! - **[The guide](guide)**: writing and handling events, order, exactly-once effects, dead letters, sinks, configuration,
//!   operating, testing, performance.
//! - **[The journal](guide::journal)**: an event log with appends under conditions (DCB) and publishers in exact order; its
//!   types are in [`journal`].
//! - **[Examples](guide::examples)**, one for each driver, and more.
//!
//! ## What is where
//!
//! | | |
//! |---|---|
//! | [`Outbox`], [`Event`](struct@Event), [`Delivery`], [`Handler`], [`Failure`] | what most programs need |
//! | [`capture`] | transactions: guards, receipts, and what a driver must offer |
//! | [`handling`], [`retry`], [`options`], [`event`] | interceptors, routes, policies, options, headers |
//! | [`relay`] | events in batches, and the topic worker |
//! | [`journal`] | the event log |
#![cfg_attr(feature = "sinks", doc = "| [`sinks`] | files and brokers that events go to |")]
//! | [`letters`], [`keys`], [`pause`], [`doctor`], [`maintain`], [`metrics`] | operating it |
//! | [`store`], [`memory`], [`clock`] | stores of your own, and tests |
//!
//! ## Features
//!
//! None is on by default but `macros`.
//!
//! | feature | what it brings |
//! |---|---|
//! | `macros` | the derives |
//! | `postgres` | the store in PostgreSQL, and capture of tokio-postgres and deadpool |
//! | `postgres-sqlx`, `postgres-sqlx-08`, `postgres-sea-orm`, `postgres-diesel-async` | the same, and capture of that driver |
//! | `mysql` | the store in MySQL and MariaDB, and capture of mysql_async |
//! | `mysql-sqlx`, `mysql-sqlx-08`, `mysql-sea-orm` | the same, and capture of that driver |
//! | `sqlite` | the store in an SQLite file, and capture of rusqlite |
//! | `sqlite-sqlx` | the same, and capture of sqlx |
//! | `postgres-tls-rustls`, `mysql-tls-rustls` | TLS to the database |
//! | `sink-file`, `sink-kafka`, `sink-mqtt`, `sink-nats`, `sink-rabbitmq`, `sink-redis`, `sink-webhook` | a sink each |
//! | `sink-kafka-tls`, `sink-mqtt-tls`, `sink-rabbitmq-tls`, `sink-redis-tls`, `sink-webhook-tls` | the same with TLS; NATS has it in any case |
//! | `sinks`, `sinks-full` | what sinks are made of; all of them |
//! | `admin` | REST routes for dead letters, keys, pauses and publishers |
//! | `prometheus` | metrics in a registry of prometheus-client |
//! | `serde` | options that are read from files and written into them |
//! | `full` | all of this, but for `sink-kafka-tls`, whose TLS library is built along for minutes |
//!
//! Promise: what `sendoff-engine` and the stores promise; this crate only gathers them.
//!
//! Not here: a message broker. Sinks reach those there are, and handlers whatever they like.

pub use sendoff_core::{
    AggregateType, BoxError, Delivery, Event, EventBuilder, EventId, EventType, Failure,
    FailureClass, Ident, IntoEvent, InvalidEvent, Sink, Status, Timestamp, TypedEvent, Verdict,
    async_trait, limits, partition, trace,
};
pub use sendoff_engine::{
    AwaitError, Awaited, CaughtUp, Closed, EventHandler, Handler, HandlerResult, Inbox, OnceError,
    Outbox, OutboxBuilder, OutboxOptions, ProcessError, Processed, Rate, SettleInError, StartError,
    WeakOutbox, at_most, blocking, capture, deadline, fan_out, memory, paced, relay, sink, store,
};
#[cfg(feature = "macros")]
pub use sendoff_macros::{AggregateType, Event, EventType};

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub mod any;

/// What an event carries, and what is refused of it.
pub mod event {
    pub use sendoff_core::{
        GLOBAL_AGGREGATE, Headers, Holding, InvalidId, InvalidIdent, InvalidTimestamp, Lane,
        Origin, StoredEvent, Token, Undecodable, UnreadableJson, Validation,
    };
}

/// Handlers, beyond the one that most programs have: interceptors, several of them, routes.
pub mod handling {
    pub use sendoff_core::Unroutable;
    pub use sendoff_engine::{
        After, AnyHandler, Before, Blocking, DuplicateHandler, FanOut, Handlers, Interceptor,
        Limited, NoHandler, Paced, RegisterError, Registration, Tracer,
    };
}

/// Groups of options that outbox, relay and publishing share.
pub mod options {
    pub use sendoff_core::order::AfterDead;
    pub use sendoff_engine::{
        CircuitOptions, FairOptions, HandlerOptions, NodeOptions, OptionsError, RetryOptions,
    };
}

/// How long to wait between attempts.
pub mod retry {
    pub use sendoff_core::{Attempt, Exponential, Jitter, Linear, RetryPolicy, Stopped};
}

/// What is measured, and recorders of it.
pub mod metrics {
    #[cfg(feature = "prometheus")]
    pub use sendoff_engine::PrometheusMetrics;
    pub use sendoff_engine::{
        CountedPair, CountedRun, CounterValues, Counters, HandlerRun, LaneDepths, Metrics,
        NoMetrics, RunOutcome,
    };
}

/// Deleting what is over, row by row or with its partition.
pub mod maintain {
    pub use sendoff_engine::{
        Cleaned, CleanupError, CleanupMaintainer, CleanupOptions, Maintained, PartitionError,
        PartitionMaintainer, PartitionOptions, PartitionReport, Skipped, WhySkipped,
    };
}

/// What operators pause, and the note that every act of theirs carries.
pub mod pause {
    pub use sendoff_core::{AuditNote, InvalidNote, InvalidPause, Pause, PauseScope, Paused};
}

/// The keys of events: how they stand, which are parked, and letting those go on.
pub mod keys {
    pub use sendoff_core::order::{
        FirstEvent, KeyFate, KeyStanding, KeyState, Parking, ParkingLetter,
    };
    pub use sendoff_core::{AuditNote, InvalidEvent, LetterCount};
    pub use sendoff_engine::{KeysError, OrderKeys, ParkedKeys};
}

/// Clocks, for tests.
pub mod clock {
    pub use sendoff_engine::{Clock, SystemClock, TokioClock};
}

/// How an outbox is: dead letters, what is late, what is paused.
pub mod doctor {
    pub use sendoff_core::journal::doctor::{ForgetfulSetting, Severity};
    pub use sendoff_core::{OutboxCheckup, OutboxFinding, Undelivered};
    pub use sendoff_engine::{CheckupStore, checkup};
}

/// The journal: facts that are appended under conditions and read in order.
///
/// What only a store is made of, such as locks, gaps and marks, is in `sendoff_core::journal` and
/// `sendoff_engine::journal`.
pub mod journal {
    pub use sendoff_core::journal::{
        Append, Condition, Fact, FactBuilder, Holder, HolderId, IntoFact, Invalid, InvalidPosition,
        Item, Position, Query, Recorded, Run, Tag, Tags, Topic, TopicBuilder, Unsafe, doctor,
    };
    pub use sendoff_engine::journal::{
        AppendError, AppendIn, AppendInBlocking, Batch, Conflict, DecideError, Decided, Decision,
        ExecuteError, Executed, Fold, Journal, JournalStore, MemoryJournal, Model, Receipt,
        TailError, TailOptions, TailReader, TailRow, fold,
    };

    /// Carrying it to publishers.
    pub mod publish {
        pub use sendoff_core::journal::publish::{
            CursorStatus, IdleBackoff, Leadership, PairId, Poison, UnknownCursorStatus, WaitsAt,
        };
        pub use sendoff_engine::journal::publish::{
            Cursor, Mode, PairCaughtUp, PairOptions, Parked, ParkedOptions, PublishOptions,
            PublishOptionsError, PublishStore, Publishers, Publishing, PublishingBuilder, Start,
            Statistics, To, UnavailableOptions, Which,
        };
    }

    /// Letting go what everybody has passed.
    pub mod retain {
        pub use sendoff_core::journal::retain::{
            Follower, Followers, HeldBy, InvalidRangeName, RangeName, Ranges, Release, Wanted,
        };
        pub use sendoff_engine::journal::retain::{
            Fate, JournalMaintainer, RangeTable, RetainError, RetainJournalStore, RetainOptions,
            RetainReport, Retained, SkippedRange,
        };
    }
}

/// Dead letters: seen, requeued and discarded by people, and what they did.
pub mod letters {
    pub use sendoff_core::{
        AuditAction, AuditNote, InvalidFilter, InvalidNote, Letter, LetterAct, LetterCount,
        LetterFate, LetterFilter, LetterOrder, LetterPosition,
    };
    pub use sendoff_engine::store::{AuditEntry, EventRecord, LetterStore, PayloadWanted};
    pub use sendoff_engine::{
        Audit, DeadLetters, LetterSweep, Letters, LettersError, ShownEvent, SweepError,
        SweepOptions, Swept,
    };
}

/// Delivered events, handed once more to a handler that somebody chose for that.
pub mod replay {
    pub use sendoff_core::{
        InvalidFilter, InvalidMark, LetterCount, ReplayFilter, ReplayMark, ReplayPosition,
    };
    pub use sendoff_engine::store::ReplayStore;
    pub use sendoff_engine::{
        OnReplayFailure, Replay, ReplayError, ReplayFailure, ReplayFault, ReplayOptions,
        ReplayRefused, Replayed,
    };
}

/// REST routes that operate an outbox and the publishers of a journal.
#[cfg(feature = "admin")]
pub use sendoff_admin as admin;

/// Files and brokers that events go to, and what sinks of your own can be made of.
#[cfg(feature = "sinks")]
pub use sendoff_sinks as sinks;

/// The embedded store: an SQLite file.
#[cfg(feature = "sqlite")]
pub use sendoff_sqlite as sqlite;

/// The store in a PostgreSQL database.
#[cfg(feature = "postgres")]
pub use sendoff_postgres as postgres;

/// The store in a MySQL or MariaDB database.
#[cfg(feature = "mysql")]
pub use sendoff_mysql as mysql;

#[cfg(any(doc, doctest))]
pub mod guide;

/// Compiles and runs what the README shows.
#[cfg(all(doctest, feature = "full"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
