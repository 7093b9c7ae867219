use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::Row;
use sendoff_core::{EventId, Timestamp, limits};
use sendoff_engine::store::{
    Claim, ClaimStore, Claimed, Claims, Held, RESCUE_SLACK, StoreError, Suspects, Take, sift_claim,
};

use crate::rows;
use crate::store::MysqlStore;
use crate::wire::Literal;

#[async_trait]
impl ClaimStore for MysqlStore {
    /// One round trip, and nothing is locked any more while the rows are sent: whoever freezes keeps
    /// nobody else from anything.
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claims, StoreError> {
        self.check_open()?;
        sift_claim(self, claim).await
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
        let text = self.sql().rescue.with(&[
            ("longest", &Literal::span(longest)),
            ("longest_delay", &Literal::span(limits::DELAY)),
            ("slack", &Literal::span(RESCUE_SLACK)),
            ("limit", &Literal::count(limits::BATCH_ROWS)),
        ]);
        let rows = self.links().upkeep.query(&text).await?;
        let rescued = rows.first().map_or(Ok(0), |row| rows::integer(row, 0))?;
        Ok(u64::try_from(rescued).unwrap_or(0))
    }

    fn epoch(&self) -> u64 {
        self.lost_links()
    }
}

impl Take<MysqlStore> for Claim<'_> {
    type Taken = Vec<Claimed>;

    async fn take(
        &self,
        store: &MysqlStore,
        limit: usize,
        passed: &[EventId],
    ) -> Result<Option<Vec<Claimed>>, StoreError> {
        let sql = store.sql();
        let look = match self.suspects {
            Suspects::Skip => &sql.claim,
            Suspects::Only => &sql.claim_suspects,
        };
        let owner = Literal::text(self.owner);
        let values = [
            ("owner", &owner),
            ("limit", &Literal::count(limit)),
            ("bytes", &Literal::count(self.bytes)),
            // A visible row was due before now: one that is held for later than now has another token.
            ("hold", &Literal::span(self.hold.max(Duration::from_micros(1)))),
            ("skip_recent", &Literal::span(self.skip_recent)),
            ("since", &Literal::since(self.window)),
            ("from", &Literal::from(self.from)),
            ("passed", &Literal::other_ids(passed)),
        ];
        let (look, hold) = (look.with(&values), sql.hold.with(&values));
        let text = format!("{look};\n{hold};\ncommit;\n{}", sql.claimed.with(&values));
        let claimed = rows::claimed(store.links().claims.query(&text).await?, true)?;
        Ok((!claimed.is_empty()).then_some(claimed))
    }
}

/// Which rows are held, and by which tokens: the first two columns of `confirm`.
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
