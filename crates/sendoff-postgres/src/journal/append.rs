//! An append on its way to the server, and what the server makes of it.

use sendoff_core::journal::{Append, Condition, Fact, Locks, Position, Run};
use sendoff_core::{BoxError, Timestamp};
use sendoff_engine::journal::{AppendError, Conflict, Receipt};
use sendoff_engine::store::StoreError;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::search::Search;
use super::store::{PostgresJournal, columns};
use crate::error::failed;
#[cfg(any(feature = "diesel-async", feature = "sea-orm", feature = "_sqlx"))]
use crate::error::failed_elsewhere;
use crate::rows::get;
use crate::wire::{At, Id, Json, Payload, array_text};

/// What `journal_append` and `append_in` are given.
pub(super) struct Params<'a> {
    facts: &'a [Fact],
    pub(super) keys: Vec<i32>,
    pub(super) alone: Vec<bool>,
    pub(super) patience: i32,
    pub(super) ids: Vec<Id>,
    pub(super) types: Vec<&'a str>,
    pub(super) tags: Vec<String>,
    pub(super) content_types: Vec<&'a str>,
    pub(super) occurred: Vec<At>,
    pub(super) headers: Vec<Option<Json>>,
    pub(super) payloads: Vec<Payload<'a>>,
    pub(super) correlations: Vec<Option<Id>>,
    pub(super) causations: Vec<Option<Id>>,
    pub(super) kinds: Option<Vec<i16>>,
    pub(super) kind_tags: Option<Vec<Option<String>>>,
    pub(super) kind_types: Option<Vec<Option<String>>>,
    pub(super) after: i64,
    /// When the server was started in whose run the condition was read.
    pub(super) run: Option<At>,
}

impl<'a> Params<'a> {
    pub(super) fn new(journal: &PostgresJournal, append: &'a Append) -> Result<Self, AppendError> {
        Self::under(journal, append.facts(), append.condition())
    }

    /// Of facts whose condition, if they have one, is another than the append says.
    pub(super) fn under(
        journal: &PostgresJournal,
        facts: &'a [Fact],
        condition: Option<&Condition>,
    ) -> Result<Self, AppendError> {
        let query = condition.map(|condition| &condition.query);
        let (keys, alone) = columns(&Locks::of_append(facts, query));
        let search = query.map(Search::of);
        let (kinds, kind_tags, kind_types) = match search {
            Some(Search { kinds, tags, types }) => (Some(kinds), Some(tags), Some(types)),
            None => (None, None, None),
        };
        let mut params = Self {
            facts,
            keys,
            alone,
            patience: journal.options().patience(),
            ids: Vec::new(),
            types: Vec::new(),
            tags: Vec::new(),
            content_types: Vec::new(),
            occurred: Vec::new(),
            headers: Vec::new(),
            payloads: Vec::new(),
            correlations: Vec::new(),
            causations: Vec::new(),
            kinds,
            kind_tags,
            kind_types,
            after: condition.map_or(0, |condition| condition.after.into()),
            run: condition.and_then(|condition| condition.run).map(started_at),
        };
        for fact in facts {
            let event = fact.event();
            let occurred_at = At(event.occurred_at());
            // A refusal by the server would abort the transaction.
            if !occurred_at.is_storable() {
                return Err(StoreError::Refused(TooLongAgo.into()).into());
            }
            params.ids.push(Id(fact.id()));
            params.types.push(event.event_type());
            params.tags.push(array_text(fact.tags().iter().map(|tag| tag.as_str())));
            params.content_types.push(event.content_type());
            params.occurred.push(occurred_at);
            params.headers.push(event.headers().to_json().map(Json));
            params.payloads.push(Payload(event.payload()));
            params.correlations.push(fact.correlation_id().map(Id));
            params.causations.push(fact.causation_id().map(Id));
        }
        Ok(params)
    }

    pub(super) fn in_order(&self) -> Vec<Param<'_>> {
        let mut params: Vec<Param<'_>> = vec![&self.keys, &self.alone, &self.patience];
        params.extend(self.columns());
        params.extend([&self.kinds as Param<'_>, &self.kind_tags, &self.kind_types]);
        params.extend([&self.after as Param<'_>, &self.run]);
        params
    }

    /// What the facts have, in the order that every statement has it in.
    pub(super) fn columns(&self) -> [Param<'_>; 9] {
        [
            &self.ids,
            &self.types,
            &self.tags,
            &self.content_types,
            &self.occurred,
            &self.headers,
            &self.payloads,
            &self.correlations,
            &self.causations,
        ]
    }

    /// What the first fact has, in the same order; its tags as the statement wants them.
    pub(super) fn first<'p>(&'p self, tags: Param<'p>) -> [Param<'p>; 9] {
        [
            &self.ids[0],
            &self.types[0],
            tags,
            &self.content_types[0],
            &self.occurred[0],
            &self.headers[0],
            &self.payloads[0],
            &self.correlations[0],
            &self.causations[0],
        ]
    }
}

/// The run of the server that began then.
pub(super) fn run(At(started): At) -> Run {
    Run::numbered(started.as_micros())
}

/// When the server was started in that run.
pub(super) fn started_at(run: Run) -> At {
    At(Timestamp::from_micros(run.number()))
}

/// A parameter of a statement.
pub(super) type Param<'p> = &'p (dyn ToSql + Sync);

/// What `append_one` is given, which is all that most appends need.
pub(super) struct One<'p> {
    params: &'p Params<'p>,
    tags: Vec<&'p str>,
}

impl<'p> One<'p> {
    /// None where the function is needed: for several facts, a condition, or the journal alone.
    pub(super) fn of(params: &'p Params<'p>) -> Option<Self> {
        let [fact] = params.facts else { return None };
        if params.kinds.is_some() || params.alone.contains(&true) {
            return None;
        }
        Some(Self { params, tags: fact.tags().iter().map(|tag| tag.as_str()).collect() })
    }

