use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::{Error, Row};
use sendoff_core::{EventId, Status, Timestamp, Token, limits};
use sendoff_engine::store::{
    Extended, Held, Outcome, SettleStore, Settled, Settlement, StoreError,
};

use crate::claim::Tokens;
use crate::link::{Session, Tries};
use crate::options::Retention;
use crate::rows;
use crate::store::MysqlStore;
use crate::wire::{FailedRows, Literal, RestoredRows};

#[async_trait]
impl SettleStore for MysqlStore {
    /// Two round trips: the rows are locked and their tokens read, then what still holds is written.
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        self.check_open()?;
        if batch.is_empty() {
            return Ok(Settled::default());
        }
        let lock = self.lock_text(batch.iter().map(|settlement| settlement.held.id));
        let mut tries = Tries::default();
        loop {
            let mut session = self.links().settlements.session().await?;
            match self.write(&mut session, &lock, batch).await {
                Ok(settled) => {
                    session.keep();
                    return settled.map(|applied| Settled { applied, busy: Vec::new() });
                }
                Err(error) => session.failed(error, &mut tries).await?,
            }
        }
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Extended, StoreError> {
        self.check_open()?;
        if holds.is_empty() {
            return Ok(Extended::default());
        }
        let lock = self.lock_text(holds.iter().map(|held| held.id));
        let mut tries = Tries::default();
        loop {
            let mut session = self.links().settlements.session().await?;
            match self.push(&mut session, &lock, holds, hold).await {
                Ok(extended) => {
                    session.keep();
                    return extended.map(|held| Extended { held, busy: Vec::new() });
                }
                Err(error) => session.failed(error, &mut tries).await?,
            }
        }
    }
}

impl MysqlStore {
    fn lock_text(&self, ids: impl IntoIterator<Item = EventId>) -> String {
        self.sql().lock.with(&[("list", &Literal::id_list(ids))])
    }

    async fn write(
        &self,
        session: &mut Session<'_>,
        lock: &str,
        batch: &[Settlement],
    ) -> Result<Result<Vec<EventId>, StoreError>, Error> {
        let rows = session.query(lock).await?;
        let ends = match (Tokens::of(&rows), types(&rows)) {
            (Ok(tokens), Ok(types)) => {
                let held = batch.iter().filter(|settlement| tokens.proves(&settlement.held));
                Ends::of(held.map(|settlement| (settlement.held.id, &settlement.outcome)), &types)
            }
            (Err(error), _) | (_, Err(error)) => {
                session.query("rollback").await?;
                return Ok(Err(error));
            }
        };
        session.query(&(self.ends_text(&ends) + "commit")).await?;
        Ok(Ok(ends.all))
    }

    /// What writes these ends. The counters come last: others wait for them.
    pub(crate) fn ends_text(&self, ends: &Ends) -> String {
        let sql = self.sql();
        let done = match self.retention() {
            Retention::DeleteWhenDone => &sql.settle_delete,
            Retention::Keep(_) => &sql.settle_done,
        };
        let mut text = String::new();
        for (statement, ids) in [(done, &ends.done), (&sql.settle_release, &ends.released)] {
            if !ids.is_empty() {
                text.push_str(&statement.with(&[
                    ("ids", &Literal::ids(ids.iter().copied())),
                    ("list", &Literal::id_list(ids.iter().copied())),
                ]));
                text.push_str(";\n");
            }
        }
        if !ends.failed.is_empty() {
            text.push_str(&sql.settle_failed.with(&[("rows", &ends.failed.literal())]));
            text.push_str(";\n");
        }
        if !ends.restored.is_empty() {
            text.push_str(&sql.settle_restore.with(&[("rows", &ends.restored.literal())]));
            text.push_str(";\n");
        }
        if !ends.tally.is_empty() {
            let rows: Vec<_> = ends
                .tally
                .iter()
                .map(|((event_type, status), count)| {
                    [Literal::text(event_type), Literal::number(*status), Literal::count(*count)]
                })
                .collect();
            let rows = Literal::rows(rows.iter().map(<[Literal; 3]>::as_slice));
            text.push_str(&sql.tally.with(&[("rows", &rows)]));
            text.push_str(";\n");
        }
        text
    }

