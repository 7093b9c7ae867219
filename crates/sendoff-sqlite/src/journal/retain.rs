//! Letting facts go, one by one: a file has no partitions.

use async_trait::async_trait;
use rusqlite::{Connection, TransactionBehavior};
use sendoff_core::journal::Position;
use sendoff_core::journal::publish::{PairId, UnknownCursorStatus};
use sendoff_core::journal::retain::{Follower, Followers};
use sendoff_core::limits;
use sendoff_engine::journal::retain::{Keeping, PurgeFacts, PurgedFacts, RetainJournalStore};
use sendoff_engine::store::StoreError;

use super::sql::Sql;
use super::store::{SqliteJournal, head};
use crate::error::failed;

#[async_trait]
impl RetainJournalStore for SqliteJournal {
    async fn followers(&self) -> Result<Followers, StoreError> {
        let now = self.now();
        self.look(move |conn, sql| {
            let mut statement = conn.prepare_cached(&sql.followers).map_err(failed)?;
            let mut rows = statement.query([]).map_err(failed)?;
            let (mut cursors, mut parked) = (Vec::new(), Vec::new());
            while let Some(row) = rows.next().map_err(failed)? {
                let read = || -> rusqlite::Result<(_, i64, Option<String>)> {
                    let pair = PairId::restore(row.get(0)?, row.get(1)?);
                    Ok((pair, row.get(2)?, row.get(3)?))
                };
                let (pair, number, status) = read().map_err(failed)?;
                let position = place(number)?;
                match status {
                    None => parked.push((pair, position)),
                    Some(status) => {
                        let status = status.parse();
                        let status = status.map_err(|error: UnknownCursorStatus| {
                            StoreError::Refused(error.into())
                        })?;
                        cursors.push(Follower { pair, position, status });
                    }
                }
            }
            Ok(Followers { now, head: head(conn, sql)?, cursors, parked })
        })
        .await
    }

    async fn keeping(&self) -> Result<Keeping, StoreError> {
        self.check_open()?;
        Ok(Keeping::Rows)
    }

    /// One transaction that writes: cursors cannot move while it looks at them.
    async fn purge_facts(&self, purge: &PurgeFacts) -> Result<PurgedFacts, StoreError> {
        let limit = purge.limit.min(limits::BATCH_ROWS);
        let purge = PurgeFacts { limit, ..*purge };
        self.change(move |conn, sql| {
            let mut find = conn.prepare_cached(&sql.purge_find)?;
            let found = find.query_map(bounds(conn, sql, &purge)?, |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
            })?;
            let found: Vec<_> = found.collect::<Result<_, _>>()?;
            let mut forget = conn.prepare_cached(&sql.purge_tags)?;
            let mut delete = conn.prepare_cached(&sql.purge_event)?;
            for (position, tags) in &found {
                forget.execute((position, tags))?;
                delete.execute([position])?;
            }
            Ok((found.len() as u64, found.last().map_or(0, |(position, _)| *position)))
        })
        .await
        .and_then(|(facts, last)| Ok(PurgedFacts { facts, last: place(last)? }))
    }

    async fn purgeable_facts(&self, purge: &PurgeFacts) -> Result<u64, StoreError> {
        let purge = *purge;
        self.look(move |conn, sql| {
            let count = || {
                let mut statement = conn.prepare_cached(&sql.purgeable)?;
                statement.query_row(bounds(conn, sql, &purge)?, |row| row.get::<_, i64>(0))
            };
            Ok(u64::try_from(count().map_err(failed)?).unwrap_or(0))
        })
        .await
    }
}

/// Parameters of `purge_find` and `purgeable`: never above what everybody has passed.
fn bounds(
    conn: &Connection,
    sql: &Sql,
    purge: &PurgeFacts,
) -> rusqlite::Result<(i64, i64, Option<i64>, i64)> {
    let passed: Option<i64> = conn.prepare_cached(&sql.passed)?.query_row([], |row| row.get(0))?;
    let up_to = i64::from(purge.up_to).min(passed.unwrap_or(i64::MAX));
    let before = purge.before.map(sendoff_core::Timestamp::as_micros);
    Ok((purge.after.into(), up_to, before, i64::try_from(purge.limit).unwrap_or(i64::MAX)))
}

fn place(number: i64) -> Result<Position, StoreError> {
    Position::try_from(number).map_err(|invalid| StoreError::Refused(invalid.into()))
}

impl SqliteJournal {
    /// Writes in one transaction.
    async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Sql) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let journal = self.clone();
        let call = move |conn: &mut Connection| {
            let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate);
            let tx = tx.map_err(failed)?;
            let answer = work(&tx, journal.sql()).map_err(failed)?;
            tx.commit().map_err(failed)?;
            Ok(answer)
        };
        self.writer().call(call).await
    }
}
