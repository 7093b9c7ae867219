//! Dead letters on SQLite, walked in steps that leave others their turn.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, ToSql};
use sendoff_core::{
    AuditNote, Death, EventId, Letter, LetterAct, LetterFate, LetterFilter, LetterOrder,
    LetterPosition, Status, Timestamp,
};
use sendoff_engine::store::frame::letter;
use sendoff_engine::store::{
    AuditEntry, AuditPage, ChangeLetters, EventRecord, LetterPage, LetterStore, PayloadWanted,
    StoreError,
};

use crate::durable::durably;
use crate::options::Synchronous;
use crate::rows::{all, readable};
use crate::sql::Sql;
use crate::store::{SqliteStore, in_transaction};

/// Rows looked at in one call to the store's thread, so that claims and settlements get their turn.
const ROWS_PER_STEP: i64 = 2_000;

#[async_trait]
impl LetterStore for SqliteStore {
    async fn clock(&self) -> Result<Timestamp, StoreError> {
        self.check_open()?;
        Ok(self.now())
    }

    async fn letters(&self, page: &LetterPage<'_>) -> Result<Vec<Letter>, StoreError> {
        let mut letters = Vec::new();
        let mut walk = Walk::new(page);
        while let Some(step) = self.step(&mut walk).await? {
            let limit = page.limit - letters.len();
            let found = self.read(move |conn, sql, _| step.letters(conn, sql, limit)).await?;
            for letter in found {
                letters.push(letter?);
            }
            if letters.len() >= page.limit {
                break;
            }
        }
        Ok(letters)
    }

    async fn count_letters(&self, page: &LetterPage<'_>) -> Result<u64, StoreError> {
        let most = u64::try_from(page.limit).unwrap_or(u64::MAX);
        let mut count = 0;
        let mut walk = Walk::new(&page.to_count());
        while let Some(step) = self.step(&mut walk).await? {
            let left = usize::try_from(most - count).unwrap_or(usize::MAX);
            count += self.read(move |conn, sql, _| step.count(conn, sql, left)).await?;
            if count >= most {
                break;
            }
        }
        Ok(count)
    }

    async fn record(
        &self,
        id: EventId,
        payload: PayloadWanted,
    ) -> Result<Option<EventRecord>, StoreError> {
        let wanted = payload == PayloadWanted::Yes;
        let found = self
            .read(move |conn, sql, _| {
                let read = |row: &rusqlite::Row<'_>| Ok(letter::record(&mut all(row)));
                conn.prepare_cached(&sql.record)?
                    .query_row((id.as_bytes(), wanted), read)
                    .optional()
            })
            .await?;
        Ok(found.transpose()?)
    }

    async fn change_letters(
        &self,
        change: &ChangeLetters<'_>,
    ) -> Result<Vec<LetterFate>, StoreError> {
        let (act, deaths, note) = (change.act, change.deaths.to_vec(), change.note.clone());
        self.on_thread(move |conn, sql, clock| {
            // What an operator was told is done stays done, also when the power fails.
            durably(conn, Synchronous::Full, |conn| {
                in_transaction(conn, sql, clock, |tx, sql, now| {
                    let change = |death: &Death| change_one(tx, sql, now, act, *death, &note);
                    deaths.iter().map(change).collect()
                })
            })?
        })
        .await
    }

    async fn audit(&self, page: &AuditPage) -> Result<Vec<AuditEntry>, StoreError> {
        let AuditPage { event, before, limit } = *page;
        let (before, limit) = (before.unwrap_or(i64::MAX), whole(limit));
        let found = self
            .read(move |conn, sql, _| {
                let read = |row: &rusqlite::Row<'_>| Ok(letter::entry(&mut all(row)));
                let entries: rusqlite::Result<Vec<_>> = match event {
                    Some(id) => conn
                        .prepare_cached(&sql.audit_event)?
                        .query_map((before, limit, id.as_bytes()), read)?
                        .collect(),
                    None => {
                        conn.prepare_cached(&sql.audit)?.query_map((before, limit), read)?.collect()
                    }
                };
                entries
            })
            .await?;
        Ok(found.into_iter().collect::<Result<_, _>>()?)
    }
}

/// A walk over the letters of a page.
struct Walk {
    filter: LetterFilter,
    order: LetterOrder,
    between: (Timestamp, Timestamp),
    /// The place that was reached; `None` at the end.
    reached: Option<LetterPosition>,
}

impl Walk {
    fn new(page: &LetterPage<'_>) -> Self {
        Self {
            filter: page.filter.clone(),
            order: page.order,
            between: page.died_between(),
            reached: Some(page.begins_after()),
        }
    }
}

