//! Order within a key on SQLite: keys are held, and their rows are not written until they are settled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row};
use sendoff_core::order::{
    AfterDead, Ending, HOT_CHAIN, Head, KeyEntry, KeyToken, Look, TakeTerms, is_in_line, look,
};
use sendoff_core::{EventId, Holding, Timestamp, Token, limits};
use sendoff_engine::store::{
    Confirmed, EventKind, Except, ExtendKeys, ExtendedKeys, Held, HeldKey, KeyRun, KeyStore,
    Outcome, RunEnd, RunsWanted, SettledRuns, StoreError, Suspects, TakeKeys, TakenKey, TakenKeys,
    WalkFrom, Walked, Window,
};

use crate::claim::{is_refusal, row_token};
use crate::options::Retention;
use crate::rows::{Room, Visible, count, in_line_within, readable, time, verbatim};
use crate::settle::{Ended, settle};
use crate::sql::Sql;
use crate::store::{SqliteStore, due, in_transaction};

#[async_trait]
impl KeyStore for SqliteStore {
    fn keeps_order(&self) -> bool {
        true
    }

    async fn take_keys(&self, take: &TakeKeys<'_>) -> Result<TakenKeys, StoreError> {
        let wanted = Wanted::new(take);
        if wanted.limit == 0 {
            return self.check_open().map(|()| TakenKeys::default());
        }
        self.on_thread(move |conn, sql, clock| {
            // A look that finds nothing takes no lock: it must not wait for, or delay, the application's
            // writes.
            if let Some(walked) = wanted.nothing_to_take(conn, sql, clock.now())? {
                return Ok(TakenKeys { walked, ..TakenKeys::default() });
            }
            in_transaction(conn, sql, clock, |tx, sql, now| wanted.take(tx, sql, now))
        })
        .await
    }

    async fn runs(&self, wanted: &RunsWanted<'_>) -> Result<Vec<KeyRun>, StoreError> {
        let (keys, mut room) = (wanted.keys.to_vec(), Room::new(wanted.bytes));
        self.read(move |conn, sql, now| {
            let mut first = conn.prepare_cached(&sql.run)?;
            let mut runs = Vec::with_capacity(keys.len());
            for taken in keys {
                // One more says whether these are all.
                let found = first.query((&*taken.key, i64::from(taken.run) + 1))?;
                let (rows, whole) = in_line_within(found, taken.run as usize, &mut room)?;
                let lost = |at| taken.lost && at == 0;
                let by = Holding::Key(taken.token);
                let claimed = |(at, row): (_, Visible)| row.claimed(by, lost(at), now);
                let rows = rows.into_iter().enumerate().map(claimed).collect();
                runs.push(KeyRun { key: taken.key.clone(), rows, whole });
            }
            Ok(runs)
        })
        .await
    }

    async fn settle_runs(&self, owner: &str, ends: &[RunEnd]) -> Result<SettledRuns, StoreError> {
        if ends.is_empty() {
            return self.check_open().map(|()| SettledRuns::default());
        }
        let (owner, ends, retention) = (owner.to_owned(), ends.to_vec(), self.retention());
        self.write(move |tx, sql, now| {
            let mut applied = Vec::with_capacity(ends.len());
            let mut ended = Ended::default();
            for end in ends {
                if end_run(tx, sql, now, retention, &owner, &end, &mut ended)? {
                    applied.push(end.held.key);
                }
            }
            ended.count(tx, sql, now)?;
            // SQLite locks the file, never a row: nothing here is busy.
            Ok(SettledRuns { applied, busy: Vec::new() })
        })
        .await
    }

    async fn extend_keys(&self, extend: &ExtendKeys<'_>) -> Result<ExtendedKeys, StoreError> {
        let ExtendKeys { owner, keys, hold } = *extend;
        if keys.is_empty() {
            return self.check_open().map(|()| ExtendedKeys::default());
        }
        let (owner, keys) = (owner.to_owned(), keys.to_vec());
        self.write(move |tx, sql, now| {
            let until = due(now, hold, None).as_micros();
            let mut extend = tx.prepare_cached(&sql.key_extend)?;
            let mut held = Vec::with_capacity(keys.len());
            for HeldKey { key, token } in keys {
                if extend.execute((&*key, taken_at(token), &owner, until))? > 0 {
                    held.push(key);
                }
            }
            Ok(ExtendedKeys { held, busy: Vec::new() })
        })
        .await
    }

