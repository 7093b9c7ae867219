use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::{Error, Row};
use sendoff_core::{EventId, Timestamp, limits};
use sendoff_engine::store::{Claim, ClaimStore, Claimed, Held, StoreError, Suspects};

use crate::link::{Session, Tries};
use crate::rows;
use crate::store::MysqlStore;
use crate::wire::Literal;

#[async_trait]
impl ClaimStore for MysqlStore {
    /// Two round trips: the rows are locked and read, then held and let go.
    async fn claim(&self, claim: &Claim<'_>) -> Result<Vec<Claimed>, StoreError> {
        self.check_open()?;
        let limit = claim.limit.min(limits::BATCH_ROWS);
        if limit == 0 {
            return Ok(Vec::new());
        }
        let statement = match claim.suspects {
            Suspects::Skip => &self.sql().claim,
            Suspects::Only => &self.sql().claim_suspects,
        };
        let owner = Literal::text(claim.owner);
        let look = statement.with(&[
            ("owner", &owner),
            ("limit", &Literal::count(limit)),
            ("skip_recent", &Literal::span(claim.skip_recent)),
            ("since", &Literal::since(claim.window)),
        ]);
        let mut tries = Tries::default();
        loop {
            let mut session = self.links().claims.session().await?;
            match self.take(&mut session, &look, &owner, claim.hold).await {
                Ok(claimed) => {
                    session.keep();
                    return claimed;
                }
                Err(error) => session.failed(error, &mut tries).await?,
            }
        }
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        self.check_open()?;
        if holds.is_empty() {
            return Ok(Vec::new());
        }
        let ids = Literal::ids(holds.iter().map(|held| held.id));
        let rows = self.links().proofs.query(&self.sql().confirm.with(&[("ids", &ids)])).await?;
        let held = Tokens::of(&rows)?;
        Ok(holds.iter().filter(|hold| held.proves(hold)).map(|hold| hold.id).collect())
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        self.check_open()?;
        let text = self.sql().rescue.with(&[("longest", &Literal::span(longest))]);
        let mut tries = Tries::default();
        loop {
            let mut session = self.links().upkeep.session().await?;
            match session.change(&text).await {
                Ok(rescued) => {
                    session.keep();
                    return Ok(rescued);
                }
                Err(error) => session.failed(error, &mut tries).await?,
            }
        }
    }
}

impl MysqlStore {
    /// One claim. What the server says wrongly is told apart from what it refuses: the rows are held by
    /// then.
    async fn take(
        &self,
        session: &mut Session<'_>,
        look: &str,
        owner: &Literal,
        hold: Duration,
    ) -> Result<Result<Vec<Claimed>, StoreError>, Error> {
        let rows = session.query(look).await?;
        let Some(first) = rows.first() else {
            session.query("commit").await?;
            return Ok(Ok(Vec::new()));
        };
        // By the database's clock: it said when it looked.
        let read = || -> Result<_, StoreError> {
            let until = rows::claimed_at(first)?.saturating_add(hold.max(Duration::from_micros(1)));
            let ids: Vec<EventId> =
                rows.iter().map(|row| rows::id(row, 0)).collect::<Result<_, _>>()?;
            Ok((until, ids))
        };
        let (until, ids) = match read() {
            Ok(read) => read,
            Err(error) => {
                session.query("rollback").await?;
                return Ok(Err(error));
            }
        };
        let hold = self.sql().hold.with(&[
            ("owner", owner),
            ("until", &Literal::time(until)),
            ("ids", &Literal::ids(ids)),
        ]);
        session.query(&hold).await?;
        Ok(rows.into_iter().map(|row| rows::claimed(row, Some(until))).collect())
    }
}

/// Which rows are held, and by which tokens: the first two columns of `confirm` and `lock`.
pub(crate) struct Tokens(HashMap<EventId, Timestamp>);

impl Tokens {
    pub(crate) fn of(rows: &[Row]) -> Result<Self, StoreError> {
        let pairs = rows.iter().map(|row| Ok((rows::id(row, 0)?, rows::time(row, 1)?)));
        pairs.collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn proves(&self, held: &Held) -> bool {
        self.0.get(&held.id) == Some(&held.by.token().due_at())
    }
}
