//! Dead letters on MySQL and MariaDB: whatever is done to them is one round trip.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use mysql_async::Row;
use sendoff_core::{Death, EventId, Letter, LetterAct, LetterFate, Status, Timestamp};
use sendoff_engine::store::frame::letter;
use sendoff_engine::store::{
    AuditEntry, AuditPage, ChangeLetters, EventRecord, LetterPage, LetterStore, PayloadWanted,
    StoreError,
};

use crate::link::Tries;
use crate::rows::{self, Taken};
use crate::settle::places;
use crate::sql::Statement;
use crate::store::MysqlStore;
use crate::wire::{DeadRows, Literal};

#[async_trait]
impl LetterStore for MysqlStore {
    async fn clock(&self) -> Result<Timestamp, StoreError> {
        let answer = self.ask(self.sql().clock.text()).await?;
        let row = answer.first().ok_or_else(|| StoreError::Refused("no time was given".into()))?;
        rows::time(row, 0)
    }

    async fn letters(&self, page: &LetterPage<'_>) -> Result<Vec<Letter>, StoreError> {
        let (oldest, newest) = (&self.sql().letters, &self.sql().letters_newest);
        let mut found = self.look(page.order.choose(oldest, newest), page).await?;
        letter::letters(found.iter_mut().map(Taken))
    }

    async fn count_letters(&self, page: &LetterPage<'_>) -> Result<u64, StoreError> {
        let mut found = self.look(&self.sql().letters_count, &page.to_count()).await?;
        letter::counted(found.first_mut().map(Taken))
    }

    async fn record(
        &self,
        id: EventId,
        payload: PayloadWanted,
    ) -> Result<Option<EventRecord>, StoreError> {
        let wanted = Literal::number(payload == PayloadWanted::Yes);
        let text = self.sql().record.with(&[("id", &Literal::id(id)), ("wanted", &wanted)]);
        let mut found = self.ask(&text).await?;
        let record = found.first_mut().map(|row| letter::record(&mut Taken(row)));
        Ok(record.transpose()?)
    }

    async fn change_letters(
        &self,
        change: &ChangeLetters<'_>,
    ) -> Result<Vec<LetterFate>, StoreError> {
        self.check_open()?;
        let done = places(&self.change_unlocked(change).await?)?;
        let missing = |(at, _): &(usize, &Death)| !done.contains(&(at + 1));
        let missing: Vec<Death> =
            change.deaths.iter().enumerate().filter(missing).map(|(_, death)| *death).collect();
        let standing = self.standing(&missing).await?;
        let fate = |(at, death): (usize, &Death)| {
            if done.contains(&(at + 1)) { LetterFate::Done } else { standing.of(*death) }
        };
        Ok(change.deaths.iter().enumerate().map(fate).collect())
    }

    async fn audit(&self, page: &AuditPage) -> Result<Vec<AuditEntry>, StoreError> {
        let before = Literal::number(page.before.unwrap_or(i64::MAX));
        let (limit, id) = (Literal::count(page.limit), Literal::maybe_id(page.event));
        let statement =
            if page.event.is_some() { &self.sql().audit_event } else { &self.sql().audit };
        let text = statement.with(&[("before", &before), ("limit", &limit), ("id", &id)]);
        let mut found = self.ask(&text).await?;
        letter::entries(found.iter_mut().map(Taken))
    }
}

type Answer = Result<Vec<Row>, StoreError>;

impl MysqlStore {
    pub(crate) async fn ask(&self, text: &str) -> Answer {
        self.check_open()?;
        self.links().upkeep.query(text).await
    }

    async fn look(&self, statement: &Statement, page: &LetterPage<'_>) -> Answer {
        let ((first, last), after) = (page.died_between(), page.begins_after());
        let filter = page.filter;
        let text = |text: &Option<String>| Literal::maybe_text(text.as_deref());
        let count = |count: Option<u32>| count.map_or_else(Literal::null, Literal::number);
        let text = statement.with(&[
            ("first", &Literal::nearest_time(first)),
            ("last", &Literal::nearest_time(last)),
            ("after_at", &Literal::nearest_time(after.died_at)),
            ("after_seq", &Literal::number(after.seq)),
            ("event_type", &text(&filter.event_type)),
            ("aggregate_type", &text(&filter.aggregate_type)),
            ("aggregate_id", &text(&filter.aggregate_id)),
            ("tenant_id", &text(&filter.tenant_id)),
            ("error", &text(&filter.error)),
            ("attempts_least", &count(filter.attempts_least)),
            ("attempts_most", &count(filter.attempts_most)),
            ("limit", &Literal::count(page.limit)),
        ]);
        self.ask(&text).await
    }

    /// Changes the letters among these that nobody has locked, and answers which.
    async fn change_unlocked(&self, change: &ChangeLetters<'_>) -> Result<Vec<Row>, StoreError> {
        let mut rows = DeadRows::default();
        change.deaths.iter().for_each(|death| rows.push(death));
        let statement = match change.act {
            LetterAct::Requeue => &self.sql().letters_requeue,
            LetterAct::Discard => &self.sql().letters_discard,
        };
        let (actor, reason) =
            (Literal::text(change.note.actor()), Literal::text(change.note.reason()));
        let text =
            statement.with(&[("rows", &rows.literal()), ("actor", &actor), ("reason", &reason)]);
        self.once(&text).await
    }

    /// Carries out a change that an operator orders, and that may not be repeated: done twice, it would say that
    /// it was somebody else's.
    pub(crate) async fn once(&self, text: &str) -> Answer {
        self.check_open()?;
        let mut tries = Tries::default();
        loop {
            let mut session = self.links().upkeep.session().await?;
            // A connection that the server has ended meanwhile is found by what may be repeated.
            let answer = match session.query(self.sql().clock.text()).await {
                Ok(_) => session.query(text).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) => {
                    session.keep();
                    return Ok(answer);
                }
                Err(error) => session.failed(error, &mut tries).await?,
            }
        }
    }

    /// Where letters stand that were not changed. A plain read, which waits for nobody.
    async fn standing(&self, deaths: &[Death]) -> Result<Standing, StoreError> {
        let mut standing = Standing::default();
        if deaths.is_empty() {
            return Ok(standing);
        }
        let ids = Literal::ids(deaths.iter().map(|death| death.id));
        let text = self.sql().letters_standing.with(&[("ids", &ids)]);
        for row in self.links().upkeep.query(&text).await? {
            let status = Status::try_from(rows::integer(&row, 1)?);
            let status = status.map_err(|unknown| StoreError::Refused(unknown.into()))?;
            standing.add(rows::id(&row, 0)?, status, rows::time(&row, 2).ok());
        }
        Ok(standing)
    }
}

/// Where events stand, and when they ended.
#[derive(Default)]
struct Standing {
    statuses: HashMap<EventId, Status>,
    dead: HashSet<(EventId, Option<Timestamp>)>,
}

impl Standing {
    fn add(&mut self, id: EventId, status: Status, done_at: Option<Timestamp>) {
        // Of several rows with one id, in partitions, the dead one.
        if self.statuses.get(&id) != Some(&Status::Dead) {
            self.statuses.insert(id, status);
        }
        if status == Status::Dead {
            self.dead.extend([(id, done_at), (id, None)]);
        }
    }

    fn of(&self, death: Death) -> LetterFate {
        match self.statuses.get(&death.id) {
            None => LetterFate::NotFound,
            Some(_) if self.dead.contains(&(death.id, death.died_at)) => LetterFate::Busy,
            Some(Status::Dead) => LetterFate::DiedAgain,
            Some(status) => LetterFate::NotDead { status: *status },
        }
    }
}