    async fn confirm_keys(&self, holds: &[Held]) -> Result<Vec<Confirmed>, StoreError> {
        let holds: Vec<(EventId, Token)> =
            holds.iter().filter_map(|held| Some((held.id, row_token(held)?))).collect();
        self.read(move |conn, sql, _| {
            // One snapshot: what dies between two statements would be neither below nor seen to park.
            let snapshot = conn.unchecked_transaction()?;
            let mut confirmed = Vec::with_capacity(holds.len());
            for (id, token) in holds {
                confirmed.extend(confirm(&snapshot, sql, id, token)?);
            }
            confirmed.sort_unstable_by_key(|confirmed: &Confirmed| confirmed.seq);
            Ok(confirmed)
        })
        .await
    }

    async fn shelve(&self, window: Window, age: Duration) -> Result<u64, StoreError> {
        self.on_thread(move |conn, sql, clock| {
            if to_shelve(conn, sql, window, age, clock.now())?.is_empty() {
                return Ok(0);
            }
            in_transaction(conn, sql, clock, |tx, sql, now| {
                let mut shelved = 0;
                for (seq, key) in to_shelve(tx, sql, window, age, now)? {
                    match tx.prepare_cached(&sql.shelve_row)?.execute([seq]) {
                        Ok(_) => shelved += 1,
                        // It stays in the way of walks, and nothing else.
                        Err(error) if is_refusal(&error) => continue,
                        Err(error) => return Err(error),
                    }
                    tx.prepare_cached(&sql.shelve_key)?.execute([key])?;
                }
                Ok(shelved)
            })
        })
        .await
    }
}

/// Which keys to take: [`TakeKeys`] that can go to the store's thread.
struct Wanted {
    owner: String,
    limit: usize,
    run: u32,
    hold: Duration,
    kinds: Vec<(String, String)>,
    types: Vec<String>,
    suspects: Suspects,
    walk: Option<WalkFrom>,
}

/// A key that is due, as its entry says.
struct DueKey {
    key: Option<Arc<str>>,
    /// As it is stored.
    stored: Vec<u8>,
    entry: KeyEntry,
    taken_at: Option<Timestamp>,
}

/// What a walk came across.
struct Found {
    walked: Walked,
    /// Keys that have no entry.
    fresh: Vec<Arc<str>>,
    /// Rows whose keys cannot be read.
    unreadable: Vec<i64>,
}

impl Wanted {
    fn new(take: &TakeKeys<'_>) -> Self {
        let kind = |kind: &EventKind<'_>| (kind.aggregate_type.to_owned(), kind.event_type.into());
        Self {
            owner: take.owner.to_owned(),
            limit: take.limit.min(limits::BATCH_ROWS),
            run: take.run,
            hold: take.hold,
            kinds: take.except.kinds.iter().map(kind).collect(),
            types: take.except.types.iter().map(|&of| of.to_owned()).collect(),
            suspects: take.suspects,
            walk: take.walk.filter(|_| take.suspects == Suspects::Skip),
        }
    }

    /// How far a walk came that found nothing, where no key is due either; nothing where there is something
    /// to take.
    fn nothing_to_take(
        &self,
        conn: &Connection,
        sql: &Sql,
        now: Timestamp,
    ) -> rusqlite::Result<Option<Option<Walked>>> {
        if !self.due(conn, sql, now, 1)?.is_empty() {
            return Ok(None);
        }
        let Some(walk) = self.walk else { return Ok(Some(None)) };
        let Found { walked, fresh, unreadable } = self.walk(conn, sql, walk, self.limit)?;
        Ok((fresh.is_empty() && unreadable.is_empty()).then_some(Some(walked)))
    }