impl SqliteStore {
    /// The next part of a walk, as far as it goes in one call.
    async fn step(&self, walk: &mut Walk) -> Result<Option<Step>, StoreError> {
        let Some(after) = walk.reached else { return Ok(None) };
        let (order, (first, last)) = (walk.order, walk.between);
        let end = self
            .read(move |conn, sql, _| {
                let text = order.choose(&sql.letters_step, &sql.letters_step_newest);
                let place = |row: &rusqlite::Row<'_>| {
                    let died_at = Timestamp::from_micros(row.get(0)?);
                    Ok(LetterPosition { died_at, seq: row.get(1)? })
                };
                let bounds = (first.as_micros(), last.as_micros());
                let after = (after.died_at.as_micros(), after.seq);
                conn.prepare_cached(text)?
                    .query_row((bounds.0, bounds.1, after.0, after.1, ROWS_PER_STEP - 1), place)
                    .optional()
            })
            .await?;
        walk.reached = end;
        let beyond_all = order.choose(i64::MAX, i64::MIN);
        let died_at = Timestamp::from_micros(beyond_all);
        let to = end.unwrap_or(LetterPosition { died_at, seq: beyond_all });
        Ok(Some(Step { filter: walk.filter.clone(), order, between: walk.between, after, to }))
    }
}

/// A part of a walk: after a place, and up to another.
struct Step {
    filter: LetterFilter,
    order: LetterOrder,
    between: (Timestamp, Timestamp),
    after: LetterPosition,
    to: LetterPosition,
}

impl Step {
    fn letters(
        &self,
        conn: &Connection,
        sql: &Sql,
        limit: usize,
    ) -> rusqlite::Result<Vec<Result<Letter, StoreError>>> {
        let text = self.order.choose(&sql.letters, &sql.letters_newest);
        let read = |row: &rusqlite::Row<'_>| Ok(letter::letter(&mut all(row)).map_err(Into::into));
        self.with_values(limit, |values| {
            conn.prepare_cached(text)?.query_map(values, read)?.collect()
        })
    }

    fn count(&self, conn: &Connection, sql: &Sql, limit: usize) -> rusqlite::Result<u64> {
        let found: i64 = self.with_values(limit, |values| {
            conn.prepare_cached(&sql.letters_count)?.query_row(values, |row| row.get(0))
        })?;
        Ok(u64::try_from(found).unwrap_or(0))
    }

    fn with_values<T>(&self, limit: usize, run: impl FnOnce(&[&dyn ToSql]) -> T) -> T {
        let Self { filter, between: (first, last), after, to, .. } = self;
        run(&[
            &first.as_micros(),
            &last.as_micros(),
            &after.died_at.as_micros(),
            &after.seq,
            &to.died_at.as_micros(),
            &to.seq,
            &filter.event_type,
            &filter.aggregate_type,
            &filter.aggregate_id,
            &filter.tenant_id,
            &filter.error,
            &filter.attempts_least,
            &filter.attempts_most,
            &whole(limit),
        ])
    }
}

fn change_one(
    tx: &Connection,
    sql: &Sql,
    now: Timestamp,
    act: LetterAct,
    Death { id, died_at }: Death,
    note: &AuditNote,
) -> rusqlite::Result<LetterFate> {
    let (at, died_at) = (now.as_micros(), died_at.map(Timestamp::as_micros));
    let action = act.action().name();
    let noted = tx.prepare_cached(&sql.letter_audit)?.execute((
        id.as_bytes(),
        died_at,
        at,
        action,
        note.actor(),
        note.reason(),
    ))?;
    if noted == 0 {
        let standing: Option<i64> = tx
            .prepare_cached(&sql.letter_standing)?
            .query_row([id.as_bytes()], |row| row.get(0))
            .optional()?;
        // The table's check allows the four of them only.
        let status = standing.and_then(|code| Status::try_from(code).ok());
        return Ok(match status {
            None => LetterFate::NotFound,
            Some(Status::Dead) => LetterFate::DiedAgain,
            Some(status) => LetterFate::NotDead { status },
        });
    }
    let key = |row: &rusqlite::Row<'_>| Ok(readable(row.get_ref(0)?));
    let key = match act {
        LetterAct::Requeue => {
            tx.prepare_cached(&sql.letter_requeue)?.query_row((id.as_bytes(), died_at, at), key)?
        }
        LetterAct::Discard => {
            tx.prepare_cached(&sql.letter_discard)?.query_row((id.as_bytes(), died_at), key)?
        }
    };
    if let Some(key) = key {
        tx.prepare_cached(&sql.key_unpark)?.execute((key, id.as_bytes(), at))?;
    }
    Ok(LetterFate::Done)
}

fn whole(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
