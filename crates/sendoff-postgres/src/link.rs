//! One connection of ours, opened when it is needed and again when it is lost.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join;
use sendoff_core::journal::Run;
use sendoff_engine::store::StoreError;
use tokio::sync::{Mutex, OnceCell, OwnedMutexGuard};
use tokio::time::{Instant, sleep_until};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement as Prepared};

use crate::connect::{Connector, Opened};
use crate::error::{failed, is_lost_race, spoils_session};
use crate::leave::Leaving;
use crate::options::Doorbell;
use crate::sql::{Sql, Statement};
use crate::wire::At;

/// The pause after a first failure to connect; it doubles up to the longest, which is short beside
/// any hold: a server that is back must be found before holds run out.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often a statement that lost against another transaction is tried in all.
const TRIES: usize = 3;

/// What a statement is answered.
type Rows = Result<Vec<Row>, Error>;

pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection that mends itself. Statements of one link are carried out one after the other.
pub(crate) struct Link {
    connector: Arc<Connector>,
    statements: Kept,
    leaving: Leaving,
    state: Mutex<State>,
}

/// Nothing else is under way in the session while this lasts; `None` where others may be.
type Turn = Option<OwnedMutexGuard<()>>;

/// Whether statements are kept prepared in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Prepared,
    /// A transaction pooler may give every statement another session.
    Unnamed,
}

impl From<Doorbell> for Kept {
    fn from(doorbell: Doorbell) -> Self {
        match doorbell {
            Doorbell::On => Self::Prepared,
            Doorbell::Off => Self::Unnamed,
        }
    }
}

impl Kept {
    /// Two transactions of one session, the first one first: in one round trip, but for a pooler.
    /// [One at a time](Link::session_in_turn) may be under way behind that.
    pub(crate) async fn in_order<A, B>(
        self,
        first: impl Future<Output = A>,
        second: impl Future<Output = B>,
    ) -> (A, B) {
        match self {
            Self::Prepared => join(first, second).await,
            Self::Unnamed => (first.await, second.await),
        }
    }
}

struct State {
    session: Option<Arc<Session>>,
    pause: Duration,
    not_before: Instant,
    closed: bool,
}

/// Apart, so that none waits for another.
pub(crate) struct Links {
    /// Claims, proofs of commits, and the flag of the bell.
    pub(crate) claims: Link,
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
    pub(crate) fn new(connector: Arc<Connector>, statements: Kept) -> Self {
        let state =
            State { session: None, pause: FIRST_PAUSE, not_before: Instant::now(), closed: false };
        Self { connector, statements, leaving: Leaving::default(), state: Mutex::new(state) }
    }

    /// Runs one statement, which is a transaction of its own.
    ///
    /// A dropped future leaves the statement to the server, and its session to nobody: it may be
    /// stuck, and whatever came next would be stuck behind it.
    pub(crate) async fn query(
        &self,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        Ok(self.answered(statement, params).await?.1)
    }