    fn take(&self, tx: &Connection, sql: &Sql, now: Timestamp) -> rusqlite::Result<TakenKeys> {
        let mut taken = TakenKeys::default();
        let due = self.due(tx, sql, now, self.limit)?;
        let (suspects, full) = (self.suspects == Suspects::Only, due.len() == self.limit);
        let terms = TakeTerms { run: self.run, suspects, full };
        for due in due {
            self.look_at(tx, sql, now, terms, due, &mut taken)?;
        }
        let room = self.limit.saturating_sub(taken.keys.len());
        if let Some(walk) = self.walk.filter(|_| room > 0) {
            let Found { walked, fresh, unreadable } = self.walk(tx, sql, walk, room)?;
            taken.walked = Some(walked);
            for key in fresh {
                taken.keys.push(self.list(tx, sql, now, key)?);
            }
            for seq in unreadable {
                by_itself(tx, sql, now, seq)?;
            }
        }
        Ok(taken)
    }

    fn due(
        &self,
        conn: &Connection,
        sql: &Sql,
        now: Timestamp,
        limit: usize,
    ) -> rusqlite::Result<Vec<DueKey>> {
        let text = match self.suspects {
            Suspects::Skip => &sql.keys_due,
            Suspects::Only => &sql.keys_suspect,
        };
        let mut due = conn.prepare_cached(text)?;
        let found = due.query_map((now.as_micros(), &self.owner, limit as i64), |row| {
            Ok(DueKey {
                key: readable(row.get_ref(0)?).map(Arc::from),
                stored: row.get_ref(0)?.as_bytes()?.to_vec(),
                entry: KeyEntry {
                    since: time(row, 1)?,
                    run: count(row, 3)?,
                    careful: count(row, 4)?,
                    losses: count(row, 5)?,
                    lost: row.get(6)?,
                },
                taken_at: row.get::<_, Option<i64>>(2)?.map(Timestamp::from_micros),
            })
        })?;
        found.collect()
    }

