//! Order within a key on MySQL and MariaDB: each call is one text, and what it locks is free when that ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::Row;
use sendoff_core::order::{HOT_CHAIN, KeyToken};
use sendoff_core::{EventId, limits};
use sendoff_engine::store::{
    Claimed, Confirmed, ExtendKeys, ExtendedKeys, Held, HeldKey, KeyRun, KeyStore, RunEnd,
    RunsWanted, SettledRuns, StoreError, Suspects, TakeKeys, TakenKey, TakenKeys, Walked, Window,
};
use tokio::time::sleep;

use crate::claim::row_token;
use crate::durable;
use crate::rows;
use crate::settle::{Noted, PASSING, end_of, longest_error, places, places_in};
use crate::store::MysqlStore;
use crate::wire::{EndRows, KeyRows, Literal};

#[async_trait]
impl KeyStore for MysqlStore {
    fn keeps_order(&self) -> bool {
        true
    }

    async fn take_keys(&self, take: &TakeKeys<'_>) -> Result<TakenKeys, StoreError> {
        self.check_open()?;
        if take.limit == 0 {
            return Ok(TakenKeys::default());
        }
        if self.has_no_keys(take).await? {
            let end = Walked { end: true, ..Walked::default() };
            let walked = take.walk.filter(|_| take.suspects == Suspects::Skip).map(|_| end);
            return Ok(TakenKeys { walked, ..TakenKeys::default() });
        }
        let taken = taken(&self.links().claims.results(&self.take_text(take)).await?, take)?;
        let walked = taken.walked.is_some_and(|walked| walked.rows > 0);
        self.idle().learn_keys(take, !taken.keys.is_empty() || taken.put_off > 0 || walked);
        Ok(taken)
    }

    async fn runs(&self, wanted: &RunsWanted<'_>) -> Result<Vec<KeyRun>, StoreError> {
        self.check_open()?;
        let Some(longest) = wanted.keys.iter().map(|key| key.run).max() else {
            return Ok(Vec::new());
        };
        let mut keys = KeyRows::default();
        wanted.keys.iter().for_each(|key| keys.wanted(&key.key, key.run));
        let text = self.sql().runs.with(&[
            ("keys", &keys.literal()),
            // One more than any may run: whether there is more.
            ("longest", &Literal::number(i64::from(longest).saturating_add(1))),
            ("bytes", &Literal::count(wanted.bytes)),
        ]);
        // Nothing is committed by reading: what was read might not outlive a crash of the server.
        let text = format!("{text};\n{}", durable::outbox(self.sql()));
        let mut results = self.links().claims.results(&text).await?;
        let found = results.pop().unwrap_or_default();
        let cut = places(&results.pop().unwrap_or_default())?;
        let mut of_keys: Vec<Vec<Row>> = wanted.keys.iter().map(|_| Vec::new()).collect();
        for row in found {
            let place = rows::place(&row)?;
            let of_key = place.checked_sub(1).and_then(|at| of_keys.get_mut(at));
            of_key.ok_or_else(|| unreadable("a place in a list of keys"))?.push(row);
        }
        let runs = wanted.keys.iter().zip(of_keys).enumerate();
        runs.map(|(at, (key, rows))| {
            let (key, whole) = (key, !cut.contains(&(at + 1)));
            Ok(KeyRun { key: key.key.clone(), rows: run_of(key, rows)?, whole })
        })
        .collect()
    }

    async fn settle_runs(&self, owner: &str, ends: &[RunEnd]) -> Result<SettledRuns, StoreError> {
        self.check_open()?;
        let mut ends: Vec<&RunEnd> = ends.iter().collect();
        // In one order, whoever locks them.
        ends.sort_by(|one, other| one.held.key.cmp(&other.held.key));
        let mut settled = self.settle_free_runs(owner, &ends).await?;
        if !settled.busy.is_empty() {
            sleep(PASSING).await;
            ends.retain(|end| settled.busy.contains(&end.held.key));
            let again = self.settle_free_runs(owner, &ends).await?;
            settled.applied.extend(again.applied);
            settled.busy = again.busy;
        }
        Ok(settled)
    }

    async fn extend_keys(&self, extend: &ExtendKeys<'_>) -> Result<ExtendedKeys, StoreError> {
        let ExtendKeys { owner, keys, hold } = *extend;
        self.check_open()?;
        if keys.is_empty() {
            return Ok(ExtendedKeys::default());
        }
        let mut keys: Vec<&HeldKey> = keys.iter().collect();
        keys.sort_by(|one, other| one.key.cmp(&other.key));
        let text = self.sql().extend_keys.with(&[
            ("keys", &held_list(&keys)),
            ("owner", &Literal::text(owner)),
            ("hold", &Literal::span(hold)),
        ]);
        let found = places(&self.links().settlements.query(&text).await?)?;
        let (held, missing): (Vec<_>, Vec<_>) =
            keys.into_iter().enumerate().partition(|(at, _)| found.contains(&(at + 1)));
        let missing: Vec<&HeldKey> = missing.into_iter().map(|(_, held)| held).collect();
        let busy = self.still_held(owner, &missing).await?;
        Ok(ExtendedKeys {
            held: held.into_iter().map(|(_, held)| held.key.clone()).collect(),
            busy,
        })
    }

