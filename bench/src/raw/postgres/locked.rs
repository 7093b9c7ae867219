//! Lock a batch, do nothing with it, mark it in the same transaction; on each connection, until
//! nothing is left.

use anyhow::{Result, ensure};
use futures_util::future::{join, try_join};
use sendoff_engine::store::frame::text;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use crate::ground::postgres::Ground;
use crate::work::End;

const CLAIMS: &str = include_str!("../../../../crates/sendoff-postgres/sql/outbox/claim.sql");
const SETTLES: &str = include_str!("../../../../crates/sendoff-postgres/sql/outbox/settle.sql");

/// The outcome of a delivered row.
const DONE: i16 = 1;

/// A connection that locks and settles.
pub(super) struct Locker {
    client: Client,
    lock: Statement,
    settle: Statement,
}

impl Locker {
    pub(super) async fn new(ground: &Ground, end: End) -> Result<Self> {
        let client = ground.connect_relay().await?;
        let settle = match end {
            End::Keep => "settle_locked_keep",
            End::Delete => "settle_locked_delete",
        };
        let lock = client.prepare(&with_fixed_spans(CLAIMS, "lock")).await?;
        let settle = client.prepare(&with_fixed_spans(SETTLES, settle)).await?;
        Ok(Self { client, lock, settle })
    }

    /// Two round trips for each batch; how many rows there were.
    pub(super) async fn run(self, batch: usize) -> Result<u64> {
        let (client, batch) = (&self.client, i64::try_from(batch)?);
        let mut delivered = 0;
        loop {
            let begin = client.batch_execute("begin isolation level read committed");
            let (begun, rows) = join(begin, client.query(&self.lock, &[&batch])).await;
            begun?;
            let mut ids: Vec<Uuid> = Vec::new();
            for row in rows? {
                ids.push(row.try_get("event_id")?);
                let payload: &[u8] = row.try_get("payload")?;
                // The handler: it has seen the bytes.
                std::hint::black_box(payload);
            }
            if ids.is_empty() {
                client.batch_execute("rollback").await?;
                return Ok(delivered);
            }
            let count = ids.len();
            let (outcomes, attempts) = (vec![DONE; count], vec![None::<i32>; count]);
            let (errors, due) =
                (vec![None::<&str>; count], vec![None::<std::time::SystemTime>; count]);
            try_join(
                client.execute(&self.settle, &[&ids, &outcomes, &attempts, &errors, &due]),
                client.batch_execute("commit"),
            )
            .await?;
            delivered += count as u64;
            ensure!(count as i64 <= batch, "more rows than were asked for");
        }
    }
}

/// The store's statement for the schema it is in, with spans of time that this driver cannot bind
/// written out: no window, no bounds, nothing skipped, no retry that would be due after one.
fn with_fixed_spans(file: &str, name: &str) -> String {
    text(file, &[name])
        .replace("sendoff.", "public.")
        .replace("$1::interval", "interval '0'")
        .replace("$2::interval", "null::interval")
        .replace("$3::interval[]", "null::interval[]")
        .replace("$3::timestamptz", "null::timestamptz")
        .replace("$4::uuid[]", "'{}'::uuid[]")
        .replace("$5::bigint", "$1::bigint")
        .replace("$6::bigint", "9223372036854775807")
        .replace("$4::integer[]", "$3::integer[]")
        .replace("$5::text[]", "$4::text[]")
        .replace("$6::timestamptz[]", "$5::timestamptz[]")
}

#[cfg(test)]
mod tests {
    use super::super::statements::parameters;
    use super::*;

    #[test]
    fn the_parameters_that_are_left_are_those_that_are_bound() {
        let most = |file, name| parameters(&with_fixed_spans(file, name));
        assert_eq!(most(CLAIMS, "lock"), [1]);
        for settle in ["settle_locked_keep", "settle_locked_delete"] {
            assert_eq!(most(SETTLES, settle), [1, 2, 3, 4, 5]);
        }
    }
}
