//! Cursors, who leads them, and what was parked.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use sendoff_core::journal::Position;
use sendoff_core::journal::publish::{CursorStatus, PairId, UnknownCursorStatus};
use sendoff_engine::capture::JoinError;
use sendoff_engine::journal::Purpose;
use sendoff_engine::journal::publish::{
    Change, ChangeParked, Cursor, JoinJournal, Move, Moved, Parked, ParkedChange, ParkedPage,
    PublishStore, Retried, Seen, Survey, TriedAgain, Which,
};
use sendoff_engine::lead::{Membership, NodeCard, NodeSeen};
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::cursor;
use tokio_postgres::Row;

use super::member::PostgresMember;
use super::schema;
use super::store::PostgresJournal;
use crate::link::Params;
use crate::rows::{all, get};
use crate::sql::Statement;
use crate::store::PostgresStore;
use crate::wire::{ErrorText, Span};

/// Why a fact that was parked could not be settled.
const LOCKED: &str = "somebody has locked the pair's cursor";

impl PostgresJournal {
    pub(super) async fn ask(
        &self,
        purpose: Purpose,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.check_open()?;
        self.connections().query(purpose, statement, params).await
    }

    /// Which of the nodes that `nodes` found are dead although their session is there: their
    /// lease ran out, and nobody has locked their row and keeps them from saying that they are alive.
    async fn silent_for_no_reason(&self, nodes: &[Row]) -> Result<Vec<String>, StoreError> {
        let mut silent = Vec::new();
        for row in nodes {
            if !get::<bool>(row, 2)? {
                silent.push(get::<String>(row, 0)?);
            }
        }
        if silent.is_empty() {
            return Ok(silent);
        }
        let free = self.ask(Purpose::Publish, &self.sql().journal.nodes_free, &[&silent]).await?;
        free.iter().map(|row| get(row, 0)).collect()
    }
}

/// By the drivers that events are written through.
impl JoinJournal for PostgresJournal {
    type Store = PostgresStore;

    fn joins(&self) -> Result<&PostgresStore, JoinError> {
        self.check_open().map_err(|_| JoinError::Closed)?;
        Ok(self.in_transactions())
    }
}

#[async_trait]
impl PublishStore for PostgresJournal {
    async fn check_ready(&self) -> Result<(), StoreError> {
        schema::check_ready(self).await
    }

    async fn register(&self, pairs: &[(PairId, Position)]) -> Result<(), StoreError> {
        let (topics, publishers) = names(pairs.iter().map(|(pair, _)| pair));
        let positions: Vec<_> = pairs.iter().map(|(_, position)| i64::from(*position)).collect();
        let register = &self.sql().journal.register;
        self.ask(Purpose::Publish, register, &[&topics, &publishers, &positions]).await.map(drop)
    }

    async fn join(&self, card: &NodeCard) -> Result<Box<dyn Membership>, StoreError> {
        self.check_open()?;
        Ok(Box::new(PostgresMember::join(self.clone(), card).await?))
    }

    async fn survey(&self) -> Result<Survey, StoreError> {
        // Nodes first: who led a pair by then and is not among them is found to be alive when the
        // pair is to be taken.
        let nodes = self.ask(Purpose::Publish, &self.sql().journal.nodes, &[]).await?;
        let dead = self.silent_for_no_reason(&nodes).await?;
        let cursors = self.ask(Purpose::Publish, &self.sql().journal.cursors, &[]).await?;
        let node = |row| {
            let knows: Vec<i64> = get(row, 1)?;
            let knows = knows.into_iter().collect();
            Ok(NodeSeen::restore(get(row, 0)?, knows, get(row, 3)?, get(row, 4)?))
        };
        let mut nodes = nodes.iter().map(node).collect::<Result<Vec<NodeSeen>, StoreError>>()?;
        nodes.retain(|node| !dead.contains(&node.owner));
        Ok(Survey { nodes, cursors: self::cursors(&cursors)? })
    }

    async fn take(&self, owner: &str, wanted: &[Seen]) -> Result<Vec<Cursor>, StoreError> {
        let (topics, publishers) = names(wanted.iter().map(|seen| &*seen.pair));
        let leaders: Vec<_> = wanted.iter().map(|seen| seen.leader.as_deref()).collect();
        let epochs: Vec<_> = wanted.iter().map(|seen| seen.epoch).collect();
        let take = &self.sql().journal.take;
        let rows = self
            .ask(Purpose::Publish, take, &[&owner, &topics, &publishers, &leaders, &epochs])
            .await?;
        cursors(&rows)
    }

    async fn give(&self, owner: &str, pairs: &[(Arc<PairId>, i64)]) -> Result<(), StoreError> {
        let (topics, publishers) = names(pairs.iter().map(|(pair, _)| &**pair));
        let epochs: Vec<_> = pairs.iter().map(|(_, epoch)| *epoch).collect();
        let give = &self.sql().journal.give;
        self.ask(Purpose::Publish, give, &[&owner, &topics, &publishers, &epochs]).await.map(drop)
    }