    async fn confirm_keys(&self, holds: &[Held]) -> Result<Vec<Confirmed>, StoreError> {
        self.check_open()?;
        if holds.is_empty() {
            return Ok(Vec::new());
        }
        let ids = Literal::ids(holds.iter().map(|held| held.id));
        let longest = Literal::count(HOT_CHAIN + 1);
        let text = self.sql().confirm_keys.with(&[("ids", &ids), ("longest", &longest)]);
        let mut results = self.links().proofs.results(&text).await?;
        let found = results.pop().unwrap_or_default();
        let mut live: HashMap<Vec<u8>, Vec<(i64, EventId)>> = HashMap::new();
        for row in results.pop().unwrap_or_default() {
            let key = rows::maybe(&row, 0).unwrap_or_default().to_vec();
            live.entry(key).or_default().push((rows::integer(&row, 2)?, rows::id(&row, 1)?));
        }
        live.values_mut().for_each(|live| live.sort_unstable_by_key(|(seq, _)| *seq));
        let mut confirmed = Vec::new();
        for row in &found {
            let (id, due_at) = (rows::id(row, 0)?, rows::time(row, 1)?);
            let mut tokens = holds.iter().filter(|held| held.id == id).filter_map(row_token);
            if !tokens.any(|token| token.due_at() == due_at) {
                continue;
            }
            let seq = rows::integer(row, 2)?;
            let live = rows::maybe(row, 3).and_then(|key| live.get(key));
            let below = live.into_iter().flatten().take_while(|(live, _)| *live < seq);
            let below = below.map(|(_, id)| *id).take(HOT_CHAIN + 1).collect();
            confirmed.push(Confirmed { id, seq, below, parked: rows::integer(row, 4)? != 0 });
        }
        confirmed.sort_unstable_by_key(|confirmed| confirmed.seq);
        Ok(confirmed)
    }

    async fn shelve(&self, window: Window, age: Duration) -> Result<u64, StoreError> {
        self.check_open()?;
        let text = self.sql().shelve.with(&[
            ("after", &Literal::number(window.after)),
            ("last", &Literal::number(window.last)),
            ("age", &Literal::span(age)),
            ("limit", &Literal::count(limits::BATCH_ROWS)),
        ]);
        let shelved = self.links().claims.query(&text).await?;
        let shelved = shelved.first().map_or(Ok(0), |row| rows::integer(row, 0))?;
        Ok(u64::try_from(shelved).unwrap_or(0))
    }
}

impl MysqlStore {
    fn take_text(&self, take: &TakeKeys<'_>) -> String {
        let sql = self.sql();
        let walk = take.walk.filter(|_| take.suspects == Suspects::Skip);
        let after = walk.map_or(0, |walk| walk.after);
        let rows = walk.map_or(0, |walk| walk.rows.min(limits::BATCH_ROWS));
        let values = [
            ("owner", &Literal::text(take.owner)),
            ("limit", &Literal::count(take.limit.min(limits::BATCH_ROWS))),
            ("run", &Literal::number(take.run.max(1))),
            ("hold", &Literal::span(take.hold)),
            ("kinds", &Literal::other_kinds(take.except.kinds)),
            ("types", &Literal::other_types(take.except.types)),
            ("after", &Literal::number(after)),
            ("rows", &Literal::count(rows)),
            // Whether there are more after these.
            ("more", &Literal::count(rows + 1)),
        ];
        let due = match take.suspects {
            Suspects::Skip => &sql.take_keys,
            Suspects::Only => &sql.take_suspect_keys,
        };
        let mut text = due.with(&values);
        text.push_str(";\n");
        if walk.is_some() {
            text.push_str(&sql.walk_keys.with(&values));
            text.push_str(";\n");
        }
        text.push_str("commit;\n");
        text.push_str(&sql.taken_keys.with(&values));
        text
    }

