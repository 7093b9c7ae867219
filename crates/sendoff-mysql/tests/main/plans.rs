//! What the statements cost: never more for rows that were delivered, or are not due yet.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use sendoff_core::Event;
use sendoff_engine::store::frame::text;
use sendoff_engine::store::{ClaimStore, Outcome, SettleStore, Settlement};

use crate::order::steps;
use crate::place::{MARIADB, MYSQL, Place, claim, due, event, hold_of, write};

const CLAIM: &str = include_str!("../../sql/outbox/claim.sql");
const LETTERS: &str = include_str!("../../sql/outbox/letters.sql");
const LETTERS_CHANGE: &str = include_str!("../../sql/outbox/letters_change.sql");
const LOCK: &str = include_str!("../../sql/outbox/lock.sql");
const LOOK: &str = include_str!("../../sql/outbox/look.sql");
const CLAIMED: &str = include_str!("../../sql/outbox/claimed.sql");
const SETTLE: &str = include_str!("../../sql/outbox/settle.sql");
const PURGE: &str = include_str!("../../sql/outbox/purge.sql");
const FORGET: &str = include_str!("../../sql/outbox/forget.sql");
const FIRST_DUE: &str = include_str!("../../sql/outbox/first_due.sql");
const HORIZON: &str = include_str!("../../sql/outbox/horizon.sql");
const REPLAY: &str = include_str!("../../sql/outbox/replay.sql");
const STANDING: &str = include_str!("../../sql/outbox/standing.sql");

/// The look of a file, with values.
fn look(file: &str, name: &str) -> String {
    let text = text(file, &[name]).replace("start transaction;", "");
    // The first of several statements, and its answer to us rather than to the next one.
    let first = text.split(";\n").next().unwrap().to_owned();
    first
        .replace("into @sendoff_rows, @sendoff_at, @sendoff_until", "")
        .replace("into @sendoff_rows, @sendoff_found, @sendoff_at", "")
        .replace("into @sendoff_rows, @sendoff_found", "")
        .replace("into @sendoff_rows", "")
        .replace(":first", "timestamp'1000-01-01 00:00:00'")
        .replace(":last", "timestamp'9999-01-01 00:00:00'")
        .replace(
            ":after_at",
            if name.ends_with("newest") {
                "timestamp'9999-01-01 00:00:00'"
            } else {
                "timestamp'1000-01-01 00:00:00'"
            },
        )
        .replace(":after_seq", "0")
        .replace(":end_at", "timestamp'9999-01-01 00:00:00'")
        .replace(":end_seq", "0")
        .replace(":ordering_key", "null")
        .replace("limit :rows", "limit 100")
        .replace("offset :rows", "offset 99")
        .replace(":event_type", "'t'")
        .replace(":aggregate_type", "null")
        .replace(":aggregate_id", "null")
        .replace(":tenant_id", "null")
        .replace(":error", "null")
        .replace(":attempts_least", "1")
        .replace(":attempts_most", "null")
        .replace("into @sendoff_ahead", "")
        .replace(":kinds", "('a', 'b')")
        .replace(":types", "'c'")
        .replace(":pauses", "100")
        .replace("@sendoff_rows", "'[[\"00000000000000000000000000000001\", 1]]'")
        .replace("sendoff.", "")
        .replace(":passed", "x''")
        .replace(":from", "0")
        .replace(":bytes", "1000000")
        .replace(":hold", "1000000")
        .replace(":rows", "'[{\"i\":\"00000000000000000000000000000001\"}]'")
        .replace(":owner", "'a'")
        .replace(":skip_recent", "0")
        .replace(":limit", "100")
        .replace(":kind", "1")
        .replace(":since", "timestamp'1000-01-01 00:00:00'")
        .replace(":cutoff", "utc_timestamp(6)")
        .replace(":passing", "skip locked")
        .replace(":entry", "")
        .replace(":too", "")
        .replace(":list", "'[\"00000000000000000000000000000001\"]'")
        .replace(":seq", "0")
        .replace(":at", "utc_timestamp(6)")
        .replace(":ids", "x'00000000000000000000000000000001',x'00000000000000000000000000000002'")
}

