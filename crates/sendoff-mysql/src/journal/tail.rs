//! Looking at the journal's end, on a connection of one's own.
//!
//! Numbers are taken in one order and commit in another. At a number that is missing below one that is
//! there, this inserts a row of its own with that number, a *void*. If an open transaction has it, the
//! server makes the insert wait for that one and for nobody else. Then the number is there, or the void
//! is, and neither can change any more. Whatever is passed on has no gap.
//!
//! A run that is longer than one statement would fill is closed by one row that stands for all of it; see
//! [`hole`].
//!
//! What was let go left no gap either: how far that is, is asked after every reading, and rises in the
//! transaction that deletes. So a row that a reading did not find because it was gone is never filled.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join;
use mysql_async::{Conn, Error, Row};
use sendoff_core::Timestamp;
use sendoff_core::journal::{Ask, HolderId, Position, Sequence, Server};
use sendoff_engine::journal::{JournalStore, Page, TailLook, TailRow, TailSource, Undecided};
use sendoff_engine::store::StoreError;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::debug;

use super::facts;
use super::hole;
use super::store::MysqlJournal;
use crate::durable;
use crate::error::{code, failed, is_lost_race, misconfigured, number};
use crate::link::{Tries, last_rows, results};
use crate::rows;
use crate::wire::Literal;

/// How long an insert waits for whoever has the number before the look is over. The next one waits
/// again; whole seconds are what the servers count.
const WAIT_SECONDS: i64 = 1;
/// After so long it is worth asking who it is.
const ASK_WHO_AFTER: Duration = Duration::from_millis(500);
/// Voids that are made at once. A longer run is closed.
const VOIDS: usize = 1_000;
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
    page: Page,
}

