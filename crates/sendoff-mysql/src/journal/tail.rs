//! Looking at the journal's end, on a connection of one's own.
//!
//! Numbers are taken in one order and commit in another. At a number that is missing below one that is
//! there, this inserts a row of its own with that number, a *void*. If an open transaction has it, the
//! server makes the insert wait for that one and for nobody else. Then the number is there, or the void
//! is, and neither can change any more. Whatever is passed on has no gap.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join;
use mysql_async::{Conn, Row};
use sendoff_core::Timestamp;
use sendoff_core::journal::{Ask, Holder, Position, Sequence, Server};
use sendoff_engine::journal::{JournalStore, TailLook, TailRow, TailSource, Undecided};
use sendoff_engine::store::StoreError;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::debug;

use super::facts;
use super::store::MysqlJournal;
use crate::error::{code, failed, misconfigured, number};
use crate::link::{last_rows, results};
use crate::rows;
use crate::wire::Literal;

/// How long an insert waits for whoever has the number before the look is over. The next one waits
/// again; whole seconds are what the servers count.
const WAIT_SECONDS: i64 = 1;
/// After so long it is worth asking who it is.
const ASK_WHO_AFTER: Duration = Duration::from_millis(500);
/// The longest run of missing numbers that is filled. Appends leave none that is nearly as long.
const LONGEST_RUN: u64 = 100_000;
/// Voids in one statement.
const VOIDS: u64 = 1_000;
/// Numbers that are looked at in one statement on the way to where now is.
const STRIDE: usize = 10_000;
/// Statements on that way in one look.
const STRIDES: usize = 20;

/// One connection, until it is lost: whoever has a tail must not be given another server unawares.
///
/// Each look runs on a task of its own, because it may wait: whoever drops the future takes its answer
/// the next time.
pub(super) struct MysqlTail {
    journal: MysqlJournal,
    /// None while a look is under way, and after one that failed.
    idle: Option<Worker>,
    running: Option<(Asked, Running)>,
}

type Running = JoinHandle<(Worker, Result<TailLook, StoreError>)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    ask: Ask,
    after: Position,
    limit: usize,
}

impl MysqlTail {
    pub(super) async fn open(journal: MysqlJournal) -> Result<Self, StoreError> {
        let mut conn = journal.connector().open().await?;
        let settings = format!("set session innodb_lock_wait_timeout = {WAIT_SECONDS}");
        let floor = format!("{settings};\n{}", journal.sql().journal_floor.text());
        let floor = last_rows(&mut conn, &floor).await.map_err(failed)?;
        let floor = floor.first().map_or(Ok(Position::START), |row| facts::position(row, 0))?;
        let worker = Worker {
            journal: journal.clone(),
            conn,
            floor,
            gapless: None,
            missing: None,
            start: None,
        };
        Ok(Self { journal, idle: Some(worker), running: None })
    }

    /// The answer of the look under way, and the worker back.
    async fn finish(&mut self) -> Option<(Asked, Result<TailLook, StoreError>)> {
        let (asked, task) = self.running.as_mut()?;
        let (asked, done) = (*asked, task.await);
        self.running = None;
        let (worker, look) = match done {
            Ok(done) => done,
            Err(error) => return Some((asked, Err(StoreError::Unavailable(error.into())))),
        };
        // After an error nobody knows what the connection is about.
        self.idle = look.is_ok().then_some(worker);
        Some((asked, look))
    }
}

#[async_trait]
impl TailSource for MysqlTail {
    async fn look(
        &mut self,
        ask: Ask,
        after: Position,
        limit: usize,
    ) -> Result<TailLook, StoreError> {
        self.journal.check_open()?;
        let asked = Asked { ask, after, limit };
        // Of a look that nobody waited for. What it decided stays decided.
        match self.finish().await {
            Some((earlier, look)) if earlier == asked => return look,
            Some((_, Err(error))) => return Err(error),
            _ => {}
        }
        let mut worker = self.idle.take().ok_or_else(over)?;
        let task = tokio::spawn(async move {
            let look = worker.look(asked).await;
            (worker, look)
        });
        self.running = Some((asked, task));
        self.finish().await.map_or_else(|| Err(over()), |(_, look)| look)
    }
}

fn over() -> StoreError {
    StoreError::Unavailable("this tail is over: open another from the stored position".into())
}

