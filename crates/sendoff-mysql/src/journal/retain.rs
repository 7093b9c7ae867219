//! Letting facts go, one by one.
//!
//! From the lowest number on, and without leaving one out: so one position says what is gone, and a tail
//! that begins below it knows that nothing is missing there. Voids go with the facts between them.

use async_trait::async_trait;
use mysql_async::Row;
use sendoff_core::journal::Position;
use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::retain::{Follower, Followers};
use sendoff_core::limits;
use sendoff_engine::journal::Purpose;
use sendoff_engine::journal::retain::{Keeping, PurgeFacts, PurgedFacts, RetainJournalStore};
use sendoff_engine::store::StoreError;
use serde_json::json;

use super::facts::position;
use super::publish::{list, maybe_name, status};
use super::store::{MysqlJournal, undo};
use super::tail;
use crate::error::{code, misconfigured, number};
use crate::link::{Link, Tries};
use crate::rows::{integer, maybe, name, time};
use crate::wire::{Literal, is_storable};

/// Tags in one text. Each makes two digits of every byte, and packets have an end.
const TAGS_PER_TEXT: usize = 2_000;

#[async_trait]
impl RetainJournalStore for MysqlJournal {
    async fn followers(&self) -> Result<Followers, StoreError> {
        let rows = self.ask(Purpose::Read, self.sql().journal.followers.text()).await?;
        let first = rows.first().ok_or_else(changed_by_hand)?;
        let (now, head) = (time(first, 0)?, position(first, 1)?);
        let (mut cursors, mut parked) = (Vec::new(), Vec::new());
        for row in &rows {
            let Some(topic) = maybe_name(row, 2)? else { continue };
            let (pair, position) = (PairId::restore(topic, name(row, 3)?), position(row, 4)?);
            match maybe(row, 5) {
                Some(_) => cursors.push(Follower { pair, position, status: status(row, 5)? }),
                None => parked.push((pair, position)),
            }
        }
        Ok(Followers { now, head, cursors, parked })
    }

    async fn keeping(&self) -> Result<Keeping, StoreError> {
        self.check_open()?;
        Ok(Keeping::Rows)
    }

    /// Not above what is decided: an append that is open must not be passed by those who begin later.
    /// Numbers that nobody decided yet are decided here, because there may be no tail.
    ///
    /// Nor above the first fact that is too young. Where voids are in the way it is a few short
    /// transactions instead of one.
    async fn purge_facts(&self, purge: &PurgeFacts) -> Result<PurgedFacts, StoreError> {
        let limit = purge.limit.min(limits::BATCH_ROWS);
        let (mut purged, mut decides) = (PurgedFacts::default(), true);
        let mut after = purge.after;
        loop {
            let left = limit.saturating_sub(usize::try_from(purged.facts).unwrap_or(limit));
            if left == 0 {
                return Ok(purged);
            }
            let round = self.delete(&PurgeFacts { after, limit: left, ..*purge }).await?;
            if round.rows > 0 {
                after = round.last;
                purged = PurgedFacts { facts: purged.facts + round.facts, last: round.last };
            }
            if round.more {
                continue;
            }
            match round.undecided {
                Some(up_to) if decides => tail::decide(self, up_to).await?,
                _ => return Ok(purged),
            }
            decides = false;
        }
    }

    async fn purgeable_facts(&self, purge: &PurgeFacts) -> Result<u64, StoreError> {
        let passed = self.ask(Purpose::Read, self.sql().journal.passed.text()).await?;
        let Passed { by_all, .. } = Passed::of(&passed)?;
        let text = self.sql().journal.purgeable.with(&[
            ("after", &Literal::position(purge.after)),
            ("up_to", &Literal::position(purge.up_to.min(by_all))),
            ("before", &before(purge)),
            ("limit", &Literal::count(purge.limit)),
        ]);
        let found = self.ask(Purpose::Read, &text).await?;
        let found = found.first().map_or(Ok(0), |row| integer(row, 0))?;
        Ok(u64::try_from(found).unwrap_or(0))
    }
}

/// What one transaction deleted.
#[derive(Debug, Default)]
struct Round {
    /// Rows, voids among them.
    rows: usize,
    facts: u64,
    last: Position,
    /// Whether there are more, which had no room.
    more: bool,
    /// Up to where more could go if it were decided.
    undecided: Option<Position>,
}

/// What `journal_passed` says.
struct Passed {
    /// Every number up to here is decided.
    decided: Position,
    by_all: Position,
    /// Facts were let go up to here.
    gone: Position,
}

impl Passed {
    fn of(rows: &[Row]) -> Result<Self, StoreError> {
        let row = rows.first().ok_or_else(changed_by_hand)?;
        Ok(Self { decided: position(row, 0)?, by_all: position(row, 1)?, gone: position(row, 2)? })
    }
}

