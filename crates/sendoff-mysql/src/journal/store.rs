//! The journal's store on MySQL and MariaDB: its connections, appends and reads.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::Error;
use sendoff_core::journal::doctor::{StricterDefault, Vitals};
use sendoff_core::journal::{Append, Holder, HolderId, Locks, Position, Query, Run};
use sendoff_core::limits;
use sendoff_engine::journal::{
    AppendError, Basis, DecideError, Found, JournalStore, Locked, Mark, Page, Purpose, Receipt,
    TailSource,
};
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{Address, Open};
use tokio::time::timeout;

use super::append::{self, Whose, refused_gate};
use super::connections::Connections;
use super::facts;
use super::history::History;
use super::locked;
use super::memory::Memory;
use super::options::JournalOptions;
use super::prepares::Prepares;
use super::schema;
use super::search::{Manner, Rarest, counts, from_last, reading, searches};
use super::tail::MysqlTail;
use crate::connect::{Connector, Reached};
use crate::error::{code, failed, is_lost_race, number};
use crate::inspect::forgetful;
use crate::link::{Link, Session, Tries};
use crate::names::Names;
use crate::options::MysqlOptions;
use crate::rows;
use crate::sql::Sql;
use crate::store::MysqlStore;
use crate::values::Values;
use crate::wire::Literal;

/// A journal in a MySQL or MariaDB database. Cheap to clone.
///
/// It needs no outbox, and has tables and versions of its own. Its connections work at READ COMMITTED.
/// Every call is cancel-safe: a dropped future either never reached the server, or is carried out
/// whole, or is undone.
///
/// One server is written to: where several are, they do not know one another's locks, and it refuses
/// to work.
#[derive(Clone)]
pub struct MysqlJournal(Arc<Shared>);

struct Shared {
    connector: Arc<Connector>,
    /// For tails and nodes, each of which has a session of its own.
    lasting: Connector,
    options: JournalOptions,
    names: Names,
    sql: Sql,
    connections: Connections,
    /// Apart, so that whoever asks what is the matter does not wait behind it.
    upkeep: Link,
    memory: Memory,
    prepares: Prepares,
    /// What takes part in transactions of the application's: it has no connection.
    joins: OnceLock<MysqlStore>,
    open: Open,
}

impl MysqlJournal {
    /// Connects to the database that `url` names: `mysql://user:password@host:port/database`, or the
    /// same with `mariadb:`. [`migrate`](Self::migrate) installs the tables.
    ///
    /// # Errors
    ///
    /// As [`MysqlStore::connect`](crate::MysqlStore::connect).
    pub async fn connect(url: impl Into<Address>) -> Result<Self, StoreError> {
        Self::connect_with(url, JournalOptions::default()).await
    }

    /// Like [`connect_with`](Self::connect_with), for a server that need not be there yet: connects when
    /// something is asked for. Publishing looks at the tables as soon as they can be reached.
    ///
    /// # Errors
    ///
    /// As [`MysqlStore::connect_lazy`](crate::MysqlStore::connect_lazy).
    pub fn connect_lazy(url: &str, options: JournalOptions) -> Result<Self, StoreError> {
        options.check()?;
        Self::at(&url.into(), options)
    }

    /// Like [`connect`](Self::connect), with options.
    pub async fn connect_with(
        url: impl Into<Address>,
        options: JournalOptions,
    ) -> Result<Self, StoreError> {
        options.check()?;
        let at = Reached::ask(url.into(), options.server.connect_timeout).await?;
        let journal = Self::at(&at, options)?;
        let checked = timeout(journal.longest_wait(), schema::check(&journal)).await;
        checked.unwrap_or(Err(StoreError::Timeout)).map(|()| journal)
    }

    fn at(at: &Reached, options: JournalOptions) -> Result<Self, StoreError> {
        let server = MysqlOptions { lock_timeout: options.patience, ..options.server.clone() };
        let connector = Arc::new(Connector::silent(at, &server, limits::DECISION)?);
        let names = Names::new(Some(connector.database()), server.prefix.as_ref());
        Ok(Self(Arc::new(Shared {
            sql: Sql::load(&names),
            connections: Connections::new(&connector, options.connections, options.patience),
            upkeep: Link::new(Arc::clone(&connector)),
            lasting: Connector::lasting(at, &server)?,
            connector,
            options,
            prepares: Prepares::new(&names),
            names,
            memory: Memory::default(),
            joins: OnceLock::new(),
            open: Open::default(),
        })))
    }

