//! An append, over whichever driver carries it.

use std::future::Future;

use mysql_async::{Error, Row};
use sendoff_core::Timestamp;
use sendoff_core::journal::{Append, Condition, Locks, Mode, Position, Run, Slot};
use sendoff_engine::journal::{AppendError, Conflict, Receipt};
use sendoff_engine::store::StoreError;

use super::draft::Draft;
use super::facts::to_position;
use super::prepares::Line;
use super::search::{first, is_common};
use super::store::MysqlJournal;
use crate::error::{code, is_lost_race, misconfigured};
use crate::run::RUN;
use crate::sql::Sql;
use crate::values::Values;
use crate::wire::Literal;

/// Rows of `journal_anchor`.
const ANCHORS: u16 = 4_096;
/// What whoever has the whole journal alone has locked; see [`Locks::slots`].
const ALONE: Slot = Slot { number: 0, mode: Mode::Exclusive };
/// So many are locked each by itself: that is less work than one search for all of them.
pub(super) const FEW: usize = 8;
/// How often an insert is made whose numbers somebody has filled meanwhile. Each time takes new ones.
const TRIES: u32 = 16;

/// Rows of numbers, some of which may be NULL.
pub(super) type Numbers = Vec<Vec<Option<i64>>>;

/// Why a driver could not do what it was asked.
pub(super) struct Failure {
    /// The server's number, where it was the server that refused.
    pub(super) number: Option<u16>,
    pub(super) error: StoreError,
}

/// What an append needs of a driver's connection.
pub(super) trait Carrier: Send {
    /// Runs texts of ours that answer nothing.
    fn run(&mut self, text: String) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Runs one statement of ours that answers with numbers.
    fn ask(&mut self, text: String) -> impl Future<Output = Result<Numbers, Failure>> + Send;

    /// Inserts facts; see [`Insert`].
    fn insert(
        &mut self,
        insert: Insert<'_>,
    ) -> impl Future<Output = Result<Numbers, Failure>> + Send;
}

/// Facts to be inserted, and the texts around them. What comes first fails where they must not be.
pub(super) struct Insert<'a> {
    pub(super) draft: &'a Draft<'a>,
    /// One statement, which answers.
    pub(super) answer: &'a str,
    appending: &'a Appending<'a>,
    is_first: bool,
    is_last: bool,
}

impl Insert<'_> {
    /// Runs all of it, by a driver that keeps what it sends to itself.
    pub(super) async fn carry(&self, line: &mut impl Line) -> Result<Vec<Row>, Error> {
        let prepares = self.appending.journal.prepares();
        prepares.rows(line, self.appending.is_common(), |values| self.text(values)).await
    }

    fn text(&self, values: &mut Values) -> String {
        let (before, insert) = (self.before(values), self.draft.text(self.sql(), values));
        let text = format!("{before}{insert};\n{}{}", self.after(values), self.answer);
        if self.appending.whose == Whose::Callers { text } else { block(self.sql(), text) }
    }

    /// Runs what stands before the insert, for a driver to which the values of facts are parameters. Answers
    /// what stands after it.
    #[cfg(any(feature = "sea-orm", feature = "_sqlx"))]
    pub(super) async fn lead_in(&self, driver: &mut impl Carrier) -> Result<String, Failure> {
        let inside = &mut Values::inside();
        let (before, after) = (self.before(inside), self.after(inside));
        if !before.is_empty() {
            driver.run(before).await?;
        }
        Ok(after)
    }

    /// Everything that must be so before the first insert.
    fn before(&self, values: &mut Values) -> String {
        if self.is_first { self.appending.opening(values) } else { String::new() }
    }

    /// What stands between the insert itself and the answer.
    fn after(&self, values: &mut Values) -> String {
        let (appending, sql) = (self.appending, self.sql());
        let mut text = format!("{};\n", appending.first(self.draft));
        if let Some(tags) = self.draft.tags(sql, values) {
            text.push_str(&tags);
            text.push_str(";\n");
        }
        if self.is_last {
            text.push_str(&appending.whose.end(sql));
        }
        text
    }

    pub(super) fn sql(&self) -> &Sql {
        self.appending.sql
    }
}

/// Whose the transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose<'a> {
    /// Its own: it begins and commits, in a session of this run of the server.
    Own(Option<Run>),
    /// The caller's: a savepoint is where it begins.
    Callers,
    /// A decision's, which has these locks: it commits, and never begins again by itself.
    Decisions(Held<'a>),
}

/// What a decision has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held<'a> {
    pub(super) slots: &'a [Slot],
    /// Whether `awake` is to be undone.
    pub(super) awake: bool,
}

