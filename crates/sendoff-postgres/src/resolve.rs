use sendoff_engine::capture::{CommitMark, Resolution, Resolve};
use sendoff_engine::store::StoreError;
use tokio_postgres::error::SqlState;

use crate::rows;
use crate::store::PostgresStore;
use crate::wire::{Id, Xid};

impl Resolve for PostgresStore {
    /// A row that is there is proof. Without one, the server's own record of the transaction
    /// decides, as long as it keeps one; absence alone proves nothing, since the commit may still be
    /// on its way, or its rows delivered and deleted.
    ///
    /// After a failover that lost the last commits the record may be another transaction's.
    async fn resolve(&self, mark: &CommitMark) -> Result<Resolution, StoreError> {
        self.check_open()?;
        let (upkeep, sql) = (&self.links().upkeep, self.sql());
        let ids: Vec<Id> = mark.ids.iter().copied().map(Id).collect();
        let rows = upkeep.query(&sql.present, &[&ids]).await?;
        if rows.first().map_or(Ok(false), |row| rows::get(row, 0))? {
            return Ok(Resolution::Committed);
        }
        let Some(xid) = mark.xid else { return Ok(Resolution::NotYetKnown) };
        let rows = match upkeep.query(&sql.transaction_status, &[&Xid(xid)]).await {
            Ok(rows) => rows,
            // A number from the future: this server has lost some of its past.
            Err(StoreError::Refused(source)) if is_from_the_future(&*source) => Vec::new(),
            Err(error) => return Err(error),
        };
        let status: Option<String> = rows.first().map_or(Ok(None), |row| rows::get(row, 0))?;
        Ok(match status.as_deref() {
            Some("committed") => Resolution::Committed,
            Some("aborted") => Resolution::RolledBack,
            _ => Resolution::NotYetKnown,
        })
    }
}

fn is_from_the_future(error: &(dyn std::error::Error + 'static)) -> bool {
    error
        .downcast_ref::<tokio_postgres::Error>()
        .is_some_and(|error| error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE))
}
