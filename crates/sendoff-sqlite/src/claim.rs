//! Claims, holds and confirmations on SQLite.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction};
use sendoff_core::fair::Share;
use sendoff_core::{EventId, Holding, Timestamp, Token, limits, report};
use sendoff_engine::store::{
    Claim, ClaimStore, Claimed, Claims, Except, Held, RESCUE_SLACK, StoreError, Suspects,
    TenantWalk, TenantsFound,
};
use tracing::error;

use crate::rows::{self, Visible};
use crate::sql::Sql;
use crate::store::{SqliteStore, due, in_transaction};
use crate::{fair, keys};

#[async_trait]
impl ClaimStore for SqliteStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claims, StoreError> {
        let Claim { owner, limit, bytes, hold, skip_recent, window, from, except, .. } = *claim;
        let wanted = Wanted {
            owner: owner.to_owned(),
            limit: limit.min(limits::BATCH_ROWS),
            bytes,
            hold,
            skip_recent,
            window,
            from,
            except: except_of(&except),
            suspects: claim.suspects,
            shares: claim.shares.to_vec(),
        };
        let claimed = self.on_thread(move |conn, sql, clock| {
            // An idle poll takes no lock: it must not wait for, or delay, the application's writes.
            if wanted.limit == 0 || oldest_due(conn, sql)?.is_none_or(|due_at| due_at > clock.now())
            {
                return Ok(Vec::new());
            }
            in_transaction(conn, sql, clock, |tx, sql, now| take(tx, sql, now, &wanted))
        });
        claimed.await.map(Claims::from)
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        let holds: Vec<(EventId, Token)> =
            holds.iter().filter_map(|held| Some((held.id, row_token(held)?))).collect();
        // Reads only: what a snapshot shows as committed and held is proved, without a lock.
        self.read(move |conn, sql, _| {
            let mut held = conn.prepare_cached(&sql.confirm)?;
            let mut proved = Vec::with_capacity(holds.len());
            for (id, token) in holds {
                if held.query_row((id.as_bytes(), token.due_at().as_micros()), |row| row.get(0))? {
                    proved.push(id);
                }
            }
            Ok(proved)
        })
        .await
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        self.write(move |tx, sql, now| {
            let ahead = |most| now.saturating_add(most).as_micros();
            let rescued = tx.prepare_cached(&sql.rescue)?.execute((
                now.as_micros(),
                ahead(longest),
                ahead(RESCUE_SLACK),
                ahead(limits::DELAY),
                limits::BATCH_ROWS as i64,
            ))?;
            tx.prepare_cached(&sql.keys_rescue)?.execute((
                now.as_micros(),
                ahead(longest),
                ahead(limits::DELAY),
                limits::BATCH_ROWS as i64,
            ))?;
            Ok(rescued as u64)
        })
        .await
    }

    async fn check_fair(&self) -> Result<(), StoreError> {
        fair::check(self).await
    }

    async fn tenants(&self, walk: &TenantWalk<'_>) -> Result<TenantsFound, StoreError> {
        fair::tenants(self, walk).await
    }
}

/// A [`Claim`] that can go to the store's thread.
pub(crate) struct Wanted {
    pub(crate) owner: String,
    pub(crate) limit: usize,
    pub(crate) bytes: usize,
    hold: Duration,
    pub(crate) skip_recent: Duration,
    pub(crate) window: Option<Duration>,
    pub(crate) from: Option<Timestamp>,
    /// What is left out, as the statement takes it.
    pub(crate) except: Option<(String, String)>,
    suspects: Suspects,
    pub(crate) shares: Vec<Share>,
}

/// Kinds of events and event types, each in JSON; nothing if there are none.
pub(crate) fn except_of(except: &Except<'_>) -> Option<(String, String)> {
    let pairs = except.kinds.iter().map(|kind| [kind.aggregate_type, kind.event_type]);
    (!except.is_empty()).then(|| {
        let pairs = serde_json::Value::from_iter(pairs.map(|pair| serde_json::json!(pair)));
        (pairs.to_string(), serde_json::json!(except.types).to_string())
    })
}

