//! An append on its way to the server, and what the server makes of it.

use sendoff_core::BoxError;
use sendoff_core::journal::{Append, Fact, Position};
use sendoff_engine::journal::{AppendError, Conflict, Receipt};
use sendoff_engine::store::StoreError;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::facts;
use super::search::Search;
use super::store::{PostgresJournal, columns};
use crate::error::failed;
use crate::rows::{get, time};
use crate::wire::{At, Id, Json, Payload, array_text};

/// What `journal_append` and `journal_append_in` are given.
pub(super) struct Params<'a> {
    facts: &'a [Fact],
    keys: Vec<i32>,
    alone: Vec<bool>,
    patience: i32,
    ids: Vec<Id>,
    types: Vec<&'a str>,
    tags: Vec<String>,
    content_types: Vec<&'a str>,
    occurred: Vec<At>,
    headers: Vec<Option<Json>>,
    payloads: Vec<Payload<'a>>,
    correlations: Vec<Option<Id>>,
    causations: Vec<Option<Id>>,
    kinds: Option<Vec<i16>>,
    kind_tags: Option<Vec<Option<String>>>,
    kind_types: Option<Vec<Option<String>>>,
    after: i64,
}

impl<'a> Params<'a> {
    pub(super) fn new(journal: &PostgresJournal, append: &'a Append) -> Result<Self, AppendError> {
        let (keys, alone) = columns(&append.locks());
        let search = append.condition().map(|condition| Search::of(&condition.query));
        let (kinds, kind_tags, kind_types) = match search {
            Some(Search { kinds, tags, types }) => (Some(kinds), Some(tags), Some(types)),
            None => (None, None, None),
        };
        let mut params = Self {
            facts: append.facts(),
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
            after: append.condition().map_or(0, |condition| condition.after.into()),
        };
        for fact in append.facts() {
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

    pub(super) fn in_order(&self) -> [&(dyn ToSql + Sync); 16] {
        [
            &self.keys,
            &self.alone,
            &self.patience,
            &self.ids,
            &self.types,
            &self.tags,
            &self.content_types,
            &self.occurred,
            &self.headers,
            &self.payloads,
            &self.correlations,
            &self.causations,
            &self.kinds,
            &self.kind_tags,
            &self.kind_types,
            &self.after,
        ]
    }
}

/// What `journal_append_one` is given, which is all that most appends need.
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

    pub(super) fn in_order(&self) -> [&(dyn ToSql + Sync); 11] {
        let params = self.params;
        [
            &params.keys,
            &params.patience,
            &params.ids[0],
            &params.types[0],
            &self.tags,
            &params.content_types[0],
            &params.occurred[0],
            &params.headers[0],
            &params.payloads[0],
            &params.correlations[0],
            &params.causations[0],
        ]
    }
}

/// Outcomes of the function `journal_append`.
const APPENDED: i32 = 0;
const KNOWN: i32 = 1;
const CONFLICT: i32 = 2;
const ISOLATION: i32 = 3;

/// What the rows of the function mean.
pub(super) fn receipts(append: &Append, rows: &[Row]) -> Result<Vec<Receipt>, AppendError> {
    let Some(first) = rows.first() else { return Err(AppendError::NoTransaction) };
    match get::<i32>(first, 0)? {
        outcome @ (APPENDED | KNOWN) if rows.len() == append.facts().len() => {
            rows.iter().map(|row| receipt(row, outcome == APPENDED)).collect()
        }
        CONFLICT => Err(Conflict { position: facts::position(first, 1)? }.into()),
        ISOLATION => Err(AppendError::Isolation),
        _ => Err(AppendError::IdTaken),
    }
}

fn receipt(row: &Row, fresh: bool) -> Result<Receipt, AppendError> {
    let position: Position = facts::position(row, 1)?;
    Ok(Receipt { position, recorded_at: time(row, 2)?, fresh })
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

/// Whether somebody else had what it needed, for too long or while it had what they needed.
pub(super) fn is_busy(error: &StoreError) -> bool {
    code(error).is_some_and(|code| {
        matches!(*code, SqlState::LOCK_NOT_AVAILABLE | SqlState::T_R_DEADLOCK_DETECTED)
    })
}

fn code(error: &StoreError) -> Option<&SqlState> {
    let (StoreError::Unavailable(source) | StoreError::Refused(source)) = error else {
        return None;
    };
    let source: &BoxError = source;
    source.downcast_ref::<Error>()?.code()
}

#[derive(Debug, thiserror::Error)]
#[error("occurred_at lies before 4713 BC, where PostgreSQL's calendar begins")]
struct TooLongAgo;
