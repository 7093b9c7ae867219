//! What claims and settles: the store's own statements, or the plainest that do the same for rows
//! that never fail.

use std::time::SystemTime;

use anyhow::{Result, ensure};
use sendoff_engine::store::frame::text;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use crate::ground::postgres::Ground;
use crate::work::{End, Statements};

const STORE_CLAIMS: &str = include_str!("../../../../crates/sendoff-postgres/sql/outbox/claim.sql");
const STORE_SETTLES: &str =
    include_str!("../../../../crates/sendoff-postgres/sql/outbox/settle.sql");
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
            (Statements::Store, _) => (STORE_CLAIMS, STORE_SETTLES),
            (Statements::Plain, End::Keep) => (PLAIN_CLAIM, PLAIN_KEEP),
            (Statements::Plain, End::Delete) => (PLAIN_CLAIM, PLAIN_DELETE),
        };
        let claim = client.prepare(&with_fixed_spans(claim, "claim")).await?;
        let settle = client.prepare(&with_fixed_spans(settle, settlement(end))).await?;
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

fn settlement(end: End) -> &'static str {
    match end {
        End::Keep => "settle_keep",
        End::Delete => "settle_delete",
    }
}

/// The store's statement for the schema it is in, with spans of time that this driver cannot bind
/// written out: the default hold, no window, no bounds, and no retry that would be due after one.
fn with_fixed_spans(file: &str, name: &str) -> String {
    text(file, &[name])
        .replace("sendoff.", "public.")
        .replace("$1::interval", "interval '0'")
        .replace("$2::interval", "null::interval")
        .replace("$8::interval", "interval '30 seconds'")
        .replace("$4::interval[]", "null::interval[]")
        .replace("$7::timestamptz[]", "null::timestamptz[]")
        .replace("$3::timestamptz", "null::timestamptz")
        .replace("$4::uuid[]", "'{}'::uuid[]")
        .replace("$5::bigint", "$2::bigint")
        .replace("$6::bigint", "9223372036854775807")
        .replace("$7::text", "$1::text")
        .replace("$5::integer[]", "$4::integer[]")
        .replace("$6::text[]", "$5::text[]")
}

/// The numbers of a statement's parameters.
#[cfg(test)]
pub(super) fn parameters(text: &str) -> Vec<u32> {
    (1..=9).filter(|number| text.contains(&format!("${number}::"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_that_are_left_are_those_that_are_bound() {
        let most = |file, name| parameters(&with_fixed_spans(file, name));
        assert_eq!(most(STORE_CLAIMS, "claim"), [1, 2]);
        assert_eq!(most(PLAIN_CLAIM, "claim"), [1, 2]);
        for end in [End::Keep, End::Delete] {
            assert_eq!(most(STORE_SETTLES, settlement(end)), [1, 2, 3, 4, 5]);
        }
        for settle in [PLAIN_KEEP, PLAIN_DELETE] {
            assert_eq!(most(settle, "settle"), [1, 2]);
        }
    }
}