impl MysqlTail {
    pub(super) async fn open(journal: MysqlJournal) -> Result<Self, StoreError> {
        let worker = Worker::open(journal.clone()).await?;
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
    async fn look(&mut self, ask: Ask, page: Page) -> Result<TailLook, StoreError> {
        self.journal.check_open()?;
        let asked = Asked { ask, page };
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
    /// Every number up to here is a row or was let go, as far as the database knows.
    floor: Position,
    /// From where to where this session knows that there is no gap. Looks may jump: pairs that lag share
    /// a session.
    gapless: Option<(Position, Position)>,
    /// Numbers that were missing when they were last looked for.
    missing: BTreeSet<u64>,
    /// The gap at which somebody is waited for.
    waits: Option<Gap>,
    start: Option<Start>,
}

/// On the way to where now is.
#[derive(Debug, Clone, Copy)]
struct Start {
    head: Position,
    at: Position,
}

/// How far a walk came.
struct Walked {
    /// No number is missing up to here.
    at: Position,
    /// What it could not decide.
    undecided: Option<Undecided>,
}

/// Decides the numbers up to a position, and notes in the database how far it came: up to the first that
/// somebody has for longer than this waits.
pub(super) async fn decide(journal: &MysqlJournal, up_to: Position) -> Result<(), StoreError> {
    let mut worker = Worker::open(journal.clone()).await?;
    let mut at = worker.floor;
    while at < up_to {
        let walked = worker.walk(Start { head: up_to, at }).await?;
        let stuck = walked.at == at || walked.undecided.is_some();
        at = walked.at;
        if stuck {
            break;
        }
    }
    worker.raise(worker.floor, at, 1).await?;
    // It is closed either way; this tells the server so.
    let _ = worker.conn.disconnect().await;
    Ok(())
}

/// What goes before a reading.
#[derive(Debug)]
enum Step {
    Nothing,
    /// These numbers are filled, the lowest first, up to the first that somebody has.
    FillFree(Vec<u64>),
    /// This one is filled, whoever has to be waited for.
    Fill(u64),
    /// This run is closed, if nobody has any of its numbers.
    Close(Gap),
}

impl Step {
    /// What to do where somebody has one of the numbers.
    fn held(&self) -> Self {
        match self {
            Self::FillFree(numbers) => numbers.first().map_or(Self::Nothing, |n| Self::Fill(*n)),
            Self::Close((first, last)) => {
                Self::FillFree((first.get()..=last.get()).take(VOIDS).collect())
            }
            Self::Nothing | Self::Fill(_) => Self::Nothing,
        }
    }
}

/// What came of a reading.
enum Reading {
    Results(Vec<Vec<Row>>),
    /// Somebody has one of the numbers that were to be filled, or the server ended it in favour of another
    /// transaction: this is to be tried next.
    Again(Step),
    /// Somebody had the number for too long.
    Waiting(Vec<HolderId>),
}

impl Worker {
    async fn open(journal: MysqlJournal) -> Result<Self, StoreError> {
        let mut conn = journal.lasting().open().await?;
        let settings = format!("set session innodb_lock_wait_timeout = {WAIT_SECONDS}");
        let floor = format!("{settings};\n{}", journal.sql().journal.floor.text());
        let floor = last_rows(&mut conn, &floor).await.map_err(failed)?;
        let floor = floor.first().map_or(Ok(Position::START), |row| facts::position(row, 0))?;
        let missing = BTreeSet::new();
        Ok(Self { journal, conn, floor, gapless: None, missing, waits: None, start: None })
    }

    async fn look(&mut self, asked: Asked) -> Result<TailLook, StoreError> {
        let look = match asked.ask {
            Ask::Rows => self.read(asked.page).await?,
            // Only a tail that begins now asks for them: this one leaves no gaps.
            Ask::HoldersThenRows => self.begin().await?,
        };
        // Where nothing can be written nothing is passed on.
        if !look.rows.is_empty() && !look.server.in_recovery {
            self.make_durable().await?;
        }
        Ok(look)
    }

    /// Whatever was read is there after a crash. In the same session: that it answers says that the
    /// server has not crashed since the reading.
    async fn make_durable(&mut self) -> Result<(), StoreError> {
        let mut tries = Tries::default();
        loop {
            let text = durable::journal(self.journal.sql());
            match last_rows(&mut self.conn, &text).await {
                Ok(_) => return Ok(()),
                // Another row will do.
                Err(error) if number(&error).is_some_and(is_lost_race) && tries.again() => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// The rows above a position, up to the first gap that cannot be decided at once.
    async fn read(&mut self, page: Page) -> Result<TailLook, StoreError> {
        let after = page.after;
        let (from, to) = match self.gapless {
            Some((from, to)) if from <= after && after <= to => (from, to),
            _ => (after, after),
        };
        let (mut at, mut step, mut last) = (after, Step::Nothing, None);
        // Where somebody is waited for, what lies after the gap is not read again and again until then.
        let mut alone = self.waits.take();
        alone = alone.filter(|(first, last)| *first == after.next() && *last < page.up_to);
        loop {
            let up_to = alone.map_or(page.up_to, |(_, last)| last);
            let reading = self.page(Page { after: at, up_to, ..page });
            let (state, found) = match self.step(&step, &reading).await? {
                Reading::Results(results) => split(results)?,
                Reading::Again(next) => {
                    step = next;
                    continue;
                }
                Reading::Waiting(waits_for) => {
                    let (state, gap): (State, _) = last.ok_or_else(over)?;
                    self.waits = Some(gap);
                    return Ok(state.look(
                        Vec::new(),
                        at,
                        false,
                        Some(Undecided { gap, waits_for }),
                    ));
                }
            };
            let (mut is_full, mut rows) = (found.len() >= page.limit, Vec::new());
            let mut gaps = Gaps::after(at, state.gone);
            for row in found {
                let position = facts::position(&row, 0)?;
                gaps.pass(position);
                if !facts::fits(&row)? {
                    is_full = true;
                } else if gaps.first.is_none() {
                    at = position;
                    if !facts::is_void(&row) {
                        rows.push(TailRow { position, recorded: facts::recorded(row) });
                    }
                }
            }
            if let Some((_, last)) = alone.filter(|_| !is_full) {
                // It is there, as it was when the gap was found.
                gaps.pass(last.next());
                if gaps.first.is_none() {
                    alone = None;
                    (at, is_full) = (at.max(last), true);
                }
            }
            if !is_full || gaps.first.is_some() {
                // Whatever was there up to where facts were let go was on this page.
                at = at.max(state.gone);
            }
            let Some(gap) = gaps.first else {
                self.missing.clear();
                if is_full && rows.is_empty() {
                    // Nothing but voids.
                    step = Step::Nothing;
                    continue;
                }
                self.gapless = Some((from, to.max(at)));
                self.raise(from, at, STRIDE as u64).await?;
                return Ok(state.look(rows, at, !is_full, None));
            };
            if rows.is_empty()
                && let Some(end) = self.closed(gap).await?
            {
                (at, step) = (end, Step::Nothing);
                continue;
            }
            let again = gaps.missing_again(&mut self.missing);
            // What can be passed on does not wait; and many gaps are gone with one more look, because
            // somebody was about to insert or to commit.
            if !rows.is_empty() || again.first() != Some(&gap.0.get()) {
                self.gapless = Some((from, to.max(at)));
                let undecided = Some(Undecided { gap, waits_for: Vec::new() });
                return Ok(state.look(rows, at, false, undecided));
            }
            check_gap(gap, &step)?;
            (step, last) = (self.decides(gap, again).await?, Some((state, gap)));
        }
    }

    /// Makes sure that no number is missing up to where the journal ended at the first of these looks.
    async fn begin(&mut self) -> Result<TailLook, StoreError> {
        let text = self.journal.sql().journal.state.text().to_owned();
        let state = match self.step(&Step::Nothing, &text).await? {
            Reading::Results(results) => split(results)?.0,
            _ => return Err(over()),
        };
        let start = *self.start.get_or_insert(Start { head: state.head, at: self.floor });
        let Walked { at, undecided } = self.walk(start).await?;
        self.start = Some(Start { at, ..start });
        if at < start.head {
            return Ok(state.look(Vec::new(), Position::START, false, undecided));
        }
        self.gapless = Some((self.floor, at));
        self.raise(self.floor, at, STRIDE as u64).await?;
        Ok(state.look(Vec::new(), start.head, false, None))
    }

    /// On to a position, filling what is missing on the way; not farther than one look may take.
    async fn walk(&mut self, Start { head, mut at }: Start) -> Result<Walked, StoreError> {
        let (mut step, mut last) = (Step::Nothing, None);
        for _ in 0..STRIDES {
            if at >= head {
                break;
            }
            let sql = self.journal.sql();
            let walk = sql
                .journal
                .walk
                .with(&[("after", &Literal::position(at)), ("limit", &Literal::count(STRIDE))]);
            let walk = format!("{walk};\n{}", sql.journal.state.text());
            let (state, rows) = match self.step(&step, &walk).await? {
                Reading::Results(results) => split(results)?,
                Reading::Again(next) => {
                    step = next;
                    continue;
                }
                Reading::Waiting(waits_for) => {
                    let undecided = last.map(|gap| Undecided { gap, waits_for });
                    return Ok(Walked { at, undecided });
                }
            };
            let (is_full, mut gaps) = (rows.len() >= STRIDE, Gaps::after(at, state.gone));
            for row in rows {
                let position = facts::position(&row, 0)?;
                gaps.pass(position);
                if gaps.first.is_none() {
                    at = position;
                }
            }
            if !is_full || gaps.first.is_some() {
                at = at.max(state.gone);
            }
            let first = gaps.first.filter(|(first, _)| *first <= head);
            if let Some(gap) = first
                && let Some(end) = self.closed(gap).await?
            {
                (at, step) = (end, Step::Nothing);
                continue;
            }
            let again = gaps.missing_again(&mut self.missing);
            step = match first {
                Some(gap) if again.first() == Some(&gap.0.get()) => {
                    check_gap(gap, &step)?;
                    last = Some(gap);
                    self.decides(gap, again).await?
                }
                _ => Step::Nothing,
            };
        }
        Ok(Walked { at, undecided: None })
    }

    /// Up to where a gap was closed before; none where it was not, or is too short for that.
    async fn closed(&mut self, gap: Gap) -> Result<Option<Position>, StoreError> {
        if !may_be_closed(gap) {
            return Ok(None);
        }
        hole::end(&mut self.conn, self.journal.sql(), gap).await
    }

    /// How a gap that was missing at one more look is decided: these numbers of it are filled, or as
    /// much of it is closed as nobody has.
    async fn decides(&mut self, gap: Gap, missing: Vec<u64>) -> Result<Step, StoreError> {
        if is_short(gap) {
            return Ok(Step::FillFree(missing));
        }
        let free = hole::free(&mut self.conn, self.journal.sql(), gap).await?;
        Ok(match free {
            Some(free) if !is_short(free) => Step::Close(free),
            _ => Step::FillFree(missing),
        })
    }

    /// Asks for rows above a position, and then for what is so of the server.
    fn page(&self, page: Page) -> String {
        let sql = self.journal.sql();
        let rows = sql.journal.tail.with(&[
            ("after", &Literal::position(page.after)),
            ("up_to", &Literal::position(page.up_to)),
            ("limit", &Literal::count(page.limit)),
            ("bytes", &Literal::count(page.bytes)),
        ]);
        format!("{rows};\n{}", sql.journal.state.text())
    }

    /// Takes a step and reads, in one text.
    async fn step(&mut self, step: &Step, reading: &str) -> Result<Reading, StoreError> {
        if let Step::Close(run) = step {
            let (begun, holders) = self.patiently(&hole::open(self.journal.sql(), *run)).await;
            match begun.as_ref().err().and_then(number) {
                Some(code::LOCK_TIMEOUT) => return self.undo(Reading::Waiting(holders)).await,
                Some(code::DEADLOCK) => return self.undo(Reading::Again(Step::Nothing)).await,
                _ => begun.map_err(failed)?,
            };
        }
        let text = self.before(step) + reading;
        let (done, holders) = match step {
            Step::Fill(_) => self.patiently(&text).await,
            _ => (results(&mut self.conn, &text).await, Vec::new()),
        };
        match (step, done.as_ref().err().and_then(number)) {
            (Step::FillFree(_), Some(code::LOCK_TIMEOUT | code::NOWAIT)) => {
                Ok(Reading::Again(step.held()))
            }
            // What says that the run is closed must not be committed by whatever begins next.
            (Step::Close(_), Some(code::LOCK_TIMEOUT | code::NOWAIT)) => {
                self.undo(Reading::Again(step.held())).await
            }
            (Step::Fill(position), Some(code::LOCK_TIMEOUT)) => {
                debug!(position, ?holders, "the tail waits for an open append");
                Ok(Reading::Waiting(holders))
            }
            // Against another tail, or an append that wanted one of the numbers.
            (Step::FillFree(_) | Step::Fill(_), Some(code::DEADLOCK)) => {
                Ok(Reading::Again(Step::Nothing))
            }
            // Or a number is not missing any more.
            (Step::Close(_), Some(code::DEADLOCK | code::MORE_THAN_ONE_ROW)) => {
                self.undo(Reading::Again(Step::Nothing)).await
            }
            _ => done.map(Reading::Results).map_err(failed),
        }
    }

    /// Runs a text that may wait, and says who for.
    async fn patiently(&mut self, text: &str) -> (Result<Vec<Vec<Row>>, Error>, Vec<HolderId>) {
        let mut doing = std::pin::pin!(results(&mut self.conn, text));
        tokio::select! {
            biased;
            done = &mut doing => (done, Vec::new()),
            () = sleep(ASK_WHO_AFTER) => {
                let (done, asked) = join(doing, self.journal.holders()).await;
                let holders = asked.unwrap_or_else(|error| {
                    debug!(%error, "nobody says who holds the tail back");
                    Vec::new()
                });
                (done, holders.into_iter().map(|holder| holder.id).collect())
            }
        }
    }

    async fn undo(&mut self, reading: Reading) -> Result<Reading, StoreError> {
        last_rows(&mut self.conn, "rollback").await.map_err(failed)?;
        Ok(reading)
    }

    /// Numbers that are free are filled together: nobody is waited for, so nothing that is held
    /// meanwhile can be in anybody's way. A number that somebody has is filled alone, for the same
    /// reason, and what was filled before it is committed first.
    fn before(&self, step: &Step) -> String {
        let sql = self.journal.sql();
        let void = |numbers: &[u64]| {
            sql.journal.void.with(&[("rows", &Literal::voids(numbers.iter().copied()))])
        };
        match step {
            Step::Nothing => String::new(),
            Step::Fill(number) => format!("commit;\n{};\n", void(&[*number])),
            Step::Close(run) => format!("{};\n", hole::close(sql, *run)),
            Step::FillFree(numbers) => {
                let mut text = "start transaction;\n".to_owned();
                for run in numbers.chunk_by(|a, b| a + 1 == *b) {
                    let (first, last) = (run[0], run[run.len() - 1]);
                    let (first, last) = (Literal::numbers([first]), Literal::numbers([last]));
                    let free = sql.journal.free.with(&[("first", &first), ("last", &last)]);
                    text.push_str(&format!("{free};\n{};\n", void(run)));
                }
                text + "commit;\n"
            }
        }
    }

    /// Tells the database how far there is no gap, if this tail knows it from the floor on and it is as
    /// far as `least`.
    async fn raise(
        &mut self,
        from: Position,
        up_to: Position,
        least: u64,
    ) -> Result<(), StoreError> {
        if from > self.floor || up_to.since(self.floor) < least {
            return Ok(());
        }
        let position = Literal::position(up_to);
        let text = self.journal.sql().journal.floor_up.with(&[("position", &position)]);
        match last_rows(&mut self.conn, &text).await {
            Ok(_) => self.floor = up_to,
            // Another tail is about to; the next time will do.
            Err(error) if number(&error).is_some_and(is_lost_race) => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }
}

/// The first and the last of a run of numbers that are missing.
pub(super) type Gap = (Position, Position);

/// What is missing between positions that are there.
struct Gaps {
    at: Position,
    /// Up to here nothing is a gap: it was let go.
    gone: Position,
    /// The lowest.
    first: Option<Gap>,
    /// Single numbers, the lowest first, as many as are filled at once.
    missing: Vec<u64>,
}

impl Gaps {
    fn after(at: Position, gone: Position) -> Self {
        Self { at, gone, first: None, missing: Vec::new() }
    }

    /// The next position that is there.
    fn pass(&mut self, position: Position) {
        let missing = self.at.max(self.gone).next();
        if position > missing {
            let last = Position::new(position.get() - 1).unwrap_or(Position::END);
            self.first.get_or_insert((missing, last));
            let room = VOIDS - self.missing.len();
            self.missing.extend((missing.get()..position.get()).take(room));
        }
        self.at = position;
    }

    /// Those that were missing the last time too.
    fn missing_again(self, seen: &mut BTreeSet<u64>) -> Vec<u64> {
        let again = self.missing.iter().copied().filter(|number| seen.contains(number)).collect();
        *seen = self.missing.into_iter().collect();
        again
    }
}

/// Whether it is filled rather than closed.
fn is_short((first, last): Gap) -> bool {
    last.since(first) < VOIDS as u64
}

/// Whether closing a gap may have left this one: all of it but its last number, which becomes a void.
fn may_be_closed((first, last): Gap) -> bool {
    last.since(first) + 1 >= VOIDS as u64
}

/// Whether a gap was not just decided in vain.
fn check_gap(gap: Gap, step: &Step) -> Result<(), StoreError> {
    let filled = match step {
        Step::Nothing => None,
        Step::FillFree(numbers) => numbers.first().copied(),
        Step::Fill(number) => Some(*number),
        Step::Close((first, _)) => Some(first.get()),
    };
    if filled == Some(gap.0.get()) {
        return Err(misconfigured(format!(
            "position {} cannot be made a void: the table journal_event was changed by hand",
            gap.0
        )));
    }
    Ok(())
}

/// The state, and the rows that were read before it.
fn split(mut results: Vec<Vec<Row>>) -> Result<(State, Vec<Row>), StoreError> {
    let state = results.pop().unwrap_or_default();
    let rows = results.pop().unwrap_or_default();
    Ok((State::of(state.first())?, rows))
}

/// What `journal_state` says.
#[derive(Debug, Clone, Copy)]
struct State {
    server: Server,
    sequence: Sequence,
    head: Position,
    /// Up to here facts were let go.
    gone: Position,
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
            gone: facts::position(row, 3)?,
        })
    }

    fn look(
        self,
        rows: Vec<TailRow>,
        proved: Position,
        complete: bool,
        undecided: Option<Undecided>,
    ) -> TailLook {
        let Self { server, sequence, head, .. } = self;
        TailLook { server, sequence, head, holders: None, proved, undecided, rows, complete }
    }
}
