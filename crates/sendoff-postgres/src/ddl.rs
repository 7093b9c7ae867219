//! Changes of tables that others use: bounded in time, undone when they fail.

use std::time::Duration;

use sendoff_engine::store::StoreError;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use crate::error::{failed, is_lost_race};

/// How long a change may take once it has its locks: moving rows takes its time.
const CHANGE_SECONDS: u64 = 60;
/// How long a transaction may be silent between two of its texts.
const SILENT_SECONDS: u64 = 1;

/// What begins a transaction whose statements wait no longer than this for a lock, and in which
/// nobody may fall silent: others wait behind its locks.
pub(crate) fn beginning(lock_wait: Duration) -> String {
    let wait = lock_wait.as_millis().max(1);
    format!(
        "begin isolation level read committed; set local lock_timeout = '{wait}ms'; \
         set local statement_timeout = '{CHANGE_SECONDS}s'; \
         set local idle_in_transaction_session_timeout = '{SILENT_SECONDS}s'"
    )
}

/// Begins such a transaction.
pub(crate) async fn begin(client: &Client, lock_wait: Duration) -> Result<(), Error> {
    client.batch_execute(&beginning(lock_wait)).await
}

/// Takes locks, and says whether they were to be had: no longer than this for each statement, however
/// many locks it takes, because others wait behind its first while it waits for its last.
pub(crate) async fn lock(client: &Client, locks: &str, lock_wait: Duration) -> Result<bool, Error> {
    let wait = lock_wait.as_millis().max(1);
    let script = format!(
        "set local statement_timeout = '{wait}ms'; {locks} \
         set local statement_timeout = '{CHANGE_SECONDS}s'"
    );
    match client.batch_execute(&script).await {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Undoes a change that failed, and tells a lock that was not to be had from an error.
pub(crate) async fn ended<T>(
    client: &Client,
    change: Result<T, Error>,
    busy: T,
) -> Result<T, StoreError> {
    let error = match change {
        Ok(done) => return Ok(done),
        Err(error) => error,
    };
    let is_busy = error
        .code()
        .is_some_and(|code| *code == SqlState::LOCK_NOT_AVAILABLE || is_lost_race(code));
    client.batch_execute("rollback").await.map_err(failed)?;
    if is_busy { Ok(busy) } else { Err(failed(error)) }
}
