//! Cursors, who leads them, and what was parked.
//!
//! What is written about several pairs is one text: it locks those of their cursors that nobody else
//! has, compares and writes, and commits.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use mysql_async::Row;
use sendoff_core::journal::Position;
use sendoff_core::journal::publish::{CursorStatus, PairId, UnknownCursorStatus};
use sendoff_engine::capture::JoinError;
use sendoff_engine::journal::Purpose;
use sendoff_engine::journal::publish::{
    Change, ChangeParked, Cursor, JoinJournal, Move, Moved, Parked, ParkedChange, ParkedPage,
    PublishStore, Retried, Seen, Survey, TriedAgain, Which,
};
use sendoff_engine::lead::{Membership, NodeCard, NodeSeen};
use sendoff_engine::store::{StoreError, frame};
use serde_json::{Value, json};

use super::member::MysqlMember;
use super::schema;
use super::store::MysqlJournal;
use crate::link::Tries;
use crate::rows::{Taken, integer, maybe, name};
use crate::store::MysqlStore;
use crate::wire::{Literal, micros};

impl MysqlJournal {
    pub(super) async fn ask(&self, purpose: Purpose, text: &str) -> Result<Vec<Row>, StoreError> {
        self.check_open()?;
        self.connections().query(purpose, text).await
    }

    /// Runs a text that is a transaction, again where it lost against another, and returns its results.
    async fn transact(&self, purpose: Purpose, text: &str) -> Result<Vec<Vec<Row>>, StoreError> {
        self.check_open()?;
        let lent = self.connections().lend(purpose, self.connections().patience()).await?;
        let mut tries = Tries::default();
        loop {
            let mut session = lent.link().session().await?;
            match session.results(text).await {
                Ok(results) => {
                    session.keep();
                    return Ok(results);
                }
                Err(error) => session.failed(error, &mut tries).await?,
            }
        }
    }

    /// Which of the nodes that `nodes` found are dead although their session is there: their
    /// lease ran out, and nobody has locked their row and keeps them from saying that they are alive.
    async fn silent_for_no_reason(&self, nodes: &[Row]) -> Result<Vec<String>, StoreError> {
        let mut silent = Vec::new();
        for row in nodes {
            if integer(row, 2)? == 0 {
                silent.push(name(row, 0)?);
            }
        }
        if silent.is_empty() {
            return Ok(silent);
        }
        let owners = Literal::texts(silent.iter().map(String::as_str));
        let text = self.sql().journal.nodes_free.with(&[("owners", &owners)]);
        self.ask(Purpose::Publish, &text).await?.iter().map(|row| name(row, 0)).collect()
    }

    /// Runs one statement that changes rows, and says how many.
    async fn write(&self, purpose: Purpose, text: &str) -> Result<u64, StoreError> {
        self.check_open()?;
        let lent = self.connections().lend(purpose, self.connections().patience()).await?;
        let mut tries = Tries::default();
        loop {
            let mut session = lent.link().session().await?;
            match session.change(text).await {
                Ok(changed) => {
                    session.keep();
                    return Ok(changed);
                }
                Err(error) => session.failed(error, &mut tries).await?,
            }
        }
    }
}

/// By the drivers that events are written through.
impl JoinJournal for MysqlJournal {
    type Store = MysqlStore;

    fn joins(&self) -> Result<&MysqlStore, JoinError> {
        self.check_open().map_err(|_| JoinError::Closed)?;
        Ok(self.in_transactions())
    }
}

#[async_trait]
impl PublishStore for MysqlJournal {
    async fn check_ready(&self) -> Result<(), StoreError> {
        schema::check_ready(self).await
    }

    async fn register(&self, pairs: &[(PairId, Position)]) -> Result<(), StoreError> {
        // An insert would wait for a row that is there and that somebody has locked.
        let there = self.ask(Purpose::Publish, self.sql().journal.cursors.text()).await?;
        let there = cursors(there)?;
        let there: BTreeSet<_> = there.iter().map(|cursor| &cursor.pair).collect();
        let mut pairs: Vec<_> = pairs.iter().filter(|(pair, _)| !there.contains(pair)).collect();
        if pairs.is_empty() {
            return Ok(());
        }
        pairs.sort_unstable();
        let row = |(pair, at): &&(PairId, Position)| {
            [Literal::text(pair.topic()), Literal::text(pair.publisher()), Literal::position(*at)]
        };
        let literals: Vec<_> = pairs.iter().map(row).collect();
        let literals = Literal::rows(literals.iter().map(<[Literal; 3]>::as_slice));
        let text = self.sql().journal.register.with(&[("rows", &literals)]);
        self.write(Purpose::Publish, &text).await.map(drop)
    }

    async fn join(&self, card: &NodeCard) -> Result<Box<dyn Membership>, StoreError> {
        self.check_open()?;
        Ok(Box::new(MysqlMember::join(self.clone(), card).await?))
    }

