//! What claims and settles: the store's own statements, or the plainest that do the same for rows
//! that never fail.

use std::time::SystemTime;

use anyhow::{Result, ensure};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use crate::ground::postgres::Ground;
use crate::work::{End, Statements};

const STORE_CLAIM: &str = include_str!("../../../../crates/sendoff-postgres/sql/claim.sql");
const STORE_KEEP: &str = include_str!("../../../../crates/sendoff-postgres/sql/settle_keep.sql");
const STORE_DELETE: &str =
    include_str!("../../../../crates/sendoff-postgres/sql/settle_delete.sql");
const PLAIN_CLAIM: &str = include_str!("../../../sql/postgres/claim.sql");
const PLAIN_KEEP: &str = include_str!("../../../sql/postgres/settle_keep.sql");
const PLAIN_DELETE: &str = include_str!("../../../sql/postgres/settle_delete.sql");

const OWNER: &str = "by hand";
/// The outcome of a delivered row.
const DONE: i16 = 1;

/// A connection that claims and settles.
pub(super) struct Relay {
    client: Client,
    statements: Statements,
    claim: Statement,
    settle: Statement,
}

/// Rows that were claimed.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    pub(super) ids: Vec<Uuid>,
    pub(super) tokens: Vec<SystemTime>,
}

impl Relay {
    pub(super) async fn new(ground: &Ground, statements: Statements, end: End) -> Result<Self> {
        let client = ground.connect_relay().await?;
        let (claim, settle) = match (statements, end) {
            (Statements::Store, End::Keep) => (STORE_CLAIM, STORE_KEEP),
            (Statements::Store, End::Delete) => (STORE_CLAIM, STORE_DELETE),
            (Statements::Plain, End::Keep) => (PLAIN_CLAIM, PLAIN_KEEP),
            (Statements::Plain, End::Delete) => (PLAIN_CLAIM, PLAIN_DELETE),
        };
        let claim = client.prepare(&with_fixed_spans(claim)).await?;
        let settle = client.prepare(&with_fixed_spans(settle)).await?;
        Ok(Self { client, statements, claim, settle })
    }

    pub(super) async fn claim(&self, batch: usize) -> Result<Held> {
        let rows = self.client.query(&self.claim, &[&OWNER, &i64::try_from(batch)?]).await?;
        let mut held = Held::default();
        for row in rows {
            held.ids.push(row.try_get("event_id")?);
            held.tokens.push(row.try_get("due_at")?);
            let payload: &[u8] = row.try_get("payload")?;
            // The handler: it has seen the bytes.
            std::hint::black_box(payload);
        }
        Ok(held)
    }

    /// One statement for all of them; and again for those of which a claim beside it had a lock for a
    /// moment, which it answers instead of waiting.
    pub(super) async fn settle(&self, held: &Held) -> Result<()> {
        let mut left = held.clone();
        while !left.ids.is_empty() {
            let count = left.ids.len();
            let (outcomes, attempts) = (vec![DONE; count], vec![None::<i32>; count]);
            let errors = vec![None::<&str>; count];
            let Held { ids, tokens } = &left;
            let all: [&(dyn ToSql + Sync); 5] = [ids, tokens, &outcomes, &attempts, &errors];
            if self.statements == Statements::Plain {
                let settled = self.client.execute(&self.settle, &all[..2]).await?;
                ensure!(settled == count as u64, "{settled} of {count} rows were settled");
                return Ok(());
            }
            let mut busy = Held::default();
            let answers = self.client.query(&self.settle, &all).await?;
            ensure!(answers.len() == count, "{} of {count} rows were settled", answers.len());
            for answer in answers.iter().filter(|answer| !answer.get::<_, bool>("applied")) {
                let id = answer.try_get("event_id")?;
                let token = ids.iter().zip(tokens).find(|(known, _)| **known == id);
                busy.ids.push(id);
                busy.tokens.extend(token.map(|(_, token)| *token));
            }
            left = busy;
        }
        Ok(())
    }
}

/// The store's statement for the schema it is in, with spans of time that this driver cannot bind
/// written out: the default hold, no window, no bounds, and no retry that would be due after one.
fn with_fixed_spans(statement: &str) -> String {
    statement
        .replace("sendoff.", "public.")
        .replace("$3::interval", "interval '30 seconds'")
        .replace("$4::interval[]", "null::interval[]")
        .replace("$4::interval", "interval '0'")
        .replace("$5::interval", "null::interval")
        .replace("$7::timestamptz[]", "null::timestamptz[]")
        .replace("$6::bigint", "9223372036854775807")
        .replace("$7::timestamptz", "null::timestamptz")
        .replace("$8::uuid[]", "'{}'::uuid[]")
        .replace("$5::integer[]", "$4::integer[]")
        .replace("$6::text[]", "$5::text[]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_that_are_left_are_those_that_are_bound() {
        let most = |statement: &str| {
            let text = with_fixed_spans(statement);
            (1..=9).filter(|number| text.contains(&format!("${number}::"))).collect::<Vec<_>>()
        };
        assert_eq!(most(STORE_CLAIM), [1, 2]);
        assert_eq!(most(PLAIN_CLAIM), [1, 2]);
        for settle in [STORE_KEEP, STORE_DELETE] {
            assert_eq!(most(settle), [1, 2, 3, 4, 5]);
        }
        for settle in [PLAIN_KEEP, PLAIN_DELETE] {
            assert_eq!(most(settle), [1, 2]);
        }
    }
}