impl Whose<'_> {
    fn undo(self, sql: &Sql) -> String {
        match self {
            Self::Own(_) | Self::Decisions(_) => "rollback".into(),
            Self::Callers => {
                let over = sql.journal.patience_over.text();
                format!("{over};\nrollback to savepoint sendoff_append")
            }
        }
    }

    /// After the last insert.
    fn end(self, sql: &Sql) -> String {
        match self {
            Self::Decisions(held) if held.awake => {
                format!("commit;\n{};\n", sql.journal.asleep.text())
            }
            Self::Own(_) | Self::Decisions(_) => "commit;\n".into(),
            Self::Callers => format!("{};\n", sql.journal.patience_over.text()),
        }
    }

    /// The locks of an append that it does not have.
    pub(super) fn lacks(self, append: &Append) -> Vec<Slot> {
        let mut slots = slots(&append.locks(), []);
        if let Self::Decisions(held) = self {
            let covers = |held: &Slot, slot: &Slot| {
                // Whoever has the journal alone has everything.
                *held == ALONE || held.number == slot.number && held.mode >= slot.mode
            };
            slots.retain(|slot| !held.slots.iter().any(|held| covers(held, slot)));
        }
        slots
    }
}

/// Appends, all or none. Where it fails, what it did is undone, except for locks.
pub(super) async fn append(
    journal: &MysqlJournal,
    carrier: &mut impl Carrier,
    whose: Whose<'_>,
    append: &Append,
) -> Result<Vec<Receipt>, AppendError> {
    let drafts = Draft::all(append)?;
    let sql = journal.sql();
    let mut appending = Appending { journal, sql, whose, append, drafts: &drafts, again: false };
    for _ in 0..TRIES {
        let stop = match appending.insert_all(carrier).await {
            Ok(receipts) => return Ok(receipts),
            // There was no transaction to undo anything in.
            Err(Stop::NoTransaction) => return Err(AppendError::NoTransaction),
            Err(stop) => stop,
        };
        let why = match &stop {
            Stop::Gate => carrier.ask(appending.sql.journal.why.text().into()).await,
            _ => Ok(Vec::new()),
        };
        // Fails only where the transaction is gone, and what was done with it.
        let undone = carrier.run(whose.undo(appending.sql)).await;
        if matches!(&why, Ok(why) if is_closed_run(why)) {
            // It is made again whole, its check too, and takes other numbers.
            undone.map_err(refused)?;
            if matches!(whose, Whose::Decisions(_)) {
                return Err(AppendError::Busy(too_often().into()));
            }
            appending.again = true;
        } else {
            return appending.answer(carrier, stop, why).await;
        }
    }
    Err(too_often().into())
}

/// The gate was passed, so it was the numbers that were refused: a tail has closed the run they are in.
fn is_closed_run(why: &Numbers) -> bool {
    why.first().is_some_and(|row| row.get(4) == Some(&Some(1)))
}

fn too_often() -> StoreError {
    StoreError::Unavailable("the numbers of an append were taken too often".into())
}

/// Why an append went no further.
enum Stop {
    NoTransaction,
    /// A gate was closed, or one of the numbers was.
    Gate,
    /// Facts with some of these ids are there.
    Known,
    Failed(Failure),
}

struct Appending<'a> {
    journal: &'a MysqlJournal,
    sql: &'a Sql,
    whose: Whose<'a>,
    append: &'a Append,
    drafts: &'a [Draft<'a>],
    /// Whether its numbers were closed before, or seemed to be.
    again: bool,
}