    async fn survey(&self) -> Result<Survey, StoreError> {
        // Nodes first: who led a pair by then and is not among them is found to be alive when the
        // pair is to be taken.
        let sql = self.sql();
        let text = format!("{};\n{}", sql.journal.nodes.text(), sql.journal.cursors.text());
        let mut results = self.transact(Purpose::Publish, &text).await?;
        let cursors = results.pop().unwrap_or_default();
        let nodes = results.pop().unwrap_or_default();
        let node = |row: &Row| {
            let knows = serde_json::from_str(&name(row, 1)?);
            let knows = knows.map_err(|error| StoreError::Refused(error.into()))?;
            let (lived, silent) = (integer(row, 3)?, integer(row, 4)?);
            Ok(NodeSeen::restore(name(row, 0)?, knows, lived, silent))
        };
        let dead = self.silent_for_no_reason(&nodes).await?;
        let mut nodes = nodes.iter().map(node).collect::<Result<Vec<NodeSeen>, StoreError>>()?;
        nodes.retain(|node| !dead.contains(&node.owner));
        Ok(Survey { nodes, cursors: self::cursors(cursors)? })
    }

    async fn take(&self, owner: &str, wanted: &[Seen]) -> Result<Vec<Cursor>, StoreError> {
        let mut wanted: Vec<_> = wanted.iter().collect();
        wanted.sort_unstable_by(|a, b| a.pair.cmp(&b.pair));
        let pairs = wanted.iter().map(|seen| {
            let mut asked = asked(&seen.pair, seen.epoch);
            asked["l"] = json!(seen.leader);
            asked
        });
        let (owner, pairs) = (Literal::text(owner), list(pairs));
        let values = [("owner", &owner), ("pairs", &pairs)];
        let sql = self.sql();
        let text = transaction(&[
            sql.journal.hold_cursors.with(&values),
            sql.journal.take.with(&values),
            sql.journal.taken.with(&values),
        ]);
        let taken = self.transact(Purpose::Publish, &text).await?.pop().unwrap_or_default();
        cursors(taken)
    }

    async fn give(&self, owner: &str, pairs: &[(Arc<PairId>, i64)]) -> Result<(), StoreError> {
        let mut pairs: Vec<_> = pairs.iter().collect();
        pairs.sort_unstable();
        let pairs = list(pairs.iter().map(|(pair, epoch)| asked(pair, *epoch)));
        let owner = Literal::text(owner);
        let values = [("owner", &owner), ("pairs", &pairs)];
        let sql = self.sql();
        let text =
            transaction(&[sql.journal.hold_cursors.with(&values), sql.journal.give.with(&values)]);
        self.transact(Purpose::Publish, &text).await.map(drop)
    }

    async fn advance(&self, owner: &str, moves: &[Move]) -> Result<Vec<Moved>, StoreError> {
        let parked: Vec<_> = (1..).zip(moves).flat_map(set_aside).collect();
        let (owner, pairs) = (Literal::text(owner), list(moves.iter().map(moved)));
        let values = [("owner", &owner), ("pairs", &pairs)];
        let sql = self.sql();
        let mut steps =
            vec![sql.journal.hold_cursors.with(&values), sql.journal.held_cursors.with(&values)];
        if !parked.is_empty() {
            let parked = list(parked.into_iter());
            steps.push(sql.journal.park.with(&[("owner", &owner), ("parked", &parked)]));
        }
        steps.push(sql.journal.advance.with(&values));
        let results = self.transact(Purpose::Publish, &transaction(&steps)).await?;
        let mut answers = vec![Moved::Fenced; moves.len()];
        for row in results.iter().flatten() {
            let nth = usize::try_from(integer(row, 0)? - 1).unwrap_or(usize::MAX);
            let Some(answer) = answers.get_mut(nth) else { continue };
            let held = integer(row, 1)? == 1;
            *answer = if held { Moved::Made(status(row, 2)?) } else { Moved::Busy };
        }
        Ok(answers)
    }

    async fn due(&self, owner: &str, each: usize) -> Result<Vec<Parked>, StoreError> {
        let text = self
            .sql()
            .journal
            .due
            .with(&[("owner", &Literal::text(owner)), ("each", &Literal::count(each))]);
        parked(self.ask(Purpose::Publish, &text).await?)
    }

    async fn settle_parked(&self, tried: TriedAgain<'_>) -> Result<bool, StoreError> {
        let TriedAgain { owner, epoch, parked, outcome } = tried;
        let (attempts, delay, error) = match outcome {
            Retried::Published => (Literal::null(), Literal::null(), Literal::null()),
            Retried::Failed { attempts, delay, error } => (
                Literal::number(*attempts),
                delay.map_or_else(Literal::null, Literal::span),
                Literal::text(error),
            ),
        };
        let text = self.sql().journal.settle_parked.with(&[
            ("owner", &Literal::text(owner)),
            ("topic", &Literal::text(parked.pair.topic())),
            ("publisher", &Literal::text(parked.pair.publisher())),
            ("epoch", &Literal::number(epoch)),
            ("position", &Literal::position(parked.position)),
            ("attempts", &attempts),
            ("delay", &delay),
            ("error", &error),
        ]);
        let answer = self.transact(Purpose::Publish, &text).await?.pop().unwrap_or_default();
        let Some(row) = answer.first() else { return Ok(false) };
        match (integer(row, 0)? > 0, integer(row, 1)? > 0) {
            (false, true) => Err(StoreError::Busy("somebody has locked the pair's cursor".into())),
            (written, _) => Ok(written),
        }
    }