    fn look_at(
        &self,
        tx: &Connection,
        sql: &Sql,
        now: Timestamp,
        terms: TakeTerms,
        due_key: DueKey,
        taken: &mut TakenKeys,
    ) -> rusqlite::Result<()> {
        let DueKey { key, stored, entry, taken_at } = due_key;
        // An entry that nobody could name is none of ours.
        let Some(key) = key else {
            let stored = verbatim(&stored);
            return tx.prepare_cached(&sql.key_gone)?.execute([stored]).map(drop);
        };
        let head = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, self.head(row)?));
        let head = tx.prepare_cached(&sql.key_head)?.query_row([&*key], head).optional()?;
        let (first, head) = head.map_or((None, Head::None), |(seq, head)| (Some(seq), head));
        match look(&entry, head, now, terms) {
            Look::Take { run, careful, losses, blame } => {
                // A clock that stepped back must not hand out a token a second time.
                let token = match taken_at {
                    Some(last) if last >= now => last.saturating_add(Duration::from_micros(1)),
                    _ => now,
                };
                tx.prepare_cached(&sql.key_take)?.execute((
                    &*key,
                    &self.owner,
                    token.as_micros(),
                    due(now, self.hold, None).as_micros(),
                    now.as_micros(),
                    run,
                    careful,
                    losses,
                ))?;
                if let Some(seq) = first.filter(|_| blame) {
                    passing_refusals(tx.prepare_cached(&sql.key_blame)?.execute([seq]))?;
                }
                let token = KeyToken::new(token);
                taken.keys.push(TakenKey { key, token, run, lost: blame });
            }
            Look::Later { at, careful } => {
                tx.prepare_cached(&sql.key_later)?.execute((&*key, at.as_micros(), careful))?;
                let after = at.since(now);
                taken.next = Some(taken.next.map_or(after, |next| next.min(after)));
                taken.put_off += 1;
            }
            Look::Left { last } => {
                if last {
                    tx.prepare_cached(&sql.key_last)?.execute((&*key, now.as_micros()))?;
                }
                taken.put_off += 1;
            }
            Look::Gone => {
                tx.prepare_cached(&sql.key_gone)?.execute([&*key])?;
            }
        }
        Ok(())
    }

    fn head(&self, row: &Row<'_>) -> rusqlite::Result<Head> {
        let due_at = time(row, 1)?;
        if is_in_line(due_at) {
            return Ok(if self.leaves_out(row, 3)? { Head::LeftOut } else { Head::InLine });
        }
        Ok(if row.get(2)? { Head::Held(due_at) } else { Head::Due(due_at) })
    }

    /// Whether a row is of a kind that is left out; its aggregate type and its type are two columns.
    fn leaves_out(&self, row: &Row<'_>, column: usize) -> rusqlite::Result<bool> {
        if self.kinds.is_empty() && self.types.is_empty() {
            return Ok(false);
        }
        let aggregate_type = readable(row.get_ref(column)?);
        let (Some(aggregate_type), Some(event_type)) =
            (aggregate_type, readable(row.get_ref(column + 1)?))
        else {
            return Ok(false);
        };
        let kind = EventKind { aggregate_type: &aggregate_type, event_type: &event_type };
        let kinds: Vec<EventKind<'_>> = self.kinds.iter().map(EventKind::from).collect();
        let types: Vec<&str> = self.types.iter().map(String::as_str).collect();
        Ok(Except { kinds: &kinds, types: &types }.has(kind))
    }

    fn walk(
        &self,
        conn: &Connection,
        sql: &Sql,
        walk: WalkFrom,
        room: usize,
    ) -> rusqlite::Result<Found> {
        let mut found = Found {
            walked: Walked { end: true, ..Walked::default() },
            fresh: Vec::new(),
            unreadable: Vec::new(),
        };
        let mut seen = BTreeSet::new();
        // One more says whether these are all.
        let most = i64::try_from(walk.rows.saturating_add(1)).unwrap_or(i64::MAX);
        let mut rows = conn.prepare_cached(&sql.key_walk)?;
        let mut rows = rows.query((walk.after, most))?;
        while let Some(row) = rows.next()? {
            if found.walked.rows == walk.rows || found.fresh.len() == room {
                found.walked.end = false;
                break;
            }
            let seq = row.get(0)?;
            (found.walked.last, found.walked.rows) = (Some(seq), found.walked.rows + 1);
            let Some(key) = readable(row.get_ref(1)?) else {
                found.unreadable.push(seq);
                continue;
            };
            if row.get(4)? {
                found.walked.listed += 1;
            } else if !seen.contains(&key) {
                if !self.leaves_out(row, 2)? {
                    found.fresh.push(Arc::from(&*key));
                }
                seen.insert(key);
            }
        }
        Ok(found)
    }

    fn list(
        &self,
        tx: &Connection,
        sql: &Sql,
        now: Timestamp,
        key: Arc<str>,
    ) -> rusqlite::Result<TakenKey> {
        tx.prepare_cached(&sql.key_list)?.execute((
            &*key,
            &self.owner,
            now.as_micros(),
            due(now, self.hold, None).as_micros(),
            self.run,
        ))?;
        Ok(TakenKey { key, token: KeyToken::new(now), run: self.run, lost: false })
    }
}

/// A row in line whose key cannot be read is due by itself: a claim finds that it is no event.
fn by_itself(tx: &Connection, sql: &Sql, now: Timestamp, seq: i64) -> rusqlite::Result<()> {
    passing_refusals(tx.prepare_cached(&sql.key_unreadable)?.execute((seq, now.as_micros())))
}