/// The connection, and what is known from one look to the next.
struct Worker {
    journal: MysqlJournal,
    conn: Conn,
    /// Every number up to here is a row, as far as the database knows.
    floor: Position,
    /// Up to where this tail knows the same, if it began below the floor.
    gapless: Option<Position>,
    /// The first number that was missing when the last look ended.
    missing: Option<Position>,
    start: Option<Start>,
}

/// On the way to where now is.
#[derive(Debug, Clone, Copy)]
struct Start {
    head: Position,
    at: Position,
}

/// The first and the last of a run of numbers that are missing.
type Gap = (Position, Position);

/// What came of an attempt to fill a gap.
enum Filled {
    /// It has to be read again.
    Read,
    Waiting(Vec<Holder>),
}

impl Worker {
    async fn look(&mut self, asked: Asked) -> Result<TailLook, StoreError> {
        match asked.ask {
            Ask::Rows => self.read(asked.after, asked.limit).await,
            // Only a tail that begins now asks for them: this one leaves no gaps.
            Ask::HoldersThenRows => self.begin().await,
        }
    }

    /// The rows above a position, up to the first gap that cannot be filled at once.
    async fn read(&mut self, after: Position, limit: usize) -> Result<TailLook, StoreError> {
        let gapless = *self.gapless.get_or_insert(after);
        let (mut at, mut facts, mut run) = (after, Vec::new(), None);
        loop {
            let (state, page) = self.page(at, limit).await?;
            let is_full = page.len() >= limit;
            let mut gap = None;
            for row in page {
                let position = facts::position(&row, 0)?;
                if position > at.next() {
                    gap = Some((at.next(), before(position)));
                    break;
                }
                at = position;
                if !facts::is_void(&row) {
                    facts.push(TailRow { position, recorded: facts::recorded(row) });
                }
            }
            let Some(gap) = gap else {
                if is_full && facts.is_empty() {
                    // Nothing but voids.
                    continue;
                }
                self.missing = None;
                self.raise(gapless, at).await?;
                return Ok(state.look(facts, at, !is_full, None));
            };
            let undecided = |waits_for| Some(Undecided { gap, waits_for });
            // Most gaps are gone with one more look: somebody was about to insert or to commit.
            if self.missing.replace(gap.0) != Some(gap.0) || !facts.is_empty() {
                return Ok(state.look(facts, at, false, undecided(Vec::new())));
            }
            if let Filled::Waiting(holders) = self.fill(gap, &mut run).await? {
                let holders = holders.into_iter().map(|holder| holder.id).collect();
                return Ok(state.look(facts, at, false, undecided(holders)));
            }
            // It is another one if the number is missing still.
            self.missing = Some(gap.0);
        }
    }

    /// Makes sure that no number is missing up to where the journal ended at the first of these looks.
    async fn begin(&mut self) -> Result<TailLook, StoreError> {
        let (state, _) = self.page(Position::END, 1).await?;
        let Start { head, mut at } =
            *self.start.get_or_insert(Start { head: state.head, at: self.floor });
        let mut run = None;
        for _ in 0..STRIDES {
            if at >= head {
                break;
            }
            let walk = self
                .journal
                .sql()
                .journal_walk
                .with(&[("after", &Literal::position(at)), ("limit", &Literal::count(STRIDE))]);
            let mut gap = None;
            for row in last_rows(&mut self.conn, &walk).await.map_err(failed)? {
                let position = facts::position(&row, 0)?;
                if position > at.next() {
                    gap = Some((at.next(), before(position)));
                    break;
                }
                at = position;
            }
            self.start = Some(Start { head, at });
            let Some(gap) = gap.filter(|(first, _)| *first <= head) else { continue };
            if self.missing.replace(gap.0) != Some(gap.0) {
                continue;
            }
            if let Filled::Waiting(holders) = self.fill(gap, &mut run).await? {
                let waits_for = holders.into_iter().map(|holder| holder.id).collect();
                let undecided = Some(Undecided { gap, waits_for });
                return Ok(state.look(Vec::new(), Position::START, false, undecided));
            }
        }
        if at < head {
            return Ok(state.look(Vec::new(), Position::START, false, None));
        }
        self.raise(self.floor, at).await?;
        self.gapless = Some(at);
        Ok(state.look(Vec::new(), head, false, None))
    }

