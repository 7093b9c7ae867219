//! An append, over whichever driver carries it.

use std::future::Future;

use sendoff_core::Timestamp;
use sendoff_core::journal::{Append, Locks, Mode, Position, Slot};
use sendoff_engine::journal::{AppendError, Conflict, Page, Receipt};
use sendoff_engine::store::StoreError;

use super::draft::Draft;
use super::facts::to_position;
use super::search::{Manner, Rarest, searches};
use super::store::MysqlJournal;
use crate::error::{code, is_lost_race, misconfigured};
use crate::sql::Sql;
use crate::wire::Literal;

/// Rows of `journal_anchor`.
const ANCHORS: u16 = 4_096;
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
    pub(super) sql: &'a Sql,
    pub(super) before: String,
    pub(super) draft: &'a Draft<'a>,
    pub(super) after: String,
    /// One statement, which answers.
    pub(super) answer: &'a str,
    /// Behind the answer; empty in a transaction of somebody else's.
    pub(super) end: String,
}

impl Insert<'_> {
    /// All of it, for a driver that keeps what it sends to itself.
    pub(super) fn text(&self) -> String {
        let Self { before, after, answer, end, .. } = self;
        format!("{before}{};\n{after}{answer}{end}", self.draft.text(self.sql))
    }
}

/// Whose the transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Its own: it begins and commits.
    Own,
    /// The caller's: a savepoint is where it begins.
    Callers,
    /// A decision's, which has its locks: it commits, and never begins again by itself.
    Decisions,
}

impl Whose {
    fn undo(self, sql: &Sql) -> String {
        match self {
            Self::Own | Self::Decisions => "rollback".into(),
            Self::Callers => {
                let over = sql.journal_patience_over.text();
                format!("{over};\nrollback to savepoint sendoff_append")
            }
        }
    }

    /// Behind the last insert.
    fn end(self, sql: &Sql) -> String {
        match self {
            Self::Own => ";\ncommit".into(),
            Self::Decisions => format!(";\ncommit;\n{}", sql.journal_asleep.text()),
            Self::Callers => String::new(),
        }
    }
}

