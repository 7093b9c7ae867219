//! A transactional outbox: events leave only after your commit, and always arrive.
//!
//! Write events in the transaction that changes your data. If it commits, they are delivered to the
//! handlers you registered, at least once, also when the process dies in between. If it rolls back,
//! they never existed.
//!
//! ```
//! use sendoff::sqlite::SqliteStore;
//! use sendoff::{Delivery, Event, HandlerResult, Outbox};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, Event)]
//! #[event(type = "order.placed")]
//! struct OrderPlaced {
//!     total: u32,
//! }
//!
//! async fn ship(placed: OrderPlaced, delivery: Delivery) -> HandlerResult {
//!     println!("{} for {}", delivery.id(), placed.total);
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.db");
//! let store = SqliteStore::open(&path).await?;
//! let outbox = Outbox::builder(store.clone()).on_event::<OrderPlaced>(ship).start().await?;
//!
//! let mut conn = store.connect()?;
//! conn.execute_batch("create table orders (total integer)")?;
//!
//! let mut tx = outbox.begin_blocking(&mut conn)?;
//! tx.execute("insert into orders values (?1)", [990])?;
//! tx.emit(OrderPlaced { total: 990 })?;
//! tx.commit()?;
//!
//! outbox.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! A store and a driver are a feature each: `sqlite` (rusqlite), `sqlite-sqlx`; `postgres` (tokio-postgres,
//! deadpool), `postgres-sqlx`, `postgres-sea-orm`, `postgres-diesel-async`; `mysql` (mysql_async),
//! `mysql-sqlx`, `mysql-sea-orm`. None is on by default.
//!
//! Promise: what `sendoff-engine` and the stores promise; this crate only gathers them.
//!
//! Not here: a message broker. Handlers reach whatever they like.

pub use sendoff_core::{
    AggregateType, Attempt, AuditNote, BoxError, Delivery, Event, EventBuilder, EventId, EventType,
    Exponential, Failure, FailureClass, GLOBAL_AGGREGATE, Headers, Holding, Ident, IntoEvent,
    InvalidEvent, InvalidId, InvalidIdent, InvalidNote, InvalidPause, InvalidTimestamp, Jitter,
    Lane, Linear, Origin, Pause, PauseScope, Paused, RetryPolicy, Sink, Status, Stopped,
    StoredEvent, Timestamp, Token, TypedEvent, Undecodable, UnreadableJson, Unroutable, Validation,
    Verdict, async_trait, limits, partition,
};
#[cfg(feature = "prometheus")]
pub use sendoff_engine::PrometheusMetrics;
pub use sendoff_engine::{
    After, AnyHandler, AtMost, Before, Blocking, CircuitOptions, Cleaned, CleanupError,
    CleanupMaintainer, CleanupOptions, Clock, Closed, CountedPair, CountedRun, CounterValues,
    Counters, DuplicateHandler, EventHandler, FanOut, Handler, HandlerOptions, HandlerResult,
    HandlerRun, Handlers, Interceptor, LaneDepths, Maintained, Metrics, NoHandler, NoMetrics,
    NodeOptions, OptionsError, Outbox, OutboxBuilder, OutboxOptions, PartitionError,
    PartitionMaintainer, PartitionOptions, PartitionReport, RegisterError, Registration,
    RetryOptions, RunOutcome, Skipped, StartError, SystemClock, TokioClock, WhySkipped, at_most,
    blocking, capture, fan_out, memory, relay, sink, store,
};
#[cfg(feature = "macros")]
pub use sendoff_macros::{AggregateType, Event, EventType};

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub mod any;

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
            Cursor, Mode, PairOptions, Parked, ParkedOptions, PublishOptions, PublishOptionsError,
            PublishStore, Publishers, Publishing, PublishingBuilder, Start, Statistics, To,
            UnavailableOptions, Which,
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

/// REST routes that operate the publishers of a journal.
#[cfg(feature = "admin")]
pub use sendoff_admin as admin;

/// The embedded store: an SQLite file.
#[cfg(feature = "sqlite")]
pub use sendoff_sqlite as sqlite;

/// The store in a PostgreSQL database.
#[cfg(feature = "postgres")]
pub use sendoff_postgres as postgres;

/// The store in a MySQL or MariaDB database.
#[cfg(feature = "mysql")]
pub use sendoff_mysql as mysql;

/// Compiles and runs what the README and the guide show.
#[cfg(all(
    doctest,
    feature = "macros",
    feature = "mysql",
    feature = "postgres-diesel-async",
    feature = "postgres-sea-orm",
    feature = "postgres-sqlx",
    feature = "sqlite-sqlx"
))]
mod documented {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[cfg(feature = "admin")]
    #[doc = include_str!("../../../docs/guide/admin.md")]
    struct Admin;
    #[doc = include_str!("../../../docs/guide/configuration.md")]
    struct Configuration;
    #[doc = include_str!("../../../docs/guide/handling-events.md")]
    struct HandlingEvents;
    #[doc = include_str!("../../../docs/guide/journal.md")]
    struct Journal;
    #[doc = include_str!("../../../docs/guide/operating.md")]
    struct Operating;
    #[doc = include_str!("../../../docs/guide/other-languages.md")]
    struct OtherLanguages;
    #[doc = include_str!("../../../docs/guide/relaying.md")]
    struct Relaying;
    #[doc = include_str!("../../../docs/guide/stores.md")]
    struct Stores;
    #[doc = include_str!("../../../docs/guide/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/guide/writing-events.md")]
    struct WritingEvents;
}