    /// Closes the journal for all its clones. Every later call answers [`StoreError::Closed`].
    pub async fn close(&self) {
        self.0.open.close();
        self.0.connections.close().await;
        self.0.upkeep.close().await;
    }

    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        self.0.open.check()
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.0.connector
    }

    pub(super) fn lasting(&self) -> &Connector {
        &self.0.lasting
    }

    pub(super) fn names(&self) -> &Names {
        &self.0.names
    }

    pub(super) fn sql(&self) -> &Sql {
        &self.0.sql
    }

    pub(super) fn in_transactions(&self) -> &MysqlStore {
        let store = || {
            let (connector, options) = (&self.0.connector, self.0.options.server.clone());
            MysqlStore::by(Arc::clone(connector), Arc::clone(connector), options)
        };
        self.0.joins.get_or_init(store)
    }

    pub(super) fn upkeep(&self) -> &Link {
        &self.0.upkeep
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.0.connections
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.0.memory
    }

    pub(super) fn prepares(&self) -> &Prepares {
        &self.0.prepares
    }

    /// In seconds, as the servers count it.
    pub(super) fn patience(&self) -> Literal {
        let seconds = self.0.options.patience.as_secs();
        Literal::number(i64::try_from(seconds).unwrap_or(i64::MAX))
    }

    /// Has the session wait for locks only for as long as its user has patience left.
    async fn hurry(&self, session: &mut Session<'_>, left: Option<&Literal>) -> Result<(), Error> {
        let Some(left) = left else { return Ok(()) };
        let text = self.sql().journal.patience.with(&[("seconds", left)]);
        session.set(&text, self.sql().journal.patience_over.text()).await
    }

    /// The same for an append, and says in which run of the server it is, where that matters.
    async fn begin(
        &self,
        session: &mut Session<'_>,
        left: Option<&Literal>,
        append: &Append,
    ) -> Result<Option<Run>, Error> {
        self.hurry(session, left).await?;
        match append.condition() {
            Some(condition) if condition.run.is_some() => session.run().await,
            _ => Ok(None),
        }
    }

    /// What is one tag's, if it can be read at once.
    async fn read_history(
        &self,
        history: Option<&History<'_>>,
    ) -> Result<Option<Found>, StoreError> {
        let begun = history.and_then(|history| Some((history, history.begin()?)));
        let Some((history, begin)) = begun else { return Ok(None) };
        let text = |values: &mut Values| history.text(self.sql(), &begin, values);
        let lent = self.connections().lend(Purpose::Read, self.connections().patience()).await?;
        let mut tries = Tries::default();
        loop {
            let mut session = lent.link().session().await?;
            match self.prepares().rows(&mut session, true, text).await {
                Ok(rows) => {
                    let run = session.run().await.map_err(failed)?;
                    session.keep();
                    let found = history.found(&begin, rows)?;
                    return Ok(found.map(|found| Found { run, ..found }));
                }
                Err(error) => session.failed(error, &mut tries).await?,
            }
        }
    }

    /// A page by any text.
    async fn read_page(&self, text: &str, page: Page) -> Result<Found, StoreError> {
        let lent = self.connections().lend(Purpose::Read, self.connections().patience()).await?;
        let mut tries = Tries::default();
        loop {
            let mut session = lent.link().session().await?;
            match session.query(text).await {
                Ok(rows) => {
                    let run = session.run().await.map_err(failed)?;
                    session.keep();
                    return Ok(Found { run, ..facts::found(rows, page)? });
                }
                Err(error) => session.failed(error, &mut tries).await?,
            }
        }
    }

    /// Which tag of each item is the rarest, as far as a hundred of each tell.
    async fn rarest(&self, query: &Query, page: Page) -> Result<Rarest, StoreError> {
        let Some((tags, text)) = counts(self.sql(), query, page) else {
            return Ok(Rarest::default());
        };
        let mut least: Vec<(i64, usize)> = Vec::with_capacity(tags.len());
        for row in self.connections().query(Purpose::Read, text.as_str()).await? {
            let nth = usize::try_from(rows::integer(&row, 0)?).unwrap_or(usize::MAX);
            least.push((rows::integer(&row, 1)?, nth));
        }
        least.sort_unstable();
        let mut rarest = Rarest::default();
        for (_, nth) in least {
            if let Some((item, tag)) = tags.get(nth) {
                rarest.entry(*item).or_insert_with(|| tag.clone());
            }
        }
        Ok(rarest)
    }
}

#[async_trait]
impl JournalStore for MysqlJournal {
    fn longest_wait(&self) -> Duration {
        self.0.options.longest_wait()
    }