impl MysqlJournal {
    /// Deletes the lowest rows, as many as the limit says and one text has room for.
    ///
    /// They are found without any lock, and go in one text, which fails where they may not go any more:
    /// nothing stays locked between two, whatever becomes of this process.
    async fn delete(&self, purge: &PurgeFacts) -> Result<Round, StoreError> {
        self.check_open()?;
        let lent = self.connections().lend(Purpose::Append, self.connections().patience()).await?;
        let mut tries = Tries::default();
        loop {
            let passed = lent.link().query(self.sql().journal.passed.text()).await?;
            let passed = Passed::of(&passed)?;
            let doomed = self.find(lent.link(), purge, &passed).await?;
            if doomed.round.rows == 0 {
                return Ok(doomed.round);
            }
            let mut session = lent.link().session().await?;
            match session.query(&self.deletion(&doomed, &passed)).await {
                Ok(_) => {
                    session.keep();
                    return Ok(doomed.round);
                }
                Err(error) if number(&error) == Some(code::MORE_THAN_ONE_ROW) => {
                    undo(session).await;
                    if !tries.again() {
                        // Somebody else is at it.
                        return Ok(Round::default());
                    }
                }
                Err(error) => session.failed(error, &mut tries).await?,
            }
        }
    }

    async fn find(
        &self,
        link: &Link,
        purge: &PurgeFacts,
        passed: &Passed,
    ) -> Result<Doomed, StoreError> {
        let wanted = purge.up_to.min(passed.by_all);
        let text = self.sql().journal.purge_find.with(&[
            ("after", &Literal::position(purge.after)),
            ("up_to", &Literal::position(wanted.min(passed.decided))),
            ("before", &before(purge)),
            ("limit", &Literal::count(purge.limit)),
        ]);
        let mut doomed = Doomed::of(&link.query(&text).await?, purge.limit)?;
        doomed.round.undecided = (doomed.ends && wanted > passed.decided).then_some(wanted);
        Ok(doomed)
    }

    /// One transaction.
    fn deletion(&self, doomed: &Doomed, passed: &Passed) -> String {
        let sql = self.sql();
        let (gone, last) = (Literal::position(passed.gone), Literal::position(doomed.round.last));
        let tags = list(doomed.tags.iter().map(|(tag, at)| json!({ "t": tag, "p": at })));
        let positions = list(doomed.positions.iter().map(|at| json!(at)));
        [
            "start transaction".to_owned(),
            sql.journal.purge_hold.with(&[("gone", &gone), ("last", &last)]),
            sql.journal.purge_tags.with(&[("tags", &tags)]),
            sql.journal.purge.with(&[("positions", &positions), ("last", &last)]),
        ]
        .join(";\n")
    }
}

/// Rows that are about to go.
#[derive(Default)]
struct Doomed {
    round: Round,
    positions: Vec<u64>,
    /// Of these tags, at these positions.
    tags: Vec<(String, u64)>,
    /// Whether there is nothing above them, as far as is decided.
    ends: bool,
}

impl Doomed {
    /// Columns of `journal_purge_find`, which was to find so many rows at most.
    fn of(rows: &[Row], limit: usize) -> Result<Self, StoreError> {
        let mut doomed = Self::default();
        for row in rows {
            if integer(row, 3)? != 0 {
                // What is above it is left, whatever is decided.
                return Ok(doomed);
            }
            let at = position(row, 0)?;
            // What cannot be read has no tags that anybody would find it by.
            let tags = maybe(row, 1).and_then(|text| serde_json::from_slice(text).ok());
            let tags: Vec<String> = tags.unwrap_or_default();
            if doomed.round.rows > 0 && doomed.tags.len() + tags.len() > TAGS_PER_TEXT {
                doomed.round.more = true;
                return Ok(doomed);
            }
            doomed.tags.extend(tags.into_iter().map(|tag| (tag, at.get())));
            doomed.positions.push(at.get());
            doomed.round.rows += 1;
            doomed.round.facts += u64::from(integer(row, 2)? != 0);
            doomed.round.last = at;
        }
        doomed.round.more = rows.len() >= limit;
        doomed.ends = !doomed.round.more;
        Ok(doomed)
    }
}

/// A time that no DATETIME keeps is one that no fact was recorded before.
fn before(purge: &PurgeFacts) -> Literal {
    match purge.before {
        Some(time) if is_storable(time) => Literal::time(time),
        Some(_) => Literal::earliest(),
        None => Literal::null(),
    }
}

fn changed_by_hand() -> StoreError {
    misconfigured(
        "a row of journal_floor or journal_gone is missing: the journal's tables were changed by hand",
    )
}