    async fn push(
        &self,
        session: &mut Session<'_>,
        lock: &str,
        holds: &[Held],
        hold: Duration,
    ) -> Result<Result<Vec<Held>, StoreError>, Error> {
        let rows = session.query(lock).await?;
        let (still, until) = match still_held(&rows, holds, hold) {
            Ok(Some(found)) => found,
            Ok(None) => {
                session.query("rollback").await?;
                return Ok(Ok(Vec::new()));
            }
            Err(error) => {
                session.query("rollback").await?;
                return Ok(Err(error));
            }
        };
        let extend = self.sql().extend.with(&[
            ("until", &Literal::time(until)),
            ("ids", &Literal::ids(still.iter().copied())),
        ]);
        session.query(&extend).await?;
        let token = Token::new(until);
        Ok(Ok(still.into_iter().map(|id| Held::row(id, token)).collect()))
    }
}

/// Which holds last, and until when they shall: a time that is nobody's token yet.
fn still_held(
    rows: &[Row],
    holds: &[Held],
    hold: Duration,
) -> Result<Option<(Vec<EventId>, Timestamp)>, StoreError> {
    let tokens = Tokens::of(rows)?;
    let still: Vec<&Held> = holds.iter().filter(|held| tokens.proves(held)).collect();
    let (Some(first), false) = (rows.first(), still.is_empty()) else { return Ok(None) };
    let taken: BTreeSet<_> = still.iter().map(|held| held.by.token().due_at()).collect();
    // By the database's clock: it said when it locked.
    let mut until = rows::time(first, 2)?.saturating_add(hold);
    while taken.contains(&until) {
        until = until.saturating_add(Duration::from_micros(1));
    }
    Ok(Some((still.into_iter().map(|held| held.id).collect(), until)))
}

/// The types of locked rows, for the counters.
pub(crate) type Types = HashMap<EventId, String>;

fn types(rows: &[Row]) -> Result<Types, StoreError> {
    rows.iter().map(|row| Ok((rows::id(row, 0)?, rows::name(row, 3)?))).collect()
}

/// Outcomes of rows that are ours to settle, by what they need.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) all: Vec<EventId>,
    done: Vec<EventId>,
    released: Vec<EventId>,
    failed: FailedRows,
    restored: RestoredRows,
    /// What ends here, in the order of the counters' key.
    tally: BTreeMap<(String, i16), usize>,
}

impl Ends {
    /// Only of rows among `types`.
    pub(crate) fn of<'a>(
        outcomes: impl IntoIterator<Item = (EventId, &'a Outcome)>,
        types: &Types,
    ) -> Self {
        let mut ends = Self::default();
        let mut seen = HashSet::new();
        for (id, outcome) in outcomes {
            let Some(event_type) = types.get(&id) else { continue };
            // The first of two settlements of one row ends its hold.
            if !seen.insert(id) {
                continue;
            }
            ends.all.push(id);
            if let Some(status) = outcome.end() {
                *ends.tally.entry((event_type.clone(), status.code())).or_default() += 1;
            }
            match outcome {
                Outcome::Done => ends.done.push(id),
                Outcome::Released => ends.released.push(id),
                Outcome::Restored { due_at } => ends.restored.push(id, *due_at),
                Outcome::Retry { delay, attempts, error } => {
                    ends.fail(id, Status::Retry, *delay, *attempts, error);
                }
                Outcome::Dead { attempts, error } => {
                    ends.fail(id, Status::Dead, Duration::ZERO, *attempts, error);
                }
            }
        }
        ends
    }

    fn fail(&mut self, id: EventId, to: Status, after: Duration, attempts: u32, error: &str) {
        let error = limits::truncate(error, limits::ERROR_CHARS);
        self.failed.push(id, to.code(), after.min(limits::DELAY), attempts, error);
    }
}
