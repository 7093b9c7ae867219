//! Who handles what, on MySQL and MariaDB.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_engine::store::{EventKind, REGISTERED, RegisterStore, Registered};

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
        let sql = self.sql();
        let statement = if rows.is_empty() { &sql.registered } else { &sql.register };
        let text = statement.with(&[
            ("kinds", &Literal::rows(rows.iter().map(|row| &row[..]))),
            ("lately", &Literal::span(lately)),
            ("most", &Literal::count(REGISTERED)),
        ]);
        let rows = self.links().upkeep.query(&text).await?;
        rows.iter().map(|row| Ok((rows::name(row, 0)?, rows::name(row, 1)?))).collect()
    }
}