    async fn append(&self, facts: &Append) -> Result<Vec<Receipt>, AppendError> {
        self.check_open()?;
        let patience = self.connections().patience();
        let lent = self.connections().lend(Purpose::of(facts), patience).await;
        let lent = lent.map_err(no_place)?;
        let hurry = self.connections().hurry(patience);
        let (mut tries, mut doubt) = (Tries::default(), None);
        loop {
            let mut session = lent.link().session().await?;
            let run = match self.begin(&mut session, hurry.as_ref(), facts).await {
                Ok(run) => run,
                Err(error) => {
                    session.failed(error, &mut tries).await?;
                    continue;
                }
            };
            let answer = append::append(self, &mut session, Whose::Own(run), facts).await;
            match answer {
                // It is undone, and may be made again: what excluded it, with whom, is over.
                Err(AppendError::Busy(error)) if tries.again() && is_deadlock(&error) => {
                    session.keep();
                }
                // What was idle for long may have been ended. The same ids are there once.
                Err(AppendError::Store(StoreError::Unavailable(error)))
                    if session.is_stale() && tries.again() =>
                {
                    doubt = Some(error);
                }
                Err(AppendError::Store(StoreError::Unavailable(error))) => {
                    return Err(StoreError::Unavailable(error).into());
                }
                answer => {
                    session.keep();
                    return match (answer, doubt) {
                        // Nothing but a conflict says that the first time left nothing behind.
                        (Err(error), Some(doubt)) if !matches!(error, AppendError::Conflict(_)) => {
                            Err(StoreError::Unavailable(doubt).into())
                        }
                        (answer, _) => answer,
                    };
                }
            }
        }
    }

    async fn mark(&self, query: &Query) -> Result<Mark, DecideError> {
        self.check_open()?;
        let slots = append::slots(&Locks::of_decision(query), []);
        let text = |values: &mut Values| append::mark(self.sql(), &slots, values);
        let alike = slots.len() <= append::FEW;
        let patience = self.connections().patience();
        let lent = self.connections().lend(Purpose::Decide, patience).await;
        let lent = lent.map_err(undecided)?;
        let hurry = self.connections().hurry(patience);
        let mut tries = Tries::default();
        loop {
            let mut session = lent.link().session().await?;
            let begun = match self.hurry(&mut session, hurry.as_ref()).await {
                Ok(()) => session.run().await,
                Err(error) => Err(error),
            };
            let run = match begun {
                Ok(run) => run,
                Err(error) => {
                    session.failed(error, &mut tries).await?;
                    continue;
                }
            };
            let error = match self.prepares().rows(&mut session, alike, &text).await {
                Ok(rows) => {
                    session.keep();
                    let row = rows.first().ok_or_else(|| StoreError::Refused(Nothing.into()))?;
                    return Ok(Mark { position: facts::position(row, 0)?, run });
                }
                Err(error) => error,
            };
            match number(&error) {
                Some(code::LOCK_TIMEOUT) => {
                    undo(session).await;
                    return Err(DecideError::Busy(error.into()));
                }
                Some(code::OUT_OF_RANGE) => {
                    let why = session.query(self.sql().journal.why.text()).await.map_err(failed)?;
                    let increment = why.first().and_then(|row| rows::integer(row, 2).ok());
                    undo(session).await;
                    return Err(refused_gate(increment).into());
                }
                number => match session.failed(error, &mut tries).await {
                    Ok(()) => {}
                    Err(error) if number.is_some_and(is_lost_race) => {
                        return Err(DecideError::Busy(error.into()));
                    }
                    Err(error) => return Err(error.into()),
                },
            }
        }
    }

    async fn read(&self, query: &Query, page: Page) -> Result<Found, StoreError> {
        self.check_open()?;
        let page = Page { limit: page.limit.min(limits::BATCH_ROWS), ..page };
        let history = History::of(self.memory(), Basis { query, closing: None, page });
        if let Some(found) = self.read_history(history.as_ref()).await? {
            return Ok(found);
        }
        let rarest = self.rarest(query, page).await?;
        let found = searches(self.sql(), query, page, Manner::Looking, &rarest);
        self.read_page(&reading(self.sql(), &found, page), page).await
    }

    async fn read_from_last(&self, basis: Basis<'_>) -> Result<Found, StoreError> {
        let Basis { query, closing: Some(closing), page } = basis else {
            return self.read(basis.query, basis.page).await;
        };
        self.check_open()?;
        let page = Page { limit: page.limit.min(limits::BATCH_ROWS), ..page };
        let history = History::of(self.memory(), Basis { page, ..basis });
        if let Some(found) = self.read_history(history.as_ref()).await? {
            return Ok(found);
        }
        let rarest = self.rarest(query, page).await?;
        let Some(text) = from_last(self.sql(), query, closing, page, &rarest) else {
            return self.read(query, page).await;
        };
        let found = self.read_page(&text, page).await?;
        if let Some(history) = history {
            history.learn(&found);
        }
        Ok(found)
    }