impl Appending<'_> {
    async fn insert_all(&self, carrier: &mut impl Carrier) -> Result<Vec<Receipt>, Stop> {
        let mut receipts = Vec::with_capacity(self.append.facts().len());
        for at in 0..self.drafts.len() {
            self.insert_one(carrier, at, &mut receipts).await?;
        }
        Ok(receipts)
    }

    async fn insert_one(
        &self,
        carrier: &mut impl Carrier,
        at: usize,
        receipts: &mut Vec<Receipt>,
    ) -> Result<(), Stop> {
        let (sql, draft, is_last) = (self.sql, &self.drafts[at], at + 1 == self.drafts.len());
        let mut is_first = at == 0;
        for _ in 0..TRIES {
            let answer = sql.journal.appended.text();
            let insert = Insert { draft, answer, appending: self, is_first, is_last };
            is_first = false;
            let failure = match carrier.insert(insert).await {
                Ok(answer) => {
                    receipts.extend(placed(draft, &answer).map_err(Stop::Failed)?);
                    return Ok(());
                }
                Err(failure) => failure,
            };
            match failure.number {
                Some(code::DOES_NOT_EXIST) if at == 0 && self.whose == Whose::Callers => {
                    return Err(Stop::NoTransaction);
                }
                Some(code::OUT_OF_RANGE | code::MORE_THAN_ONE_ROW) => return Err(Stop::Gate),
                Some(code::DUPLICATE_ENTRY) => {
                    // Either an id is there, or a tail has filled one of the numbers. A message says
                    // which, in any language; the table says it in one.
                    let known = carrier.ask(draft.known(sql)).await.map_err(Stop::Failed)?;
                    if !known.is_empty() {
                        return Err(Stop::Known);
                    }
                }
                _ => return Err(Stop::Failed(failure)),
            }
        }
        Err(Stop::Failed(Failure { number: None, error: too_often() }))
    }

    /// Everything that must be so before the first insert: locks, and in a statement after them the
    /// check.
    fn opening(&self, values: &mut Values) -> String {
        let sql = self.sql;
        let condition = self.append.condition();
        let mut text = String::new();
        let mut add = |statement: &str| {
            text.push_str(statement);
            text.push_str(";\n");
        };
        match self.whose {
            Whose::Own(_) => add("start transaction"),
            Whose::Decisions(_) => {}
            Whose::Callers => {
                add(sql.journal.savepoint.text());
                add(&sql.journal.patience.with(&[("seconds", &self.journal.patience())]));
                if condition.is_some() {
                    add(sql.journal.isolated.text());
                }
            }
        }
        let slots = self.whose.lacks(self.append);
        if slots.is_empty() {
            add(sql.journal.now.text());
            return text;
        }
        add(&sql.journal.lock.with(&[("anchors", &anchors(sql, &slots, values))]));
        if let Some(condition) = condition {
            add(&self.clash(condition, values));
        }
        add(&sql.journal.gate.with(&[("count", &Literal::count(slots.len()))]));
        text
    }

    /// What notes the first fact that a condition excludes; none at 0 where what it rests on may be gone.
    fn clash(&self, condition: &Condition, values: &mut Values) -> String {
        let (sql, gone) = (self.sql, Literal::number(0));
        let first = |values: &mut Values| first(sql, &condition.query, condition.after, values);
        match (self.whose, condition.run) {
            (Whose::Own(here), Some(run)) if here != Some(run) => {
                sql.journal.clash.with(&[("first", &gone)])
            }
            (Whose::Callers, Some(run)) => sql.journal.clash_in.with(&[
                ("here", &Literal::part(RUN.into())),
                ("run", &Literal::number(run.number())),
                ("first", &first(values)),
            ]),
            _ => sql.journal.clash.with(&[("first", &first(values))]),
        }
    }

    /// What notes where an insert begins.
    fn first(&self, draft: &Draft<'_>) -> String {
        if self.again || self.whose == Whose::Callers {
            let rows = Literal::count(draft.rows.len());
            self.sql.journal.first.with(&[("rows", &rows)])
        } else {
            self.sql.journal.numbered.text().to_owned()
        }
    }

    /// Whether there will be others like this one but for their values, in a session of ours.
    fn is_common(&self) -> bool {
        let is_known = match self.whose {
            Whose::Own(_) => {
                self.append.condition().is_none_or(|condition| is_common(&condition.query))
            }
            Whose::Decisions(held) => !held.awake,
            Whose::Callers => false,
        };
        is_known
            && self.drafts.iter().map(Draft::is_common).eq([true])
            && self.whose.lacks(self.append).len() <= FEW
    }

    /// What a stop means, once everything is undone.
    async fn answer(
        &self,
        carrier: &mut impl Carrier,
        stop: Stop,
        why: Result<Numbers, Failure>,
    ) -> Result<Vec<Receipt>, AppendError> {
        match stop {
            Stop::NoTransaction => Err(AppendError::NoTransaction),
            Stop::Failed(failure) => Err(refused(failure)),
            Stop::Known => self.known(carrier).await?.ok_or(AppendError::IdTaken),
            Stop::Gate => match self.closed(&why.map_err(refused)?) {
                // What was appended before by the same call, whose answer was lost, is no conflict
                // with itself.
                AppendError::Conflict(conflict) => {
                    self.known(carrier).await?.ok_or(conflict.into())
                }
                error => Err(error),
            },
        }
    }

    /// Why a gate was closed.
    fn closed(&self, why: &Numbers) -> AppendError {
        let why = why.first().map_or(&[][..], Vec::as_slice);
        let number = |column: usize| why.get(column).copied().flatten();
        if let Some(clash) = number(0) {
            return match to_position(clash) {
                Ok(Position::START) => Conflict::Restarted.into(),
                Ok(position) => Conflict::Fact { position }.into(),
                Err(error) => error.into(),
            };
        }
        if self.whose == Whose::Callers && self.append.condition().is_some() && number(3) != Some(1)
        {
            return AppendError::Isolation;
        }
        refused_gate(number(2)).into()
    }

    /// Where the facts are, if all of them are there and the same.
    async fn known(&self, carrier: &mut impl Carrier) -> Result<Option<Vec<Receipt>>, AppendError> {
        let text = Draft::all_known(self.sql, self.drafts);
        let known = carrier.ask(text).await.map_err(refused)?;
        if known.len() != self.append.facts().len() {
            return Ok(None);
        }
        let mut receipts = Vec::with_capacity(known.len());
        for row in known {
            let [_, Some(position), Some(recorded_at), Some(1)] = row[..] else { return Ok(None) };
            receipts.push(Receipt {
                position: to_position(position)?,
                recorded_at: Timestamp::from_micros(recorded_at),
                fresh: false,
            });
        }
        Ok(Some(receipts))
    }
}