    /// What is so of the server, and rows above a position.
    async fn page(&mut self, at: Position, limit: usize) -> Result<(State, Vec<Row>), StoreError> {
        let sql = self.journal.sql();
        let rows = sql
            .journal_tail
            .with(&[("after", &Literal::position(at)), ("limit", &Literal::count(limit))]);
        let text = format!("{};\n{rows}", sql.journal_state.text());
        let mut results = results(&mut self.conn, &text).await.map_err(failed)?;
        let page = results.pop().unwrap_or_default();
        let state = results.pop().unwrap_or_default();
        Ok((State::of(state.first())?, page))
    }

    /// Fills the lowest number of a run alone: whoever has it may have others of them too, and when it
    /// is decided those can be read. What is left of the run then is filled at once.
    async fn fill(&mut self, gap: Gap, run: &mut Option<Position>) -> Result<Filled, StoreError> {
        let (first, last) = gap;
        if last.since(first) >= LONGEST_RUN {
            return Err(too_long(gap));
        }
        let count = match run {
            Some(end) if first <= *end => (last.since(first) + 1).min(VOIDS),
            _ => 1,
        };
        *run = Some(last);
        let numbers = first.get()..first.get() + count;
        let text = self.journal.sql().journal_void.with(&[("rows", &Literal::voids(numbers))]);
        let mut holders = Vec::new();
        let filled = {
            let mut filling = std::pin::pin!(last_rows(&mut self.conn, &text));
            tokio::select! {
                biased;
                filled = &mut filling => filled,
                () = sleep(ASK_WHO_AFTER) => {
                    let (filled, asked) = join(filling, self.journal.holders()).await;
                    match asked {
                        Ok(found) => holders = found,
                        Err(error) => debug!(%error, "nobody says who holds the tail back"),
                    }
                    filled
                }
            }
        };
        match filled.as_ref().err().and_then(number) {
            Some(code::LOCK_TIMEOUT) => {
                debug!(position = %first, ?holders, "the tail waits for an open append");
                Ok(Filled::Waiting(holders))
            }
            // Against another tail, or an append that wanted one of the numbers.
            Some(code::DEADLOCK) => Ok(Filled::Read),
            _ => filled.map(|_| Filled::Read).map_err(failed),
        }
    }

    /// Tells the database how far there is no gap, now and then, if this tail knows it from the floor on.
    async fn raise(&mut self, from: Position, up_to: Position) -> Result<(), StoreError> {
        if from > self.floor || up_to.since(self.floor) < STRIDE as u64 {
            return Ok(());
        }
        let position = Literal::position(up_to);
        let text = self.journal.sql().journal_floor_up.with(&[("position", &position)]);
        match last_rows(&mut self.conn, &text).await {
            Ok(_) => self.floor = up_to,
            // Another tail is about to; the next time will do.
            Err(error) if number(&error).is_some_and(crate::error::is_lost_race) => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }
}

fn before(position: Position) -> Position {
    Position::new(position.get().saturating_sub(1)).unwrap_or(Position::START)
}

fn too_long((first, last): Gap) -> StoreError {
    misconfigured(format!(
        "positions {first} to {last} are missing, more than {LONGEST_RUN} in a row, as when somebody set \
         AUTO_INCREMENT: where nothing is missed put whoever reads behind them, a tail by opening it \
         from {last}, a publisher by `update journal_cursor set last_position = {last} …`, and those who \
         begin from now on by `update journal_floor set position = {last}`"
    ))
}

/// What `journal_state` says.
struct State {
    server: Server,
    sequence: Sequence,
    head: Position,
}

impl State {
    fn of(row: Option<&Row>) -> Result<Self, StoreError> {
        let row =
            row.ok_or_else(|| StoreError::Refused("the server did not say how it is".into()))?;
        let read_only = rows::name(row, 1)?;
        Ok(Self {
            // The connection's own server, which cannot be started again under it.
            server: Server {
                started_at: Timestamp::from_micros(0),
                in_recovery: !matches!(&*read_only, "0" | "OFF"),
            },
            sequence: Sequence { increment: rows::integer(row, 0)?, ..Sequence::ONE_BY_ONE },
            head: facts::position(row, 2)?,
        })
    }

    fn look(
        self,
        rows: Vec<TailRow>,
        proved: Position,
        complete: bool,
        undecided: Option<Undecided>,
    ) -> TailLook {
        let Self { server, sequence, head } = self;
        TailLook { server, sequence, head, holders: None, proved, undecided, rows, complete }
    }
}