    /// Settles what nobody has locked.
    async fn settle_free_runs(
        &self,
        owner: &str,
        ends: &[&RunEnd],
    ) -> Result<SettledRuns, StoreError> {
        if ends.is_empty() {
            return Ok(SettledRuns::default());
        }
        let outcomes = || ends.iter().flat_map(|end| &end.rows).map(|(_, outcome)| outcome);
        let cut = longest_error(outcomes());
        let (mut keys, mut rows) = (KeyRows::default(), EndRows::default());
        for (at, RunEnd { held, rows: ended, ending }) in ends.iter().enumerate() {
            keys.ends(&held.key, held.token, *ending, !ended.is_empty());
            for (id, outcome) in ended {
                rows.in_line(*id, (at + 1, &held.key), &end_of(outcome, cut));
            }
        }
        let (sql, count) = (self.sql(), Literal::count(outcomes().count()));
        let (keys, rows, owner_text) = (keys.literal(), rows.literal(), Literal::text(owner));
        let ends_text = self.ends_text(outcomes(), Noted::InLine);
        let text = |entry: &Literal, too: &Literal| {
            let lock = sql.lock_runs.with(&[
                ("keys", &keys),
                ("rows", &rows),
                ("owner", &owner_text),
                ("count", &count),
                ("entry", entry),
                ("too", too),
            ]);
            let (end, ended) = (sql.end_runs.text(), sql.ended_runs.text());
            format!("{lock};\n{ends_text}{end};\ncommit;\n{ended}")
        };
        let answer = self.change_free(text).await?;
        let mine = answer.first().and_then(|row| rows::maybe(row, 0)).unwrap_or_default();
        let locked = places_in(&answer, 1)?;
        let mut settled = SettledRuns::default();
        let mut missing = Vec::new();
        for (at, end) in ends.iter().enumerate() {
            match mine.get(at) {
                Some(b'1') if locked.contains(&(at + 1)) => settled.busy.push(end.held.key.clone()),
                Some(b'1') => settled.applied.push(end.held.key.clone()),
                _ => missing.push(&end.held),
            }
        }
        settled.busy.extend(self.still_held(owner, &missing).await?);
        Ok(settled)
    }

    /// Which of the keys that were not found are held by these tokens all the same: somebody else has their
    /// entries locked. A plain read, which waits for nobody.
    async fn still_held(
        &self,
        owner: &str,
        missing: &[&HeldKey],
    ) -> Result<Vec<Arc<str>>, StoreError> {
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let (keys, owner) = (held_list(missing), Literal::text(owner));
        let text = self.sql().held_keys.with(&[("keys", &keys), ("owner", &owner)]);
        let held = places(&self.links().settlements.query(&text).await?)?;
        let held = missing.iter().enumerate().filter(|(at, _)| held.contains(&(at + 1)));
        Ok(held.map(|(_, held)| held.key.clone()).collect())
    }
}

fn held_list(keys: &[&HeldKey]) -> Literal {
    let mut list = KeyRows::default();
    keys.iter().for_each(|held| list.held(&held.key, held.token));
    list.literal()
}

/// What `taken_keys` answers.
fn taken(results: &[Vec<Row>], take: &TakeKeys<'_>) -> Result<TakenKeys, StoreError> {
    let [keys, summary] = results else { return Err(unreadable("what became of keys")) };
    let summary = summary.first().ok_or_else(|| unreadable("what became of keys"))?;
    let key = |row: &Row| {
        Ok(TakenKey {
            key: rows::name(row, 0)?.into(),
            token: KeyToken::new(rows::time(row, 1)?),
            run: u32::try_from(rows::integer(row, 2)?).unwrap_or(u32::MAX),
            lost: rows::integer(row, 3)? != 0,
        })
    };
    let keys = keys.iter().map(key).collect::<Result<Vec<_>, StoreError>>()?;
    let count =
        |column| rows::integer(summary, column).map(|count| usize::try_from(count).unwrap_or(0));
    let next = rows::maybe(summary, 1).map(|_| rows::integer(summary, 1)).transpose()?;
    let next = next.map(|after| Duration::from_micros(u64::try_from(after).unwrap_or(0)));
    let has_room = rows::integer(summary, 2)? > 0;
    let asked = take.walk.is_some() && take.suspects == Suspects::Skip;
    let walked = Walked {
        last: rows::maybe(summary, 3).map(|_| rows::integer(summary, 3)).transpose()?,
        rows: count(4)?,
        listed: count(5)?,
        end: count(6)? != 0,
    };
    Ok(TakenKeys { keys, next, put_off: count(0)?, walked: (asked && has_room).then_some(walked) })
}

/// The rows of a key in order.
fn run_of(key: &TakenKey, rows: Vec<Row>) -> Result<Vec<Claimed>, StoreError> {
    let mut numbered = rows
        .into_iter()
        .map(|row| Ok((rows::seq(&row)?, row)))
        .collect::<Result<Vec<_>, StoreError>>()?;
    numbered.sort_unstable_by_key(|(seq, _)| *seq);
    let rows = numbered.into_iter().enumerate();
    rows.map(|(at, (_, row))| rows::of_run(row, key.token, key.lost && at == 0)).collect()
}

fn unreadable(what: &str) -> StoreError {
    StoreError::Refused(format!("{what} cannot be read in the server's answer").into())
}