/// The rows that stand for these locks, and others to be shared, in their order.
pub(super) fn slots(locks: &Locks, shared: impl IntoIterator<Item = u16>) -> Vec<Slot> {
    let mut slots = locks.slots(ANCHORS);
    // Whoever has the journal alone needs none.
    if slots.first() != Some(&ALONE) {
        for number in shared {
            if let Err(at) = slots.binary_search_by_key(&number, |slot| slot.number) {
                slots.insert(at, Slot { number, mode: Mode::Shared });
            }
        }
    }
    slots
}

/// What takes these locks, one after the other, and counts them.
fn anchors(sql: &Sql, slots: &[Slot], values: &mut Values) -> Literal {
    let mut terms = Vec::new();
    for run in slots.chunk_by(|a, b| a.mode == b.mode) {
        let mode = Literal::mode(run[0].mode);
        let one = |slot: &Slot| {
            sql.journal.anchor.with(&[("slot", &values.number(slot.number)), ("mode", &mode)])
        };
        if run.len() <= FEW {
            terms.extend(run.iter().map(one));
        } else {
            let slots = Literal::numbers(run.iter().map(|slot| slot.number.into()));
            terms.push(sql.journal.anchors.with(&[("slots", &slots), ("mode", &mode)]));
        }
    }
    Literal::sum(&terms)
}

/// Why a gate was closed though nothing clashed: if this session counts one by one, by anchors that
/// were not there.
pub(super) fn refused_gate(increment: Option<i64>) -> StoreError {
    let reason = match increment {
        Some(1) => {
            "rows of journal_anchor are missing, without which appends cannot exclude one another: \
             run the script of `journal_migration_sql` again"
        }
        _ => {
            "auto_increment_increment is not 1, as where several servers are written to, which do not \
             know one another's locks: write to one server, and set it to 1 there (with Galera set \
             wsrep_auto_increment_control off as well)"
        }
    };
    misconfigured(reason)
}

/// Statements that take a decision's locks, and fail where that excludes nobody.
pub(super) fn hold(sql: &Sql, slots: &[Slot], values: &mut Values) -> String {
    let (anchors, count) = (anchors(sql, slots, values), Literal::count(slots.len()));
    let hold = sql.journal.hold.with(&[("anchors", &anchors), ("count", &count)]);
    format!("start transaction;\n{hold}")
}

/// Takes a decision's locks, and answers with the highest position that is visible then.
pub(super) fn mark(sql: &Sql, slots: &[Slot], values: &mut Values) -> String {
    let hold = hold(sql, slots, values);
    block(sql, format!("{hold};\n{};\ncommit", sql.journal.mark.text()))
}

/// Statements of ours as one, where the server can.
pub(super) fn block(sql: &Sql, statements: String) -> String {
    sql.journal.block.with(&[("statements", &Literal::part(statements))])
}

/// Where the facts of a draft are.
fn placed(draft: &Draft<'_>, answer: &Numbers) -> Result<Vec<Receipt>, Failure> {
    let refused = |error: StoreError| Failure { number: None, error };
    let Some([Some(first), Some(at)]) = answer.first().map(Vec::as_slice) else {
        return Err(refused(StoreError::Refused(
            "the server did not say where it appended".into(),
        )));
    };
    let recorded_at = Timestamp::from_micros(*at);
    (0..draft.rows.len() as i64)
        .map(|nth| {
            let position = to_position(first + nth).map_err(refused)?;
            Ok(Receipt { position, recorded_at, fresh: true })
        })
        .collect()
}

/// What a failure means.
pub(super) fn refused(failure: Failure) -> AppendError {
    if failure.number.is_some_and(is_lost_race) {
        AppendError::Busy(failure.error.into())
    } else {
        failure.error.into()
    }
}