fn take(
    tx: &Transaction<'_>,
    sql: &Sql,
    now: Timestamp,
    wanted: &Wanted,
) -> rusqlite::Result<Vec<Claimed>> {
    // Read to the end before the first row is held: holding moves it in the index being walked.
    let found = match wanted.shares.is_empty() {
        true => visible(tx, sql, now, wanted)?,
        false => fair::visible(tx, sql, now, wanted)?,
    };
    let mut hold = tx.prepare_cached(&sql.hold)?;
    let mut claimed = Vec::with_capacity(found.len());
    for row in found {
        let row = held(row, now, wanted);
        let taken = hold.execute((
            row.seq,
            row.token.due_at().as_micros(),
            &wanted.owner,
            row.claimed.attempts,
            row.claimed.lost,
        ));
        match taken {
            Ok(_) => claimed.push(row.claimed),
            // A trigger or a constraint of somebody's: it must not keep the others from going out.
            Err(error) if is_refusal(&error) => {
                set_aside(tx, sql, now, &row, &error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(claimed)
}

/// The visible rows that are wanted, oldest due first.
fn visible(
    tx: &Transaction<'_>,
    sql: &Sql,
    now: Timestamp,
    wanted: &Wanted,
) -> rusqlite::Result<Vec<Visible>> {
    let statement = match (wanted.suspects, &wanted.except) {
        (Suspects::Skip, None) => &sql.claim,
        (Suspects::Only, None) => &sql.claim_suspects,
        (Suspects::Skip, Some(_)) => &sql.claim_except,
        (Suspects::Only, Some(_)) => &sql.claim_suspects_except,
    };
    let (until, created_from) = rows::created_within(now, wanted.skip_recent, wanted.window);
    let mut statement = tx.prepare_cached(statement)?;
    let (now_micros, from, limit) =
        (now.as_micros(), rows::due_from(wanted.from), wanted.limit as i64);
    let found = match &wanted.except {
        None => statement.query((now_micros, until, from, created_from, limit, &wanted.owner))?,
        Some((kinds, types)) => statement.query((
            now_micros,
            until,
            from,
            created_from,
            limit,
            &wanted.owner,
            kinds,
            types,
        ))?,
    };
    rows::visible_within(found, wanted.bytes)
}

/// Whether a trigger or a constraint of somebody's refused one row.
pub(crate) fn is_refusal(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

/// A row that cannot be held is dead with the reason, or at least named where it cannot even be that.
fn set_aside(
    tx: &Transaction<'_>,
    sql: &Sql,
    now: Timestamp,
    row: &Taken,
    error: &rusqlite::Error,
) {
    let (id, reason) = (row.claimed.id, format!("cannot be held: {}", report(error)));
    let kept = limits::truncate(&reason, limits::ERROR_CHARS);
    let key = row.claimed.event.as_ref().ok().and_then(|event| event.ordering_key());
    let dead = tx
        .prepare_cached(&sql.set_aside)
        .and_then(|mut dead| dead.execute((row.seq, now.as_micros(), kept)))
        // Nobody here knows whether its key may go on without it.
        .and_then(|_| key.map_or(Ok(()), |key| keys::park(tx, sql, now, key, id)));
    match dead {
        Ok(_) => error!(event.id = %id, error = reason, "event is dead"),
        Err(_) => {
            error!(event.id = %id, error = reason, "row passed by: it can be neither held nor ended")
        }
    }
}

/// The token of a row that is held; none where no transaction but the holder's own can prove the
/// holding.
pub(crate) fn row_token(held: &Held) -> Option<Token> {
    match held.by {
        Holding::Row(token) => Some(token),
        // Settled by `settle_all` in the transaction that has it: see `locked.rs`. What is held by its key is
        // settled with that: see `keys.rs`.
        Holding::Lock | Holding::Key(_) => None,
    }
}

struct Taken {
    seq: i64,
    token: Token,
    claimed: Claimed,
}

/// What the claim makes of a visible row.
fn held(row: Visible, now: Timestamp, wanted: &Wanted) -> Taken {
    let holder = row.locked_by.as_deref();
    let lost = holder.is_some_and(|holder| holder != wanted.owner.as_bytes());
    let token = Token::new(due(now, wanted.hold, Some(row.due_at)));
    let (seq, attempts) = (row.seq, row.attempts.saturating_add(u32::from(lost)));
    let claimed = Claimed { attempts, ..row.claimed(Holding::Row(token), lost, now) };
    Taken { seq, token, claimed }
}

/// When the first pending row is or was due.
pub(crate) fn oldest_due(conn: &Connection, sql: &Sql) -> rusqlite::Result<Option<Timestamp>> {
    conn.prepare_cached(&sql.oldest_due)?
        .query_row([], |row| row.get(0).map(Timestamp::from_micros))
        .optional()
}
