//! One connection of ours, opened when it is needed and again when it is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mysql_async::prelude::{Protocol, Queryable};
use mysql_async::{Conn, DriverError, Error, Params, QueryResult, Row, Value};
use sendoff_core::journal::Run;
use sendoff_engine::store::StoreError;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until};

use crate::connect::Connector;
use crate::error::{code, failed, is_lost_race, is_unpreparable, number, spoils_session};
use crate::run::Known;

/// The pause after a first failure to connect; it doubles up to the longest, which is short beside
/// any hold: a server that is back must be found before holds run out.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often a transaction that lost against another one is tried in all.
const TRIES: u32 = 3;

/// A connection that mends itself. What is asked of one link is carried out one after the other.
pub(crate) struct Link {
    connector: Arc<Connector>,
    state: Mutex<State>,
    /// How many open connections broke, or were given up, of all links that share it.
    lost: Arc<AtomicU64>,
}

struct State {
    conn: Option<Known>,
    /// What puts back what was set for one user of the connection.
    calm: Option<String>,
    pause: Duration,
    not_before: Instant,
    closed: bool,
}

/// Apart, so that none waits for another.
pub(crate) struct Links {
    pub(crate) claims: Link,
    /// Proofs of commits.
    pub(crate) proofs: Link,
    /// Settlements and extensions, in the order they are sent.
    pub(crate) settlements: Link,
    /// Extensions that wait for a row that somebody has locked.
    pub(crate) turns: Link,
    /// What may take its time.
    pub(crate) upkeep: Link,
    /// Events that come without a transaction.
    pub(crate) sends: Link,
}

impl Link {
    pub(crate) fn new(connector: Arc<Connector>) -> Self {
        Self::counted(connector, Arc::default())
    }

    /// One whose losses are counted with those of others.
    pub(crate) fn counted(connector: Arc<Connector>, lost: Arc<AtomicU64>) -> Self {
        let state = State {
            conn: None,
            calm: None,
            pause: FIRST_PAUSE,
            not_before: Instant::now(),
            closed: false,
        };
        Self { connector, state: Mutex::new(state), lost }
    }

    /// Runs a text that needs no transaction, and returns the rows of its last result.
    pub(crate) async fn query(&self, text: &str) -> Result<Vec<Row>, StoreError> {
        Ok(self.results(text).await?.pop().unwrap_or_default())
    }

    /// The same, and returns the rows of every result that has columns.
    pub(crate) async fn results(&self, text: &str) -> Result<Vec<Vec<Row>>, StoreError> {
        let mut tries = Tries::default();
        loop {
            let mut session = self.session().await?;
            match session.results(text).await {
                Ok(all) => {
                    session.keep();
                    return Ok(all);
                }
                Err(error) => session.failed(error, &mut tries).await?,
            }
        }
    }

    /// The connection, for a while. One that is neither kept nor told of a failure is closed: whoever
    /// dropped the future may have left it in the middle of something.
    pub(crate) async fn session(&self) -> Result<Session<'_>, StoreError> {
        let mut state = self.state.lock().await;
        if state.closed {
            return Err(StoreError::Closed);
        }
        if let Some(conn) = state.conn.take() {
            let calm = state.calm.take();
            let mut session = self.lend(state, conn, true);
            let Some(calm) = calm else { return Ok(session) };
            if session.query(&calm).await.is_ok() {
                return Ok(session);
            }
            state = session.state;
        }
        sleep_until(state.not_before).await;
        match self.connector.open().await {
            Ok(conn) => {
                state.pause = FIRST_PAUSE;
                Ok(self.lend(state, conn.into(), false))
            }
            Err(error) => {
                // Not all at once, when a server comes back to many nodes.
                state.not_before = Instant::now() + state.pause.mul_f64(0.5 + fastrand::f64());
                state.pause = (state.pause * 2).min(LONGEST_PAUSE);
                Err(error)
            }
        }
    }

    fn lend<'l>(&'l self, state: MutexGuard<'l, State>, conn: Known, stale: bool) -> Session<'l> {
        let conn = Lent { conn: Some(conn), lost: &self.lost };
        Session { state, conn, stale, calm: None }
    }

    /// The connection, for one user alone; what is asked of the link meanwhile opens another. Dropped,
    /// it is closed, and the server ends what it was about: its transaction and its locks.
    pub(crate) async fn take(&self) -> Result<Known, StoreError> {
        let Session { mut conn, .. } = self.session().await?;
        conn.conn.take().ok_or(StoreError::Closed)
    }

    /// Takes a connection back that is as it was when it was taken.
    pub(crate) async fn give_back(&self, conn: Known) {
        let mut state = self.state.lock().await;
        if !state.closed && state.conn.is_none() {
            state.conn = Some(conn);
        }
    }

    /// Refuses everything from now on.
    pub(crate) async fn close(&self) {
        let mut state = self.state.lock().await;
        state.closed = true;
        if let Some(conn) = state.conn.take() {
            conn.disconnect().await;
        }
    }
}

/// How often a transaction was tried.
#[derive(Debug, Default)]
pub(crate) struct Tries(u32);

impl Tries {
    /// Whether it may be tried once more.
    pub(crate) fn again(&mut self) -> bool {
        self.0 += 1;
        self.0 < TRIES
    }
}

