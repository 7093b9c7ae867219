//! Finds out how a commit in doubt ended, on MySQL and MariaDB.

use sendoff_engine::capture::{CommitMark, Resolution, Resolve};
use sendoff_engine::store::StoreError;

use crate::error::{code, number};
use crate::link::{Link, Tries};
use crate::options::Retention;
use crate::rows;
use crate::store::MysqlStore;
use crate::wire::Literal;

impl Resolve for MysqlStore {
    /// A row that is there is proof. A row that was inserted and whose transaction is still open is
    /// locked by it. So where the insert was answered (then the mark has a number), a row that is
    /// neither there nor locked was rolled back, unless rows are deleted when they are delivered, or
    /// the question comes later than they are kept.
    ///
    /// After a failover that lost the last commits this tells what the new server knows.
    async fn resolve(&self, mark: &CommitMark) -> Result<Resolution, StoreError> {
        self.check_open()?;
        if mark.ids.is_empty() {
            return Ok(Resolution::NotYetKnown);
        }
        let (upkeep, sql) = (&self.links().upkeep, self.sql());
        let ids = Literal::ids(mark.ids.iter().copied());
        let list = Literal::id_list(mark.ids.iter().copied());
        let present = sql.present.with(&[("ids", &ids)]);
        let is_present = async || -> Result<bool, StoreError> {
            let rows = upkeep.query(&present).await?;
            Ok(rows.first().map_or(Ok(0), |row| rows::integer(row, 0))? > 0)
        };
        if is_present().await? {
            return Ok(Resolution::Committed);
        }
        let kept = matches!(self.retention(), Retention::Keep(_));
        if mark.xid.is_none() || !kept {
            return Ok(Resolution::NotYetKnown);
        }
        match is_settled(upkeep, &sql.settled.with(&[("list", &list)])).await? {
            Some(true) => Ok(Resolution::Committed),
            Some(false) => Ok(Resolution::RolledBack),
            None => Ok(Resolution::NotYetKnown),
        }
    }
}

/// Whether a row is there; `None` while somebody has it in hand.
async fn is_settled(upkeep: &Link, text: &str) -> Result<Option<bool>, StoreError> {
    let mut tries = Tries::default();
    let mut session = upkeep.session().await?;
    match session.query(text).await {
        Ok(rows) => {
            session.keep();
            Ok(Some(!rows.is_empty()))
        }
        Err(error) if matches!(number(&error), Some(code::LOCK_TIMEOUT | code::NOWAIT)) => {
            // `Ok` would mean to try again, which is what the caller does.
            let _ = session.failed(error, &mut tries).await;
            Ok(None)
        }
        Err(error) => {
            session.failed(error, &mut tries).await?;
            Ok(None)
        }
    }
}
