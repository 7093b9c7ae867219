//! What statements about keys cost: as much as the keys and rows they are about.

use std::sync::Arc;

use sendoff_core::partition::Period;
use sendoff_engine::store::frame::text;
use sendoff_engine::{Maintained, PartitionMaintainer, PartitionOptions};
use sendoff_postgres::{Layout, PostgresOptions};

use super::*;
use crate::plans::{OURS, assert_bounded, plan_of};

/// A long line of many keys and of one, and everything else there is, over ten days.
const CROWD: &str = "
    insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at, due_at,
                              status, done_at, locked_by, ordering_key)
    select gen_random_uuid(), 0, 't', 'x', now(), now() - interval '1 day' * (n % 10),
           case kind when 'held' then now() + interval '1 minute' when 'due' then now()
                     when 'many' then '9998-01-01 00:00:00Z' when 'one' then '9998-01-01 00:00:00Z'
                     else now() end,
           case kind when 'done' then 1 else 0 end, case kind when 'done' then now() end,
           case kind when 'held' then 'somebody' end,
           case kind when 'one' then 'one' when 'many' then 'key ' || n when 'done' then 'one' end
      from generate_series(1, 3000) n, unnest(array['done', 'due', 'held', 'many', 'one']) kind;
    insert into outbox_key (ordering_key, due_at, since, parked_by)
    select 'parked ' || n, now(), now(), gen_random_uuid() from generate_series(1, 3000) n;
    insert into outbox_key (ordering_key, due_at, since)
    select 'waiting ' || n, now() + interval '1 hour', now() from generate_series(1, 3000) n";

/// What a take of 50 keys that walks over 100 rows may touch.
const TAKE: i64 = 50 * 8 + 200;

async fn crowded(layout: Layout) -> Place {
    let place = Place::new();
    let store = place.store_with(PostgresOptions { layout, ..place.options() }).await;
    place.run(CROWD).await;
    if layout != Layout::Flat {
        let maintainer = PartitionMaintainer::new(Arc::new(store), PartitionOptions::default());
        let Maintained::Here(made) = maintainer.unwrap().run_once().await.unwrap() else {
            panic!("nobody else is at work")
        };
        assert!(made.moved > 0);
    }
    place
}

/// Rows of events and of keys that this transaction has read, and whole scans of them.
const TOUCHED: &str = "
    select (sum(seq_scan) + sum(seq_tup_read))::bigint, sum(idx_tup_fetch)::bigint
      from pg_stat_xact_all_tables
     where schemaname = current_schema() and relname like 'outbox_%'";

#[tokio::test]
async fn a_take_reads_what_it_takes() {
    for layout in [Layout::Flat, Layout::Partitioned(Period::Day)] {
        let place = crowded(layout).await;
        // As in the store's own sessions, and in those behind a pooler, whatever they have planned before.
        for settings in [OURS, "", "analyze outbox_event; analyze outbox_key"] {
            let client = place.client().await;
            client
                .batch_execute(&format!("set search_path = {}; {settings}", place.schema))
                .await
                .unwrap();
            let take = |owner: &str| {
                format!(
                    "select count(o_key), coalesce(max(o_rows), 0) from outbox_take_keys('{owner}', 50, \
                     200::smallint, '30 s', false, '{{}}', '{{}}', '{{}}', 0, 100)"
                )
            };
            client.batch_execute("begin").await.unwrap();
            let mut seen = (0, 0);
            // A walk that lists keys, one that finds these listed, and a look at those.
            for (owner, lapsed, keys) in [("a", false, 50), ("b", false, 50), ("c", true, 50)] {
                if lapsed {
                    let lapse = "update outbox_key set due_at = now() - interval '1 s' where locked_by = 'a'";
                    client.batch_execute(lapse).await.unwrap();
                }
                let before = client.query_one(TOUCHED, &[]).await.unwrap();
                let row = client.query_one(&take(owner), &[]).await.unwrap();
                assert_eq!(row.get::<_, i64>(0), keys, "{owner}");
                let after = client.query_one(TOUCHED, &[]).await.unwrap();
                let more = |at| after.get::<_, i64>(at) - before.get::<_, i64>(at);
                seen = (more(0), more(1));
                assert_eq!(seen.0, 0, "{layout:?} {settings} {owner}: a scan");
                assert!(seen.1 <= TAKE, "{layout:?} {settings} {owner}: {seen:?}");
            }
            assert!(seen.1 > 0);
            client.batch_execute("rollback").await.unwrap();
        }
    }
}