/// The index that a look uses.
async fn index(conn: &mut Conn, file: &str, name: &str) -> String {
    // MySQL 9 shows a tree unless it is told otherwise; MariaDB knows nothing of it.
    let _ = conn.query_drop("set explain_format = traditional").await;
    let plan: Vec<Row> = conn.query(format!("explain {}", look(file, name))).await.unwrap();
    // Where a list of ids leads to the rows it is the first line.
    let last = plan.iter().rfind(|line| {
        let table: Option<String> = line.get("table").unwrap();
        matches!(table.as_deref(), Some("e" | "outbox_event"))
    });
    let last = last.unwrap();
    let extra: Option<String> = last.get("Extra").unwrap();
    assert!(!extra.unwrap_or_default().contains("filesort"), "{name}");
    last.get::<Option<String>, _>("key").unwrap().unwrap_or_default()
}

/// Steps in indexes that a look takes.
async fn steps_of(conn: &mut Conn, file: &str, name: &str) -> i64 {
    let (before, own) = (steps(conn).await, steps(conn).await);
    let _: Vec<Row> = conn.query(look(file, name)).await.unwrap();
    let after = steps(conn).await;
    // Asking takes steps too, the same each time.
    after - own - (own - before)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_walk_past_neither_delivered_nor_delayed_rows() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let mut conn = place.conn().await;
        let events = |count| (0..count).map(|_| due(event())).collect::<Vec<_>>();
        for _ in 0..3 {
            write(&store, &mut conn, &events(1_000)).await;
            let batch: Vec<_> = claim(&store, "a")
                .await
                .iter()
                .map(|row| Settlement { held: hold_of(row), outcome: Outcome::Done })
                .collect();
            assert_eq!(store.settle(&batch).await.unwrap().applied.len(), 1_000);
        }
        let late = || Event::builder("t").delay(Duration::from_secs(600)).json(&1).build().unwrap();
        for _ in 0..2 {
            let rows: Vec<_> = (0..1_000).map(|_| due(late())).collect();
            write(&store, &mut conn, &rows).await;
        }
        write(&store, &mut conn, &events(10)).await;
        conn.query_drop(
            "insert into outbox_audit (at, action, actor, reason)
             select utc_timestamp(6) - interval 1 hour, 'pause', 'ada', 'why' from outbox_event",
        )
        .await
        .unwrap();
        conn.query_drop("analyze table outbox_event").await.unwrap();

        for (file, name, expected) in [
            (CLAIM, "claim", "outbox_event_due"),
            (CLAIM, "claim_suspects", "outbox_event_aside"),
            (CLAIM, "claim_except", "outbox_event_due"),
            (CLAIM, "claim_suspects_except", "outbox_event_aside"),
            (CLAIM, "lock_visible", "outbox_event_due"),
            (CLAIM, "lock_visible_except", "outbox_event_due"),
            (LOOK, "look", "outbox_event_due"),
            (LOOK, "some_visible", "outbox_event_due"),
            (LOOK, "some_suspects", "outbox_event_aside"),
            (CLAIMED, "claimed", "PRIMARY"),
            (LOCK, "lock", "PRIMARY"),
            (SETTLE, "settle", "PRIMARY"),
            (PURGE, "purge", "outbox_event_aside"),
            (FIRST_DUE, "first_due", "outbox_event_due"),
            (LETTERS, "letters", "outbox_event_aside"),
            (LETTERS, "letters_newest", "outbox_event_aside"),
            (LETTERS, "letters_count", "outbox_event_aside"),
            (LETTERS_CHANGE, "letters_requeue", "PRIMARY"),
            (HORIZON, "horizon", "outbox_event_due"),
            (HORIZON, "pending_within", "outbox_event_due"),
            (STANDING, "standing", "PRIMARY"),
            (REPLAY, "replay_step", "outbox_event_aside"),
            (REPLAY, "replay_count", "outbox_event_aside"),
        ] {
            assert_eq!(index(&mut conn, file, name).await, expected);
        }
        for (file, name, most) in [
            (CLAIM, "claim", 100),
            (CLAIM, "claim_suspects", 15),
            (LOOK, "look", 40),
            (LOOK, "some_visible", 5),
            (LOOK, "some_suspects", 5),
            (FIRST_DUE, "first_due", 5),
            // None is dead.
            (LETTERS, "letters", 15),
            (LETTERS, "letters_newest", 15),
            (LETTERS, "letters_count", 15),
            (STANDING, "standing", 10),
            // Each entry once, and once more as a row of what was found.
            (FORGET, "forget_audit", 210),
            (REPLAY, "replay_step", 110),
        ] {
            let steps = steps_of(&mut conn, file, name).await;
            assert!(steps <= most, "{server}: {steps} steps for {name}");
        }
        assert_eq!(store.claim(&crate::place::by("b")).await.unwrap().rows.len(), 10);
    }
}