/// Appends, all or none. Where it fails, what it did is undone, except for locks.
pub(super) async fn append(
    journal: &MysqlJournal,
    carrier: &mut impl Carrier,
    whose: Whose,
    append: &Append,
) -> Result<Vec<Receipt>, AppendError> {
    let drafts = Draft::all(append)?;
    let appending = Appending { journal, sql: journal.sql(), whose, append, drafts: &drafts };
    for _ in 0..TRIES {
        let stop = match appending.insert_all(carrier).await {
            Ok(receipts) => return Ok(receipts),
            // There was no transaction to undo anything in.
            Err(Stop::NoTransaction) => return Err(AppendError::NoTransaction),
            Err(stop) => stop,
        };
        let why = match &stop {
            Stop::Gate => carrier.ask(appending.sql.journal_why.text().into()).await,
            _ => Ok(Vec::new()),
        };
        // Fails only where the transaction is gone, and what was done with it.
        let undone = carrier.run(whose.undo(appending.sql)).await;
        if matches!(&why, Ok(why) if is_closed_run(why)) {
            // It is made again whole, its check too, and takes other numbers.
            undone.map_err(refused)?;
            if whose == Whose::Decisions {
                return Err(AppendError::Busy(too_often().into()));
            }
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
    whose: Whose,
    append: &'a Append,
    drafts: &'a [Draft<'a>],
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
        let mut before = if at == 0 { self.opening() } else { String::new() };
        for _ in 0..TRIES {
            let insert = Insert {
                sql,
                before: std::mem::take(&mut before),
                draft,
                after: self.closing(draft, is_last),
                answer: sql.journal_appended.text(),
                end: if is_last { self.whose.end(sql) } else { String::new() },
            };
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
                Some(code::MORE_THAN_ONE_ROW) => return Err(Stop::Gate),
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

    /// Everything that must be so before the first insert: locks, and in a statement behind them the
    /// check.
    fn opening(&self) -> String {
        let sql = self.sql;
        let condition = self.append.condition();
        let mut text = String::new();
        let mut add = |statement: &str| {
            text.push_str(statement);
            text.push_str(";\n");
        };
        match self.whose {
            Whose::Own => add("start transaction"),
            Whose::Decisions => {}
            Whose::Callers => {
                add(sql.journal_savepoint.text());
                add(&sql.journal_patience.with(&[("seconds", &self.journal.patience())]));
                if condition.is_some() {
                    add(sql.journal_isolated.text());
                }
            }
        }
        let slots = self.append.locks().slots(ANCHORS);
        lock(sql, &slots).iter().for_each(|statement| add(statement));
        if let Some(condition) = condition {
            let page = Page::first(condition.after, Position::END);
            let found = searches(sql, &condition.query, page, Manner::Locking, &Rarest::default());
            add(&sql.journal_clash.with(&[("searches", &found)]));
        }
        add(&gate(sql, &slots));
        add(sql.at.text());
        text
    }

    /// What follows an insert.
    fn closing(&self, draft: &Draft<'_>, is_last: bool) -> String {
        let rows = Literal::count(draft.rows.len());
        let mut text = format!("{};\n", self.sql.journal_first.with(&[("rows", &rows)]));
        if let Some(tags) = draft.tags(self.sql) {
            text.push_str(&tags);
            text.push_str(";\n");
        }
        if is_last && self.whose == Whose::Callers {
            text.push_str(self.sql.journal_patience_over.text());
            text.push_str(";\n");
        }
        text
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
                Ok(position) => Conflict { position }.into(),
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

/// Statements that take these locks, one for each run of the same mode.
fn lock(sql: &Sql, slots: &[Slot]) -> Vec<String> {
    let mut statements = vec![sql.journal_begin.text().to_owned()];
    for run in slots.chunk_by(|a, b| a.mode == b.mode) {
        let statement = match run[0].mode {
            Mode::Shared => &sql.journal_share,
            Mode::Exclusive => &sql.journal_alone,
        };
        let numbers = Literal::numbers(run.iter().map(|slot| slot.number.into()));
        statements.push(statement.with(&[("slots", &numbers)]));
    }
    statements
}

fn gate(sql: &Sql, slots: &[Slot]) -> String {
    sql.journal_gate.with(&[("count", &Literal::count(slots.len()))])
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

/// Takes a decision's locks and keeps them; answers how many there are of each mode, and then with the
/// highest position that is visible.
pub(super) fn hold(sql: &Sql, locks: &Locks) -> (String, usize, usize) {
    let slots = locks.slots(ANCHORS);
    let mut text = "start transaction;\n".to_owned();
    let mut modes = 0;
    for run in slots.chunk_by(|a, b| a.mode == b.mode) {
        let statement = match run[0].mode {
            Mode::Shared => &sql.journal_shared,
            Mode::Exclusive => &sql.journal_owned,
        };
        let numbers = Literal::numbers(run.iter().map(|slot| slot.number.into()));
        text.push_str(&statement.with(&[("slots", &numbers)]));
        text.push_str(";\n");
        modes += 1;
    }
    text.push_str(sql.journal_mark.text());
    (text, modes, slots.len())
}

/// Takes a decision's locks, and answers with the highest position that is visible then.
pub(super) fn mark(sql: &Sql, locks: &Locks) -> String {
    let slots = locks.slots(ANCHORS);
    let mut text = "start transaction;\n".to_owned();
    for statement in lock(sql, &slots).iter().chain([&gate(sql, &slots)]) {
        text.push_str(statement);
        text.push_str(";\n");
    }
    text.push_str(sql.journal_mark.text());
    text.push_str(";\ncommit");
    text
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