/// What a trigger or a constraint of somebody's refuses must not keep others from going out.
fn passing_refusals(changed: rusqlite::Result<usize>) -> rusqlite::Result<()> {
    match changed {
        Err(error) if !is_refusal(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Carries out what became of one key and its events, if its token is the entry's.
fn end_run(
    tx: &Connection,
    sql: &Sql,
    now: Timestamp,
    retention: Retention,
    owner: &str,
    end: &RunEnd,
    ended: &mut Ended,
) -> rusqlite::Result<bool> {
    let RunEnd { held: HeldKey { key, token }, rows, ending } = end;
    let held = tx
        .prepare_cached(&sql.key_held)?
        .query_row((&**key, taken_at(*token), owner), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((was_parked, shelved)): Option<(bool, bool)> = held else { return Ok(false) };
    let mut parked_by = None;
    for (id, outcome) in rows {
        let held = Held { id: *id, by: Holding::Key(*token) };
        // One that is in line no more, or gone, is passed over.
        let Some(over) = settle(tx, sql, now, retention, held, outcome)? else { continue };
        ended.add(over.event_type, outcome);
        if parks(outcome) {
            parked_by = Some(id.as_bytes());
        }
    }
    let parked = was_parked || parked_by.is_some();
    let due_at = match ending {
        Ending::HeldOn => {
            tx.prepare_cached(&sql.key_go_on)?.execute((&**key, !rows.is_empty(), parked_by))?;
            return Ok(true);
        }
        Ending::Exhausted if !shelved && !parked => {
            tx.prepare_cached(&sql.key_gone)?.execute([&**key])?;
            return Ok(true);
        }
        Ending::After(delay) => due(now, *delay, None),
        Ending::Free | Ending::Exhausted => now,
    };
    tx.prepare_cached(&sql.key_free)?.execute((
        &**key,
        !rows.is_empty(),
        parked_by,
        due_at.as_micros(),
        now.as_micros(),
    ))?;
    Ok(true)
}

/// A row with a key that was held by itself is settled: its key waits for it no longer, or for a person.
pub(crate) fn row_ended(
    conn: &Connection,
    sql: &Sql,
    now: Timestamp,
    key: &str,
    id: EventId,
    outcome: &Outcome,
) -> rusqlite::Result<()> {
    if parks(outcome) {
        return park(conn, sql, now, key, id);
    }
    conn.prepare_cached(&sql.key_wake)?.execute((key, now.as_micros())).map(drop)
}

/// A key waits for what becomes of a dead event.
pub(crate) fn park(
    conn: &Connection,
    sql: &Sql,
    now: Timestamp,
    key: &str,
    id: EventId,
) -> rusqlite::Result<()> {
    conn.prepare_cached(&sql.key_park)?.execute((key, id.as_bytes(), now.as_micros())).map(drop)
}

fn parks(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Dead { then: AfterDead::Park, .. })
}

fn confirm(
    snapshot: &Connection,
    sql: &Sql,
    id: EventId,
    token: Token,
) -> rusqlite::Result<Option<Confirmed>> {
    let row = |row: &Row<'_>| Ok((row.get(0)?, readable(row.get_ref(1)?)));
    let held = snapshot
        .prepare_cached(&sql.confirm_row)?
        .query_row((id.as_bytes(), token.due_at().as_micros()), row)
        .optional()?;
    let Some((seq, key)) = held else { return Ok(None) };
    let Some(key) = key else {
        return Ok(Some(Confirmed { id, seq, below: Vec::new(), parked: false }));
    };
    let below = snapshot
        .prepare_cached(&sql.confirm_below)?
        .query_map((&key, seq, HOT_CHAIN as i64 + 1), |row| row.get(0).map(EventId::from_bytes))?
        .collect::<Result<_, _>>()?;
    let parked =
        snapshot.prepare_cached(&sql.confirm_parked)?.query_row([&key], |row| row.get(0))?;
    Ok(Some(Confirmed { id, seq, below, parked }))
}

/// The rows of a window that are in the way of walks, and their keys.
fn to_shelve(
    conn: &Connection,
    sql: &Sql,
    Window { after, last }: Window,
    age: Duration,
    now: Timestamp,
) -> rusqlite::Result<Vec<(i64, String)>> {
    let before = now.saturating_sub(age).as_micros();
    let mut rows = conn.prepare_cached(&sql.shelve)?;
    let rows = rows.query_map((after, last, before, limits::BATCH_ROWS as i64), |row| {
        Ok((row.get(0)?, readable(row.get_ref(1)?)))
    })?;
    let named = |row: rusqlite::Result<(i64, Option<String>)>| {
        row.map(|(seq, key)| key.map(|key| (seq, key))).transpose()
    };
    rows.filter_map(named).collect()
}

fn taken_at(token: KeyToken) -> i64 {
    token.taken_at().as_micros()
}