/// The connection of a link while one transaction has it.
pub(crate) struct Session<'l> {
    state: MutexGuard<'l, State>,
    conn: Lent<'l>,
    /// Whether it lay idle, and nothing was answered since: the server may have ended it meanwhile.
    stale: bool,
    /// What puts back what was set for this user.
    calm: Option<String>,
}

/// A connection that is lost unless it is given back.
struct Lent<'l> {
    conn: Option<Known>,
    lost: &'l AtomicU64,
}

impl Lent<'_> {
    fn get(&mut self) -> Result<&mut Known, Error> {
        self.conn.as_mut().ok_or(Error::Driver(DriverError::ConnectionClosed))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if self.conn.is_some() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Session<'_> {
    /// Runs a text of one or more statements, and returns the rows of the last result that has any.
    pub(crate) async fn query(&mut self, text: &str) -> Result<Vec<Row>, Error> {
        Ok(self.results(text).await?.pop().unwrap_or_default())
    }

    /// The same, and returns the rows of every result that has columns.
    pub(crate) async fn results(&mut self, text: &str) -> Result<Vec<Vec<Row>>, Error> {
        let all = results(&mut **self.conn.get()?, text).await?;
        self.stale = false;
        Ok(all)
    }

    /// As [`query`](Self::query), of one statement whose values are apart from it; see [`prepared_rows`].
    pub(crate) async fn prepared(
        &mut self,
        text: &str,
        values: Vec<Value>,
    ) -> Result<Option<Vec<Row>>, Error> {
        let rows = prepared_rows(&mut **self.conn.get()?, text, values).await?;
        self.stale = false;
        Ok(rows)
    }

    /// Runs a text, and says how many rows its last statement changed.
    pub(crate) async fn change(&mut self, text: &str) -> Result<u64, Error> {
        let conn = self.conn.get()?;
        conn.query_drop(text).await?;
        Ok(conn.affected_rows())
    }

    /// Sets something for this user alone; `calm` puts it back before the next one.
    pub(crate) async fn set(&mut self, text: &str, calm: &str) -> Result<(), Error> {
        self.calm = Some(calm.to_owned());
        self.query(text).await.map(|_| ())
    }

    /// The connection itself, for more than one text.
    pub(crate) fn conn(&mut self) -> Result<&mut Conn, Error> {
        Ok(&mut **self.conn.get()?)
    }

    /// The run of the server.
    pub(crate) async fn run(&mut self) -> Result<Option<Run>, Error> {
        self.conn.get()?.run().await
    }

    /// Whether it lay idle and has answered nothing since.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale
    }

    /// Everything was answered, and no transaction is open.
    pub(crate) fn keep(mut self) {
        self.state.conn = self.conn.conn.take();
        self.state.calm = self.calm.take();
    }

    /// What failed is undone; `Ok` says that it may be tried again at once.
    pub(crate) async fn failed(
        mut self,
        error: Error,
        tries: &mut Tries,
    ) -> Result<(), StoreError> {
        tries.0 += 1;
        let Some(number) = number(&error).filter(|number| !spoils_session(*number)) else {
            // A text may be repeated although nobody knows what became of it: a second claim takes
            // other rows, and the first ones come back; what was settled once is settled.
            return if self.stale && tries.0 < TRIES { Ok(()) } else { Err(failed(error)) };
        };
        if self.query("rollback").await.is_ok() {
            self.keep();
        }
        // Who waited for a lock as long as he may has waited enough.
        let again = is_lost_race(number) && number != code::LOCK_TIMEOUT;
        if tries.0 < TRIES && again { Ok(()) } else { Err(failed(error)) }
    }
}

/// Runs a text of one or more statements, and returns the rows of the last result that has any. The
/// first error ends it: the server leaves the statements after it out.
pub(crate) async fn last_rows<C: Queryable>(conn: &mut C, text: &str) -> Result<Vec<Row>, Error> {
    Ok(results(conn, text).await?.pop().unwrap_or_default())
}

/// The same, and returns the rows of every result that has columns.
pub(crate) async fn results<C: Queryable>(
    conn: &mut C,
    text: &str,
) -> Result<Vec<Vec<Row>>, Error> {
    all_rows(conn.query_iter(text).await?).await
}

/// As [`last_rows`], of one statement whose values are apart from it, and which the server prepares once
/// for each connection; nothing, and nothing was done, where it does not prepare it.
pub(crate) async fn prepared_rows<C: Queryable>(
    conn: &mut C,
    text: &str,
    values: Vec<Value>,
) -> Result<Option<Vec<Row>>, Error> {
    let statement = match conn.prep(text).await {
        Ok(statement) => statement,
        Err(error) if number(&error).is_some_and(is_unpreparable) => return Ok(None),
        Err(error) => return Err(error),
    };
    let values = if values.is_empty() { Params::Empty } else { Params::Positional(values) };
    let mut all = all_rows(conn.exec_iter(&statement, values).await?).await?;
    Ok(Some(all.pop().unwrap_or_default()))
}

async fn all_rows<P: Protocol>(mut result: QueryResult<'_, '_, P>) -> Result<Vec<Vec<Row>>, Error> {
    let mut all = Vec::new();
    loop {
        let has_rows = !result.columns_ref().is_empty();
        let rows: Vec<Row> = result.collect().await?;
        if has_rows {
            all.push(rows);
        }
        if result.is_empty() {
            // Also what is neither rows nor a promise of more: an error in the place of a result.
            result.drop_result().await?;
            return Ok(all);
        }
    }
}