    /// The same, and in which run of the server; nothing where a pooler chooses the server.
    pub(crate) async fn query_in_run(
        &self,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<(Option<Run>, Vec<Row>), StoreError> {
        let (session, rows) = self.answered(statement, params).await?;
        let run = match self.statements {
            Kept::Prepared => Some(session.run().await.map_err(failed)?),
            Kept::Unnamed => None,
        };
        Ok((run, rows))
    }

    async fn answered(
        &self,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<(Arc<Session>, Vec<Row>), StoreError> {
        let mut tries = 0;
        loop {
            let (session, _turn) = self.session_in_turn().await?;
            let unfinished = Unfinished { session: &session, connector: &self.connector };
            let answer = session.query(statement, params, self.statements).await;
            unfinished.finished();
            tries += 1;
            match answer {
                Ok(rows) => return Ok((session, rows)),
                Err(error) => {
                    if spoils_session(&error) {
                        session.spoil();
                    }
                    if tries >= TRIES || !error.code().is_some_and(is_lost_race) {
                        return Err(failed(error));
                    }
                }
            }
        }
    }

    /// The session, for statements that leave together with the first poll of what waits for them: those of
    /// others come before or after them. Dropped before it is answered, it is not used for others any
    /// more: it may be stuck.
    pub(crate) async fn lend(&self) -> Result<Lent, StoreError> {
        let (session, turn) = self.session_in_turn().await?;
        Ok(Lent { session, answered: false, _turn: turn })
    }

    /// The session, and the right to send something over it.
    ///
    /// Where a pooler may be in between, that is one transaction at a time. A pooler may hand a server on as
    /// soon as one of a client's transactions was answered and the client is gone: whoever gets that
    /// server would be given the answers of those still under way.
    async fn session_in_turn(&self) -> Result<(Arc<Session>, Turn), StoreError> {
        loop {
            let session = self.session().await?;
            if self.statements == Kept::Prepared {
                return Ok((session, None));
            }
            let turn = Arc::clone(&session.turn).lock_owned().await;
            // Whoever was before may have given it up.
            if session.is_usable() {
                return Ok((session, Some(turn)));
            }
        }
    }

    async fn session(&self) -> Result<Arc<Session>, StoreError> {
        let mut state = self.state.lock().await;
        if state.closed {
            return Err(StoreError::Closed);
        }
        if let Some(session) = &state.session
            && session.is_usable()
        {
            return Ok(Arc::clone(session));
        }
        state.session = None;
        sleep_until(state.not_before).await;
        let ((), opened) = join(self.leaving.over(), self.connector.open(None)).await;
        match opened {
            Ok(opened) => {
                let session = Arc::new(Session::new(opened, self.leaving.clone()));
                state.session = Some(Arc::clone(&session));
                state.pause = FIRST_PAUSE;
                Ok(session)
            }
            Err(error) => {
                // Not all at once, when a server comes back to many nodes.
                state.not_before = Instant::now() + state.pause.mul_f64(0.5 + fastrand::f64());
                state.pause = (state.pause * 2).min(LONGEST_PAUSE);
                Err(error)
            }
        }
    }

    /// A session for one user alone: this link's, where nobody is using it, so that one connection is
    /// enough; otherwise another one. What is sent over the link meanwhile opens a new one.
    pub(crate) async fn take(&self) -> Result<Taken, StoreError> {
        let session = self.session().await?;
        let mut state = self.state.lock().await;
        let ours = state.session.take_if(|kept| Arc::ptr_eq(kept, &session));
        // Ours and the link's own: any third is a statement under way, which must not end up in the
        // taker's transaction.
        if ours.is_some() && Arc::strong_count(&session) == 2 {
            return Ok(Taken { session, kept: false });
        }
        state.session = ours;
        drop(state);
        let opened = self.connector.open(None).await?;
        let session = Arc::new(Session::new(opened, self.leaving.clone()));
        Ok(Taken { session, kept: false })
    }

    /// Takes a session back that is as it was when it was taken.
    pub(crate) async fn give_back(&self, taken: Taken) {
        let mut state = self.state.lock().await;
        if !state.closed && state.session.is_none() {
            state.session = Some(taken.kept());
        }
    }

    /// Refuses everything from now on.
    pub(crate) async fn close(&self) {
        let mut state = self.state.lock().await;
        state.closed = true;
        state.session = None;
    }
}

/// An open connection, and the statements it knows.
pub(crate) struct Session {
    opened: Opened,
    prepared: Vec<OnceCell<Prepared>>,
    run: OnceCell<Run>,
    told: OnceCell<Option<String>>,
    turn: Arc<Mutex<()>>,
    spoilt: AtomicBool,
    left: AtomicBool,
    leaving: Leaving,
}

impl Session {
    /// It is counted among others while it leaves.
    pub(crate) fn new(opened: Opened, leaving: Leaving) -> Self {
        Self {
            opened,
            prepared: (0..Sql::COUNT).map(|_| OnceCell::new()).collect(),
            run: OnceCell::new(),
            told: OnceCell::new(),
            turn: Arc::default(),
            spoilt: AtomicBool::new(false),
            left: AtomicBool::new(false),
            leaving,
        }
    }

    pub(crate) async fn query(
        &self,
        statement: &Statement,
        params: Params<'_>,
        kept: Kept,
    ) -> Rows {
        let client = &self.opened.client;
        match kept {
            Kept::Prepared => client.query(self.prepared(statement).await?, params).await,
            Kept::Unnamed => query_unnamed(client, statement, params).await,
        }
    }

    /// Runs a statement and ends the transaction with it, in one round trip. Where the statement
    /// fails, so does the transaction: the server answers the COMMIT after it with a rollback.
    pub(crate) async fn query_and_commit(
        &self,
        statement: &Statement,
        params: Params<'_>,
        kept: Kept,
    ) -> Result<(), Error> {
        let client = &self.opened.client;
        let commit = client.batch_execute("commit");
        let (settled, committed) = match kept {
            Kept::Prepared => {
                // Before, not beside: what is not prepared yet would be overtaken by the COMMIT.
                let prepared = self.prepared(statement).await?;
                join(client.query(prepared, params), commit).await
            }
            Kept::Unnamed => join(query_unnamed(client, statement, params), commit).await,
        };
        settled?;
        committed
    }

    async fn prepared(&self, statement: &Statement) -> Result<&Prepared, Error> {
        let prepare = || self.opened.client.prepare_typed(&statement.text, statement.types);
        self.prepared[statement.slot].get_or_try_init(prepare).await
    }

    /// The run of the server, which is asked for once.
    pub(crate) async fn run(&self) -> Result<Run, Error> {
        let ask = || async {
            let started_at = "select pg_postmaster_start_time()";
            let At(started_at) = self.opened.client.query_one(started_at, &[]).await?.try_get(0)?;
            Ok(Run::numbered(started_at.as_micros()))
        };
        self.run.get_or_try_init(ask).await.copied()
    }

    /// Runs a command that answers nothing.
    pub(crate) async fn execute(&self, command: &str) -> Result<(), Error> {
        self.opened.client.batch_execute(command).await
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.spoilt.load(Ordering::Relaxed) && !self.opened.client.is_closed()
    }

    /// Never to be used again.
    pub(crate) fn spoil(&self) {
        self.spoilt.store(true, Ordering::Relaxed);
    }

    /// The same, where a statement is under way that nobody waits for.
    fn give_up(&self) {
        self.spoil();
        if !self.left.swap(true, Ordering::Relaxed) {
            self.leaving.leave(self.opened.farewell());
        }
    }
}

/// Runs a statement that the session does not remember, in one round trip.
pub(crate) async fn query_unnamed(
    client: &Client,
    statement: &Statement,
    params: Params<'_>,
) -> Result<Vec<Row>, Error> {
    let typed: Vec<_> = params.iter().copied().zip(statement.types.iter().cloned()).collect();
    client.query_typed(&statement.text, &typed).await
}

impl Drop for Session {
    fn drop(&mut self) {
        // A sound one ends by itself; one that may be stuck would wait for ever.
        if self.spoilt.load(Ordering::Relaxed) {
            self.give_up();
            self.opened.farewell().let_end();
        }
    }
}

/// A session of one's own. Dropped, it is closed, and the server ends what it was about: its statement, its
/// transaction and its locks.
pub(crate) struct Taken {
    session: Arc<Session>,
    kept: bool,
}

impl Taken {
    /// One that no link has had before.
    pub(crate) fn of(opened: Opened) -> Self {
        let session = Session::new(opened, Leaving::default());
        Self { session: Arc::new(session), kept: false }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.session.opened.client
    }

    /// Prepares statements, if they are kept, so that those sent together are carried out in order.
    pub(crate) async fn prepare(&self, statements: &[&Statement], kept: Kept) -> Result<(), Error> {
        if kept == Kept::Prepared {
            for statement in statements {
                self.session.prepared(statement).await?;
            }
        }
        Ok(())
    }

    /// What a statement says about the session, which is asked for once: so let it always be the same one.
    pub(crate) async fn told_once(&self, asking: &Statement) -> Result<Option<&str>, Error> {
        let ask = async || {
            let rows = self.query(asking, &[], Kept::Unnamed).await?;
            rows.first().map_or(Ok(None), |row| row.try_get(0))
        };
        Ok(self.session.told.get_or_try_init(ask).await?.as_deref())
    }

    fn kept(mut self) -> Arc<Session> {
        self.kept = true;
        Arc::clone(&self.session)
    }
}

impl Deref for Taken {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.kept {
            self.session.spoil();
        }
    }
}

/// A session that others use as well; see [`Link::lend`].
pub(crate) struct Lent {
    session: Arc<Session>,
    answered: bool,
    _turn: Turn,
}

impl Lent {
    pub(crate) fn client(&self) -> &Client {
        &self.session.opened.client
    }

    /// Everything was answered.
    pub(crate) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.answered {
            self.session.give_up();
        }
    }
}

/// Spoils the session unless its statement was answered.
struct Unfinished<'s> {
    session: &'s Session,
    connector: &'s Connector,
}

impl Unfinished<'_> {
    fn finished(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.session.give_up();
        self.connector.lose();
    }
}