#[tokio::test]
async fn statements_about_keys_do_not_grow_with_the_table() {
    for layout in [Layout::Flat, Layout::Partitioned(Period::Day)] {
        let place = crowded(layout).await;
        for (settings, counted) in [(OURS, false), (OURS, true), ("", true)] {
            // In partitions a session of ours is what is promised, as of every statement.
            if layout != Layout::Flat && settings.is_empty() {
                continue;
            }
            let client = place.client().await;
            client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
            if counted {
                client.batch_execute("analyze outbox_event; analyze outbox_key").await.unwrap();
            }
            client.batch_execute(settings).await.unwrap();
            for (name, file, types, values, index) in statements(&client).await {
                let text = text(file, &[name]).replace("sendoff.", "");
                client.batch_execute(&format!("prepare {name}{types} as {text}")).await.unwrap();
                client.batch_execute("begin").await.unwrap();
                let plan = plan_of(&client, name, &values).await;
                client.batch_execute("rollback").await.unwrap();
                if layout == Layout::Flat {
                    assert!(plan.contains(index), "{name} uses {index}:\n{plan}");
                }
                assert_bounded(name, &plan);
                assert!(!plan.contains("Seq Scan on outbox_key"), "{name}:\n{plan}");
            }
        }
    }
}

type Explained = (&'static str, &'static str, &'static str, String, &'static str);

async fn statements(client: &Client) -> Vec<Explained> {
    let setup = "
        delete from outbox_key where locked_by = 'me';
        insert into outbox_key (ordering_key, due_at, since, taken_at, locked_by, run)
        select 'key ' || n, now(), now() - interval '1 h', now(), 'me', 1 from generate_series(1, 49) n
        union all select 'one', now(), now() - interval '1 h', now(), 'me', 1";
    client.batch_execute(setup).await.unwrap();
    let row = client
        .query_one(
            "select array_agg(ordering_key)::text, array_agg(taken_at)::text, array_agg(3)::text,
                    array_agg(interval '0')::text, array_agg(no)::text, array_agg(event_id)::text,
                    array_agg(1)::text
               from (select k.*, row_number() over () as no,
                            (select event_id from outbox_event e
                              where e.ordering_key collate \"C\" = k.ordering_key
                                and e.ordering_key is not null and e.status in (0, 2)
                              order by seq limit 1) as event_id
                       from outbox_key k where locked_by = 'me') held",
            &[],
        )
        .await
        .unwrap();
    let column = |at: usize| format!("'{}'", row.get::<_, String>(at).replace('\'', "''"));
    let [keys, tokens, endings, spans, places, ids, ones] =
        [column(0), column(1), column(2), column(3), column(4), column(5), column(6)];
    let held = client
        .query_one(
            "select array_agg(event_id)::text, array_agg(due_at)::text
               from (select * from outbox_event where locked_by = 'somebody' limit 50) held",
            &[],
        )
        .await
        .unwrap();
    let (hot, hot_tokens) = (held.get::<_, String>(0), held.get::<_, String>(1));
    let runs = "(text, text[], timestamptz[], smallint[], interval[], integer[], uuid[], smallint[], \
                integer[], text[])";
    let settled = format!(
        "('me', {keys}, {tokens}, {endings}, {spans}, {places}, {ids}, {ones}, null, null)"
    );
    let keys_sql = include_str!("../../../sql/outbox/keys.sql");
    let settle_sql = include_str!("../../../sql/outbox/settle.sql");
    let park_sql = include_str!("../../../sql/outbox/park.sql");
    vec![
        (
            "runs",
            keys_sql,
            "(text[], bigint[], bigint)",
            format!("({keys}, {ones}, 100000)"),
            "outbox_event_key",
        ),
        (
            "extend_keys",
            keys_sql,
            "(text, text[], timestamptz[], interval)",
            format!("('me', {keys}, {tokens}, '30 s')"),
            "outbox_key_pkey",
        ),
        (
            "shelve",
            keys_sql,
            "(bigint, bigint, interval, bigint)",
            "(0, 200, '1 s', 50)".into(),
            "outbox_event_due",
        ),
        ("parked_keys", park_sql, "(text, bigint)", "('parked 5', 50)".into(), "outbox_key"),
        ("parked_count", park_sql, "(bigint)", "(50)".into(), "outbox_key_parked"),
        (
            "key_standings",
            park_sql,
            "(text[], bigint)",
            format!("({keys}, 50)"),
            "outbox_event_key",
        ),
        (
            "resume_key",
            park_sql,
            "(text, uuid, text, text, text)",
            "('parked 7', null, 'ada', 'why', 'key:parked 7')".into(),
            "outbox_key_pkey",
        ),
        ("settle_runs_keep", settle_sql, runs, settled.clone(), "outbox_event_pkey"),
        ("settle_runs_delete", settle_sql, runs, settled, "outbox_event_pkey"),
        (
            "confirm_keys",
            include_str!("../../../sql/outbox/confirm.sql"),
            "(uuid[], timestamptz[], bigint)",
            format!("('{hot}', '{hot_tokens}', 65)"),
            "outbox_event_key",
        ),
    ]
}