    async fn lock(&self, basis: Basis<'_>) -> Result<Option<Locked<'_>>, DecideError> {
        self.check_open()?;
        locked::lock(self, basis).await.map(Some)
    }

    async fn head(&self) -> Result<Position, StoreError> {
        self.check_open()?;
        // Nodes ask for it with every round.
        let head = self.sql().journal.mark.text();
        let rows = self.connections().query(Purpose::Publish, head).await?;
        rows.first().map_or(Ok(Position::START), |row| facts::position(row, 0))
    }

    /// Whoever a tail waits for at this moment: the server says who waits, not who might be waited for.
    async fn holders(&self) -> Result<Vec<Holder>, StoreError> {
        self.check_open()?;
        let text = self.sql().journal.holders.with(&[
            ("database", &Literal::text(self.connector().database())),
            ("table", &Literal::text(&self.names().plain("journal_event"))),
            ("holes", &Literal::text(&self.names().plain("journal_hole"))),
            ("utc", &Literal::text("+00:00")),
        ]);
        let rows = self.upkeep().query(&text).await.map_err(|error| match error {
            StoreError::Rights { missing, .. } => StoreError::Rights {
                missing,
                remedy:
                    "who holds a tail back is told to users with PROCESS, on MySQL with SELECT on \
                         performance_schema as well"
                        .into(),
            },
            error => error,
        })?;
        let holder = |row| {
            // A transaction that is prepared has no session.
            let session = rows::integer(row, 1)?;
            Ok(Holder {
                id: HolderId::new(rows::name(row, 0)?),
                pid: i32::try_from(session).ok().filter(|session| *session > 0),
                gid: None,
                since: rows::time(row, 2).ok(),
                application: None,
            })
        };
        rows.iter().map(holder).collect()
    }

    async fn vitals(&self) -> Result<Vitals, StoreError> {
        self.check_open()?;
        let rows = self.upkeep().query(self.sql().journal.vitals.text()).await?;
        let row = rows.first().ok_or_else(|| StoreError::Refused(Nothing.into()))?;
        let level = rows::maybe(row, 1).map(|_| rows::name(row, 1)).transpose()?;
        let stricter = level.map(|level| StricterDefault { whose: "server".into(), level });
        let forgetful = forgetful(self.upkeep(), self.sql()).await?;
        let stricter = stricter.into_iter().collect();
        Ok(Vitals { now: rows::time(row, 0)?, stricter, forgetful })
    }

    async fn doing(&self, holder: &Holder) -> Result<Option<String>, StoreError> {
        self.check_open()?;
        let Some(session) = holder.pid else { return Ok(None) };
        let text = self.sql().journal.doing.with(&[("session", &Literal::number(session))]);
        let rows = self.upkeep().query(&text).await?;
        let said = rows.first().and_then(|row| rows::maybe(row, 0));
        Ok(said.map(|text| String::from_utf8_lossy(text).into_owned()))
    }

    async fn tail(&self) -> Result<Box<dyn TailSource>, StoreError> {
        self.check_open()?;
        Ok(Box::new(MysqlTail::open(self.clone()).await?))
    }
}

/// What it means that no connection was to be had.
fn no_place(error: StoreError) -> AppendError {
    if matches!(error, StoreError::Busy(_)) {
        AppendError::Busy(error.into())
    } else {
        error.into()
    }
}

/// The same for a decision.
pub(super) fn undecided(error: StoreError) -> DecideError {
    if matches!(error, StoreError::Busy(_)) {
        DecideError::Busy(error.into())
    } else {
        error.into()
    }
}

pub(super) async fn undo(mut session: Session<'_>) {
    // One that cannot be undone is closed, and the server undoes it.
    if session.query("rollback").await.is_ok() {
        session.keep();
    }
}

fn is_deadlock(error: &sendoff_core::BoxError) -> bool {
    let store = error.downcast_ref::<StoreError>();
    let Some(StoreError::Unavailable(source)) = store else { return false };
    source.downcast_ref().and_then(number) == Some(code::DEADLOCK)
}

/// A statement that always answers did not.
#[derive(Debug, thiserror::Error)]
#[error("a statement that always answers did not: the journal's tables were changed by hand")]
pub(super) struct Nothing;

impl fmt::Debug for MysqlJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL: it may hold a password.
        f.debug_struct("MysqlJournal").field("table", &self.table()).finish_non_exhaustive()
    }
}