    pub(super) fn in_order(&self) -> Vec<Param<'_>> {
        let mut params: Vec<Param<'_>> = vec![&self.params.keys, &self.params.patience];
        params.extend(self.params.first(&self.tags));
        params
    }
}

/// Outcomes of the function `journal_append`.
const APPENDED: i32 = 0;
const KNOWN: i32 = 1;
const CONFLICT: i32 = 2;
const ISOLATION: i32 = 3;

/// A row that the function answers with, whatever the driver.
pub(super) struct Answer {
    pub(super) outcome: i32,
    pub(super) place: Option<i64>,
    pub(super) at: Option<At>,
}

impl Answer {
    fn of(row: &Row) -> Result<Self, StoreError> {
        Ok(Self { outcome: get(row, 0)?, place: get(row, 1)?, at: get(row, 2)? })
    }

    fn receipt(&self, fresh: bool) -> Result<Receipt, AppendError> {
        let recorded_at = self.at.ok_or(Incomplete).map_err(broken)?.0;
        Ok(Receipt { position: self.position()?, recorded_at, fresh })
    }

    fn position(&self) -> Result<Position, AppendError> {
        Position::try_from(self.place.ok_or(Incomplete).map_err(broken)?).map_err(broken)
    }
}

fn broken(error: impl Into<BoxError>) -> AppendError {
    StoreError::Refused(error.into()).into()
}

/// What the rows of the function mean.
pub(super) fn receipts(append: &Append, rows: &[Row]) -> Result<Vec<Receipt>, AppendError> {
    let answers = rows.iter().map(Answer::of).collect::<Result<Vec<_>, _>>()?;
    receipts_of(append, &answers)
}

/// What the answers of the function mean.
pub(super) fn receipts_of(
    append: &Append,
    answers: &[Answer],
) -> Result<Vec<Receipt>, AppendError> {
    let Some(first) = answers.first() else { return Err(AppendError::NoTransaction) };
    match first.outcome {
        outcome @ (APPENDED | KNOWN) if answers.len() == append.facts().len() => {
            answers.iter().map(|answer| answer.receipt(outcome == APPENDED)).collect()
        }
        CONFLICT => Err(match first.position()? {
            Position::START => Conflict::Restarted,
            position => Conflict::Fact { position },
        }
        .into()),
        ISOLATION => Err(AppendError::Isolation),
        _ => Err(AppendError::IdTaken),
    }
}

/// What a failure of the statement means.
pub(super) fn refused(error: StoreError) -> AppendError {
    if is_busy(&error) {
        AppendError::Busy(error.into())
    } else if code(&error) == Some(&SqlState::UNIQUE_VIOLATION) {
        AppendError::IdTaken
    } else {
        AppendError::Store(error)
    }
}

/// The same, on a connection of the caller's.
pub(super) fn refused_by_driver(error: Error) -> AppendError {
    refused(failed(error))
}

/// The same, through another driver.
#[cfg(any(feature = "diesel-async", feature = "sea-orm", feature = "_sqlx"))]
pub(super) fn refused_elsewhere(
    code: Option<&SqlState>,
    source: impl Into<BoxError>,
) -> AppendError {
    match code {
        Some(code) if is_busy_code(code) => AppendError::Busy(source.into()),
        Some(&SqlState::UNIQUE_VIOLATION) => AppendError::IdTaken,
        code => AppendError::Store(failed_elsewhere(code, source)),
    }
}

/// Whether somebody else had what it needed, for too long or while it had what they needed.
pub(super) fn is_busy(error: &StoreError) -> bool {
    matches!(error, StoreError::Busy(_)) || code(error).is_some_and(is_busy_code)
}

/// Whether the server ended it in favour of another.
pub(super) fn is_deadlock(error: &StoreError) -> bool {
    code(error) == Some(&SqlState::T_R_DEADLOCK_DETECTED)
}

fn is_busy_code(code: &SqlState) -> bool {
    matches!(*code, SqlState::LOCK_NOT_AVAILABLE | SqlState::T_R_DEADLOCK_DETECTED)
}

fn code(error: &StoreError) -> Option<&SqlState> {
    let (StoreError::Unavailable(source) | StoreError::Busy(source) | StoreError::Refused(source)) =
        error
    else {
        return None;
    };
    let source: &BoxError = source;
    source.downcast_ref::<Error>()?.code()
}

/// A row of an answer without what it has to have.
#[derive(Debug, thiserror::Error)]
#[error("the function journal_append did not say where a fact is")]
struct Incomplete;

#[derive(Debug, thiserror::Error)]
#[error("occurred_at lies before 4713 BC, where PostgreSQL's calendar begins")]
struct TooLongAgo;
