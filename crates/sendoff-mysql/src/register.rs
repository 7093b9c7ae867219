//! Who handles what, on MySQL and MariaDB.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_engine::store::{EventKind, REGISTERED, RegisterStore, Registered, StoreError};

use crate::rows;
use crate::store::MysqlStore;
use crate::wire::Literal;

#[async_trait]
impl RegisterStore for MysqlStore {
    async fn register(&self, kinds: &[EventKind<'_>], lately: Duration) -> Registered {
        self.check_open()?;
        // In one order, so that two nodes never wait for each other in a circle.
        let mut kinds: Vec<_> =
            kinds.iter().map(|kind| (kind.aggregate_type, kind.event_type)).collect();
        kinds.sort_unstable();
        let row =
            |(about, of): (&str, &str)| [Literal::text(about), Literal::text(of), Literal::now()];
        let rows: Vec<_> = kinds.into_iter().map(row).collect();
        let link = &self.links().upkeep;
        if !rows.is_empty() {
            let kinds = Literal::rows(rows.iter().map(|row| &row[..]));
            let said = link.query(&self.sql().register.with(&[("kinds", &kinds)])).await;
            match said {
                // Somebody has locked one of them. It is said again before anybody stops believing it.
                Ok(_) | Err(StoreError::Busy(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let registered = &self.sql().registered;
        let rows =
            link.query(&registered.with(&[
                ("lately", &Literal::span(lately)),
                ("most", &Literal::count(REGISTERED)),
            ]))
            .await?;
        rows.iter().map(|row| Ok((rows::name(row, 0)?, rows::name(row, 1)?))).collect()
    }
}
