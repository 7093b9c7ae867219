//! Whether events on MySQL and MariaDB are over.

use async_trait::async_trait;
use sendoff_core::EventId;
use sendoff_engine::store::frame::end;
use sendoff_engine::store::{EndStore, Horizon, Standing, StoreError};

use crate::rows::Taken;
use crate::store::MysqlStore;
use crate::wire::Literal;

#[async_trait]
impl EndStore for MysqlStore {
    async fn standing(&self, ids: &[EventId]) -> Result<Vec<Standing>, StoreError> {
        self.check_open()?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let text = self.sql().standing.with(&[("ids", &Literal::ids(ids.iter().copied()))]);
        let mut found = self.links().upkeep.query(&text).await?;
        end::standings(found.iter_mut().map(Taken))
    }

    async fn horizon(&self) -> Result<Option<Horizon>, StoreError> {
        self.check_open()?;
        let mut found = self.links().upkeep.query(self.sql().horizon.text()).await?;
        end::horizon(found.first_mut().map(Taken))
    }

    async fn pending_within(
        &self,
        horizon: Horizon,
        limit: usize,
    ) -> Result<Vec<EventId>, StoreError> {
        self.check_open()?;
        let text = self.sql().pending_within.with(&[
            ("seq", &Literal::number(horizon.seq)),
            ("at", &Literal::nearest_time(horizon.at)),
            ("limit", &Literal::count(limit)),
        ]);
        let mut found = self.links().upkeep.query(&text).await?;
        end::ids(found.iter_mut().map(Taken))
    }
}
