//! Dead letters in memory, and what operators did.

use async_trait::async_trait;
use sendoff_core::order::is_in_line;
use sendoff_core::{Death, EventId, Letter, LetterAct, LetterFate, LetterOrder, Status, Timestamp};

use super::entry::Entry;
use super::store::MemoryStore;
use super::table::Table;
use crate::store::{
    AuditEntry, AuditPage, ChangeLetters, EventRecord, LetterPage, LetterStore, PayloadWanted,
    StoreError,
};

#[async_trait]
impl LetterStore for MemoryStore {
    async fn clock(&self) -> Result<Timestamp, StoreError> {
        Ok(self.with(|_, now| now)?)
    }

    async fn letters(&self, page: &LetterPage<'_>) -> Result<Vec<Letter>, StoreError> {
        Ok(self.with(|table, _| table.letters(page))?)
    }

    async fn count_letters(&self, page: &LetterPage<'_>) -> Result<u64, StoreError> {
        Ok(self.with(|table, _| table.letters(page).len() as u64)?)
    }

    async fn record(
        &self,
        id: EventId,
        payload: PayloadWanted,
    ) -> Result<Option<EventRecord>, StoreError> {
        Ok(self.with(|table, _| table.get(id).map(|entry| record(entry, payload)))?)
    }

    async fn change_letters(
        &self,
        change: &ChangeLetters<'_>,
    ) -> Result<Vec<LetterFate>, StoreError> {
        Ok(self.with(|table, now| {
            change.deaths.iter().map(|death| table.change_letter(*death, change, now)).collect()
        })?)
    }

    async fn audit(&self, page: &AuditPage) -> Result<Vec<AuditEntry>, StoreError> {
        Ok(self.with(|table, _| table.audited(page))?)
    }
}

impl Table {
    fn letters(&self, page: &LetterPage<'_>) -> Vec<Letter> {
        let mut letters: Vec<Letter> =
            self.entries().filter_map(letter).filter(|letter| page.has(letter)).collect();
        letters.sort_unstable_by_key(Letter::position);
        if page.order == LetterOrder::NewestFirst {
            letters.reverse();
        }
        letters.truncate(page.limit);
        letters
    }

    fn change_letter(
        &mut self,
        death: Death,
        change: &ChangeLetters<'_>,
        now: Timestamp,
    ) -> LetterFate {
        let Some(entry) = self.get(death.id) else { return LetterFate::NotFound };
        let Some(letter) = letter(entry) else {
            return LetterFate::NotDead { status: entry.row.status };
        };
        if death.died_at.is_some_and(|died_at| died_at != letter.died_at) {
            return LetterFate::DiedAgain;
        }
        if self.is_locked(death.id) {
            return LetterFate::Busy;
        }
        let key = entry.row.event.ordering_key().map(str::to_owned);
        match change.act {
            LetterAct::Requeue => {
                self.change(death.id, |entry| entry.requeue(now));
            }
            LetterAct::Discard => self.forget(death.id),
        }
        self.unpark(death.id, key.as_deref(), now);
        self.note(|seq| AuditEntry {
            seq,
            at: now,
            action: change.act.action(),
            actor: change.note.actor().to_owned(),
            reason: change.note.reason().to_owned(),
            event: Some(letter.id),
            event_type: Some(letter.event_type),
            attempts: Some(letter.attempts),
            last_error: letter.last_error,
            subject: None,
        });
        LetterFate::Done
    }
}

/// A row as a letter, if it is dead.
fn letter(entry: &Entry) -> Option<Letter> {
    let row = &entry.row;
    let died_at = row.done_at.filter(|_| row.status == Status::Dead)?;
    Some(Letter {
        id: row.event.id(),
        seq: entry.number(),
        event_type: row.event.event_type().to_owned(),
        aggregate_type: row.event.aggregate_type().to_owned(),
        aggregate_id: row.event.aggregate_id().map(str::to_owned),
        tenant_id: row.event.tenant_id().map(str::to_owned),
        attempts: row.attempts,
        created_at: row.created_at,
        died_at,
        last_error: row.last_error.clone(),
    })
}

fn record(entry: &Entry, payload: PayloadWanted) -> EventRecord {
    let (row, event) = (&entry.row, &entry.row.event);
    EventRecord {
        id: event.id(),
        seq: entry.number(),
        event_type: event.event_type().to_owned(),
        aggregate_type: event.aggregate_type().to_owned(),
        aggregate_id: event.aggregate_id().map(str::to_owned),
        tenant_id: event.tenant_id().map(str::to_owned),
        ordering_key: event.ordering_key().map(str::to_owned),
        shard: event.shard().into(),
        content_type: event.content_type().to_owned(),
        headers: event.headers().to_json(),
        status: row.status,
        attempts: row.attempts,
        losses: row.losses,
        occurred_at: event.occurred_at(),
        due_at: Some(row.due_at).filter(|due_at| !is_in_line(*due_at)),
        created_at: row.created_at,
        done_at: row.done_at,
        unavailable_since: None,
        unroutable_since: None,
        delayed_until: None,
        locked_by: row.locked_by.clone(),
        last_error: row.last_error.clone(),
        payload_bytes: event.payload().len() as u64,
        payload: (payload == PayloadWanted::Yes).then(|| event.payload().clone()),
    }
}