    async fn advance(&self, owner: &str, moves: &[Move]) -> Result<Vec<Moved>, StoreError> {
        let (topics, publishers) = names(moves.iter().map(|next| &*next.pair));
        let epochs: Vec<_> = moves.iter().map(|next| next.epoch).collect();
        let from: Vec<_> = moves.iter().map(|next| i64::from(next.from)).collect();
        let to: Vec<_> = moves.iter().map(|next| i64::from(next.to)).collect();
        let published: Vec<_> = moves.iter().map(|next| next.published).collect();
        let errors: Vec<_> = moves.iter().map(|next| count(next.errors)).collect();
        let texts: Vec<_> =
            moves.iter().map(|next| next.last_error.as_deref().map(ErrorText)).collect();
        let waits_at: Vec<_> = moves.iter().map(|next| next.waits_at.map(i64::from)).collect();
        let fails: Vec<_> = moves.iter().map(|next| next.fails).collect();
        let parked = || moves.iter().flat_map(|next| next.parked.iter().map(move |p| (next, p)));
        let (park_topics, park_publishers) = names(parked().map(|(next, _)| &*next.pair));
        let positions: Vec<_> = parked().map(|(_, park)| i64::from(park.position)).collect();
        let attempts: Vec<_> = parked().map(|(_, park)| count(park.attempts)).collect();
        let delays: Vec<_> = parked().map(|(_, park)| Span(park.delay)).collect();
        let why: Vec<_> = parked().map(|(_, park)| ErrorText(&park.error)).collect();
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 17] = [
            &owner,
            &topics,
            &publishers,
            &epochs,
            &from,
            &to,
            &published,
            &errors,
            &texts,
            &waits_at,
            &fails,
            &park_topics,
            &park_publishers,
            &positions,
            &attempts,
            &delays,
            &why,
        ];
        let rows = self.ask(Purpose::Publish, &self.sql().journal.advance, &params).await?;
        let became = |row| {
            let stands = get::<Option<&str>>(row, 2)?.map(status).transpose()?;
            Ok((pair(row)?, stands.map_or(Moved::Busy, Moved::Made)))
        };
        let moved: BTreeMap<_, _> = rows.iter().map(became).collect::<Result<_, StoreError>>()?;
        let of = |next: &Move| moved.get(&*next.pair).copied().unwrap_or(Moved::Fenced);
        Ok(moves.iter().map(of).collect())
    }

    async fn due(&self, owner: &str, each: usize) -> Result<Vec<Parked>, StoreError> {
        let most = i64::try_from(each).unwrap_or(i64::MAX);
        let rows = self.ask(Purpose::Publish, &self.sql().journal.due, &[&owner, &most]).await?;
        parked(&rows)
    }

    async fn settle_parked(&self, tried: TriedAgain<'_>) -> Result<bool, StoreError> {
        let TriedAgain { owner, epoch, parked, outcome } = tried;
        let (attempts, delay, error) = match outcome {
            Retried::Published => (None, None, None),
            Retried::Failed { attempts, delay, error } => {
                (Some(count(*attempts)), delay.map(Span), Some(ErrorText(error)))
            }
        };
        let (topic, publisher) = (parked.pair.topic(), parked.pair.publisher());
        let position = i64::from(parked.position);
        let settle = &self.sql().journal.settle_parked;
        let params: Params<'_> =
            &[&owner, &topic, &publisher, &epoch, &position, &attempts, &delay, &error];
        let rows = self.ask(Purpose::Publish, settle, params).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        match (get(row, 0)?, get(row, 1)?) {
            (false, true) => Err(StoreError::Busy(LOCKED.into())),
            (written, _) => Ok(written),
        }
    }

    async fn change(&self, which: &Which, change: Change) -> Result<u64, StoreError> {
        let (word, to) = change.in_words();
        let change = &self.sql().journal.change;
        let rows = self
            .ask(Purpose::Append, change, &[&which.topic, &which.publisher, &word, &to])
            .await?;
        Ok(rows.len() as u64)
    }

    async fn parked(&self, page: ParkedPage<'_>) -> Result<Vec<Parked>, StoreError> {
        let ParkedPage { which, after, limit } = page;
        let (topic, publisher) = after.map(|(pair, _)| (pair.topic(), pair.publisher())).unzip();
        let position = after.map(|(_, position)| i64::from(position));
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: Params<'_> =
            &[&which.topic, &which.publisher, &topic, &publisher, &position, &most];
        let rows = self.ask(Purpose::Read, &self.sql().journal.parked_list, params).await?;
        parked(&rows)
    }

    async fn change_parked(&self, change: ChangeParked<'_>) -> Result<u64, StoreError> {
        let ChangeParked { which, position, change } = change;
        let statement = match change {
            ParkedChange::Retry => &self.sql().journal.parked_retry,
            ParkedChange::Discard => &self.sql().journal.parked_discard,
        };
        let position = position.map(i64::from);
        let rows = self
            .ask(Purpose::Append, statement, &[&which.topic, &which.publisher, &position])
            .await?;
        Ok(rows.len() as u64)
    }
}

fn names<'p>(pairs: impl Iterator<Item = &'p PairId>) -> (Vec<&'p str>, Vec<&'p str>) {
    pairs.map(|pair| (pair.topic(), pair.publisher())).unzip()
}

fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn pair(row: &Row) -> Result<PairId, StoreError> {
    Ok(cursor::pair(&mut all(row))?)
}

pub(super) fn status(text: &str) -> Result<CursorStatus, StoreError> {
    text.parse().map_err(|error: UnknownCursorStatus| StoreError::Refused(error.into()))
}

/// Rows of `cursors` and `take`.
fn cursors(rows: &[Row]) -> Result<Vec<Cursor>, StoreError> {
    rows.iter().map(|row| Ok(cursor::cursor(&mut all(row))?)).collect()
}

/// Rows of `due` and `parked_list`.
fn parked(rows: &[Row]) -> Result<Vec<Parked>, StoreError> {
    rows.iter().map(|row| Ok(cursor::parked(&mut all(row))?)).collect()
}