    async fn change(&self, which: &Which, change: Change) -> Result<u64, StoreError> {
        // As numbers: two texts that are no columns may have collations that do not go together.
        let (change, to) = match change {
            Change::Pause => (1, None),
            Change::Resume => (2, None),
            Change::Reset => (3, None),
            Change::MoveTo(position) => (0, Some(position)),
        };
        let text = self.sql().journal.change.with(&[
            ("topic", &Literal::maybe_text(which.topic.as_deref())),
            ("publisher", &Literal::maybe_text(which.publisher.as_deref())),
            ("change", &Literal::number(change)),
            ("to", &to.map_or_else(Literal::null, Literal::position)),
        ]);
        let meant = self.transact(Purpose::Append, &text).await?.pop().unwrap_or_default();
        let meant = meant.first().map_or(Ok(0), |row| integer(row, 0))?;
        Ok(u64::try_from(meant).unwrap_or_default())
    }

    async fn parked(&self, page: ParkedPage<'_>) -> Result<Vec<Parked>, StoreError> {
        let ParkedPage { which, after, limit } = page;
        let (pair, position) = after.unzip();
        let text = self.sql().journal.parked_list.with(&[
            ("topic", &Literal::maybe_text(which.topic.as_deref())),
            ("publisher", &Literal::maybe_text(which.publisher.as_deref())),
            ("after_topic", &Literal::maybe_text(pair.map(PairId::topic))),
            ("after_publisher", &Literal::maybe_text(pair.map(PairId::publisher))),
            ("after_position", &position.map_or_else(Literal::null, Literal::position)),
            ("limit", &Literal::count(limit)),
        ]);
        self::parked(self.ask(Purpose::Read, &text).await?)
    }

    async fn change_parked(&self, change: ChangeParked<'_>) -> Result<u64, StoreError> {
        let ChangeParked { which, position, change } = change;
        let statement = match change {
            ParkedChange::Retry => &self.sql().journal.parked_retry,
            ParkedChange::Discard => &self.sql().journal.parked_discard,
        };
        let text = statement.with(&[
            ("topic", &Literal::maybe_text(which.topic.as_deref())),
            ("publisher", &Literal::maybe_text(which.publisher.as_deref())),
            ("position", &position.map_or_else(Literal::null, Literal::position)),
        ]);
        self.write(Purpose::Append, &text).await
    }
}

/// Statements that are carried out together.
fn transaction(steps: &[String]) -> String {
    format!("start transaction;\n{};\ncommit", steps.join(";\n"))
}

/// A list for `json_table`, as the digits of its text.
pub(super) fn list(items: impl Iterator<Item = Value>) -> Literal {
    Literal::text(&Value::Array(items.collect()).to_string())
}

/// A pair that is had, or was seen, under this epoch.
fn asked(pair: &PairId, epoch: i64) -> Value {
    json!({ "t": pair.topic(), "p": pair.publisher(), "e": epoch })
}

fn moved(next: &Move) -> Value {
    let mut moved = asked(&next.pair, next.epoch);
    moved["f"] = json!(next.from.get());
    moved["g"] = json!(next.to.get());
    moved["y"] = json!(u8::from(next.published));
    moved["n"] = json!(next.errors);
    moved["x"] = json!(next.last_error);
    moved["w"] = json!(next.waits_at.map(Position::get));
    moved["z"] = json!(u8::from(next.fails));
    moved
}

/// What the nth move parks.
fn set_aside((nth, next): (usize, &Move)) -> impl Iterator<Item = Value> {
    next.parked.iter().map(move |park| {
        let mut parked = asked(&next.pair, next.epoch);
        parked["f"] = json!(next.from.get());
        parked["h"] = json!(nth);
        parked["o"] = json!(park.position.get());
        parked["a"] = json!(park.attempts);
        parked["d"] = json!(micros(park.delay));
        parked["x"] = json!(park.error);
        parked
    })
}

pub(super) fn maybe_name(row: &Row, column: usize) -> Result<Option<String>, StoreError> {
    maybe(row, column).map(|_| name(row, column)).transpose()
}

pub(super) fn status(row: &Row, column: usize) -> Result<CursorStatus, StoreError> {
    let text = name(row, column)?;
    text.parse().map_err(|error: UnknownCursorStatus| StoreError::Refused(error.into()))
}

/// Rows of `cursors` and `taken`.
fn cursors(rows: Vec<Row>) -> Result<Vec<Cursor>, StoreError> {
    rows.into_iter().map(|mut row| Ok(frame::cursor::cursor(&mut Taken(&mut row))?)).collect()
}

/// Rows of `due` and `parked_list`.
fn parked(rows: Vec<Row>) -> Result<Vec<Parked>, StoreError> {
    rows.into_iter().map(|mut row| Ok(frame::cursor::parked(&mut Taken(&mut row))?)).collect()
}
