//! Dead letters on PostgreSQL: one statement for whatever is done to them.

use std::collections::HashMap;

use async_trait::async_trait;
use sendoff_core::{Death, EventId, Letter, LetterAct, LetterFate, Status, Timestamp};
use sendoff_engine::store::frame::letter;
use sendoff_engine::store::{
    AuditEntry, AuditPage, ChangeLetters, EventRecord, LetterPage, LetterStore, PayloadWanted,
    StoreError,
};
use tokio_postgres::Row;

use crate::link::Params;
use crate::rows;
use crate::sql::Statement;
use crate::store::PostgresStore;
use crate::wire::{At, Id};

#[async_trait]
impl LetterStore for PostgresStore {
    async fn clock(&self) -> Result<Timestamp, StoreError> {
        let answer = self.ask(&self.sql().clock, &[]).await?;
        let row = answer.first().ok_or_else(|| StoreError::Refused("no time was given".into()))?;
        rows::time(row, 0)
    }

    async fn letters(&self, page: &LetterPage<'_>) -> Result<Vec<Letter>, StoreError> {
        let (oldest, newest) = (&self.sql().letters, &self.sql().letters_newest);
        let found = self.look(page.order.choose(oldest, newest), page).await?;
        letter::letters(found.iter().map(rows::all))
    }

    async fn count_letters(&self, page: &LetterPage<'_>) -> Result<u64, StoreError> {
        let found = self.look(&self.sql().letters_count, &page.to_count()).await?;
        letter::counted(found.first().map(rows::all))
    }

    async fn record(
        &self,
        id: EventId,
        payload: PayloadWanted,
    ) -> Result<Option<EventRecord>, StoreError> {
        let params: Params<'_> = &[&Id(id), &(payload == PayloadWanted::Yes)];
        let found = self.ask(&self.sql().record, params).await?;
        let record = found.first().map(|row| letter::record(&mut rows::all(row)));
        Ok(record.transpose()?)
    }

    async fn change_letters(
        &self,
        change: &ChangeLetters<'_>,
    ) -> Result<Vec<LetterFate>, StoreError> {
        let statement = match change.act {
            LetterAct::Requeue => &self.sql().letters_requeue,
            LetterAct::Discard => &self.sql().letters_discard,
        };
        let (ids, died_at): (Vec<Id>, Vec<Option<At>>) =
            change.deaths.iter().map(|death| (Id(death.id), death.died_at.map(At))).unzip();
        let (actor, reason) = (change.note.actor(), change.note.reason());
        let params: Params<'_> = &[&ids, &died_at, &actor, &reason];
        let answer = self.ask(statement, params).await?;
        let fates: HashMap<EventId, LetterFate> =
            answer.iter().map(fate).collect::<Result<_, _>>()?;
        let fate = |death: &Death| fates.get(&death.id).copied().unwrap_or(LetterFate::NotFound);
        Ok(change.deaths.iter().map(fate).collect())
    }

    async fn audit(&self, page: &AuditPage) -> Result<Vec<AuditEntry>, StoreError> {
        let (before, limit) = (page.before.unwrap_or(i64::MAX), whole(page.limit));
        let sql = self.sql();
        let found = match page.event {
            Some(id) => self.ask(&sql.audit_event, &[&before, &limit, &Id(id)]).await?,
            None => self.ask(&sql.audit, &[&before, &limit]).await?,
        };
        letter::entries(found.iter().map(rows::all))
    }
}

type Answer = Result<Vec<Row>, StoreError>;

impl PostgresStore {
    /// Over the connection of those who look and mend.
    pub(crate) async fn ask(&self, statement: &Statement, params: Params<'_>) -> Answer {
        self.check_open()?;
        self.links().upkeep.query(statement, params).await
    }

    async fn look(&self, statement: &Statement, page: &LetterPage<'_>) -> Answer {
        let ((first, last), after) = (page.died_between(), page.begins_after());
        let filter = page.filter;
        let (least, most) =
            (filter.attempts_least.map(i64::from), filter.attempts_most.map(i64::from));
        let params: Params<'_> = &[
            &At(first).in_calendar(),
            &At(last).in_calendar(),
            &At(after.died_at).in_calendar(),
            &after.seq,
            &filter.event_type,
            &filter.aggregate_type,
            &filter.aggregate_id,
            &filter.tenant_id,
            &filter.error,
            &least,
            &most,
            &whole(page.limit),
        ];
        self.ask(statement, params).await
    }
}

/// What became of a letter, as `letters_change` answers it.
fn fate(row: &Row) -> Result<(EventId, LetterFate), StoreError> {
    let Id(id) = rows::get(row, 0)?;
    let (changed, status): (bool, Option<i16>) = (rows::get(row, 1)?, rows::get(row, 2)?);
    let was_meant: bool = rows::get(row, 3)?;
    let Some(code) = status else { return Ok((id, LetterFate::NotFound)) };
    let status = Status::try_from(i64::from(code));
    let status = status.map_err(|unknown| StoreError::Refused(unknown.into()))?;
    let fate = match status {
        _ if changed => LetterFate::Done,
        _ if was_meant => LetterFate::Busy,
        Status::Dead => LetterFate::DiedAgain,
        status => LetterFate::NotDead { status },
    };
    Ok((id, fate))
}

fn whole(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
