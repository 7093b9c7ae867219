//! What every statement of a busy relay costs: as much as the rows it is about, whatever the table
//! holds besides.

use std::sync::Arc;

use sendoff_core::Event;
use sendoff_core::partition::Period;
use sendoff_engine::capture::Commit;
use sendoff_engine::store::frame::text;
use sendoff_engine::store::{
    Birth, ClaimStore, Cutoff, InspectStore, Lock, LockStore, NewRow, Outcome, Purge, RetainStore,
};
use sendoff_engine::{Maintained, PartitionMaintainer, PartitionOptions};
use sendoff_postgres::{Layout, PostgresOptions};
use sendoff_testkit::soak;
use sendoff_testkit::wait::eventually;
use tokio_postgres::Client;

use crate::place::{Place, by, claim, due, hold_of, settle_one, write};

/// What a batch of 50 may touch: each row, and what rolled-back statements left of it.
const BATCH: u64 = 50 * 8;

/// Far more of everything than any statement is asked for.
const CROWD: &str = "
    insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at,
                              due_at, status, done_at, locked_by, attempts,
                              losses)
    select gen_random_uuid(), 0, 't', 'x', now(), now() - interval '1 day',
           case kind when 'delayed' then now() + interval '1 day'
                     when 'held' then now() + interval '1 minute'
                     else now() - interval '1 hour' end,
           case kind when 'done' then 1 when 'dead' then 3 when 'retry' then 2 else 0 end,
           case kind when 'done' then now()
                     when 'dead' then now() - random() * interval '1 hour' end,
           case kind when 'held' then 'somebody' when 'lost' then 'somebody' end,
           case kind when 'held' then 1 when 'retry' then 1 when 'dead' then 1 else 0 end,
           0
      from generate_series(1, 4000),
           unnest(array['done', 'done', 'done', 'delayed', 'due', 'held', 'retry', 'dead',
                        'lost']) as kind";

struct Explained {
    name: &'static str,
    text: String,
    types: &'static str,
    values: String,
    index: &'static str,
}

async fn statements(client: &Client) -> Vec<Explained> {
    let row = client
        .query_one(
            "select array_agg(event_id)::text, array_agg(due_at)::text,
                    array_agg(1)::text, array_agg(interval '0')::text
               from (select * from outbox_event where locked_by = 'somebody' limit 50) held",
            &[],
        )
        .await
        .unwrap();
    let column = |at: usize| format!("'{}'", row.get::<_, String>(at).replace('\'', "''"));
    let (ids, tokens, ones, spans) = (column(0), column(1), column(2), column(3));
    let settle =
        "(uuid[], timestamptz[], smallint[], interval[], integer[], text[], timestamptz[])";
    let locked = "(uuid[], smallint[], interval[], integer[], text[], timestamptz[])";
    let settled = format!("({ids}, {tokens}, {ones}, {spans}, null, null, null)");
    let ended = format!("({ids}, {ones}, {spans}, null, null, null)");
    let row = client
        .query_one(
            "select array_agg(event_id)::text, array_agg(done_at)::text
               from (select * from outbox_event where status = 3 limit 50) dead",
            &[],
        )
        .await
        .unwrap();
    let column = |at: usize| format!("'{}'", row.get::<_, String>(at).replace('\'', "''"));
    let change = format!("({}, {}, 'ada', 'why')", column(0), column(1));
    let page = "(timestamptz, timestamptz, timestamptz, bigint, text, text, text, text, text, bigint, \
                bigint, bigint)";
    let letters =
        "('-infinity', 'infinity', '-infinity', 0, 't', null, null, null, null, 1, null, 50)";
    let newest =
        "('-infinity', 'infinity', 'infinity', 0, 't', null, null, null, null, 1, null, 50)";
    let explained = |name, file, types, values: &str, index| Explained {
        name,
        text: text(file, &[name]).replace("sendoff.", ""),
        types,
        values: values.to_owned(),
        index,
    };
    vec![
        explained(
            "claim",
            include_str!("../../sql/outbox/claim.sql"),
            "(interval, interval, timestamptz, uuid[], bigint, bigint, text, interval)",
            "('0', null, null, '{}', 50, 1000000, 'a', '30 s')",
            "outbox_event_due",
        ),
        explained(
            "claim_suspects",
            include_str!("../../sql/outbox/claim.sql"),
            "(interval, interval, timestamptz, uuid[], bigint, bigint, text, interval)",
            "('0', null, null, '{}', 50, 1000000, 'a', '30 s')",
            "outbox_event_suspect",
        ),
        explained(
            "claim_except",
            include_str!("../../sql/outbox/claim.sql"),
            "(interval, interval, timestamptz, uuid[], bigint, bigint, text, interval, text[], text[], text[])",
            "('0', null, null, '{}', 50, 1000000, 'a', '30 s', '{a}', '{b}', '{c}')",
            "outbox_event_due",
        ),
        explained(
            "claim_suspects_except",
            include_str!("../../sql/outbox/claim.sql"),
            "(interval, interval, timestamptz, uuid[], bigint, bigint, text, interval, text[], text[], text[])",
            "('0', null, null, '{}', 50, 1000000, 'a', '30 s', '{a}', '{b}', '{c}')",
            "outbox_event_suspect",
        ),
        explained(
            "confirm",
            include_str!("../../sql/outbox/confirm.sql"),
            "(uuid[], timestamptz[])",
            &format!("({ids}, {tokens})"),
            "outbox_event_pkey",
        ),
        explained(
            "extend",
            include_str!("../../sql/outbox/settle.sql"),
            "(uuid[], timestamptz[], interval)",
            &format!("({ids}, {tokens}, '30 s')"),
            "outbox_event_pkey",
        ),
        explained(
            "settle_keep",
            include_str!("../../sql/outbox/settle.sql"),
            settle,
            &settled,
            "outbox_event_pkey",
        ),
        explained(
            "settle_locked_keep",
            include_str!("../../sql/outbox/settle.sql"),
            locked,
            &ended,
            "outbox_event_pkey",
        ),
        explained(
            "settle_delete",
            include_str!("../../sql/outbox/settle.sql"),
            settle,
            &settled,
            "outbox_event_pkey",
        ),
        explained(
            "settle_locked_delete",
            include_str!("../../sql/outbox/settle.sql"),
            locked,
            &ended,
            "outbox_event_pkey",
        ),
        explained(
            "lock",
            include_str!("../../sql/outbox/claim.sql"),
            "(interval, interval, timestamptz, uuid[], bigint, bigint)",
            "('0', null, null, '{}', 50, 1000000)",
            "outbox_event_due",
        ),
        explained(
            "lock_except",
            include_str!("../../sql/outbox/claim.sql"),
            "(interval, interval, timestamptz, uuid[], bigint, bigint, text[], text[], text[])",
            "('0', null, null, '{}', 50, 1000000, '{__GLOBAL__}', '{other}', '{another}')",
            "outbox_event_due",
        ),
        explained(
            "letters",
            include_str!("../../sql/outbox/letters.sql"),
            page,
            letters,
            "outbox_event_dead",
        ),
        explained(
            "letters_newest",
            include_str!("../../sql/outbox/letters.sql"),
            page,
            newest,
            "outbox_event_dead",
        ),
        explained(
            "letters_count",
            include_str!("../../sql/outbox/letters.sql"),
            page,
            letters,
            "outbox_event_dead",
        ),
        explained(
            "letters_requeue",
            include_str!("../../sql/outbox/letters_change.sql"),
            "(uuid[], timestamptz[], text, text)",
            &change,
            "outbox_event_pkey",
        ),
        explained(
            "letters_discard",
            include_str!("../../sql/outbox/letters_change.sql"),
            "(uuid[], timestamptz[], text, text)",
            &change,
            "outbox_event_pkey",
        ),
        explained(
            "first_due",
            include_str!("../../sql/outbox/first_due.sql"),
            "",
            "",
            "outbox_event_due",
        ),
        explained(
            "purge",
            include_str!("../../sql/outbox/purge.sql"),
            "(interval, bigint, boolean, timestamptz)",
            "('0', 50, true, null)",
            "outbox_event_done",
        ),
    ]
}

/// The settings of the store's own sessions, and none, as behind a pooler.
pub(crate) const OURS: &str = "set plan_cache_mode = force_generic_plan; set enable_seqscan = off;
    set enable_bitmapscan = off; set enable_hashjoin = off; set enable_mergejoin = off;
    set enable_material = off; set jit = off";

#[tokio::test]
async fn no_statement_grows_with_what_it_is_not_about() {
    let place = Place::new();
    place.store().await;
    place.run(CROWD).await;
    for (settings, counted) in [(OURS, false), (OURS, true), ("", true)] {
        for (name, index, plan) in explain(&place, settings, counted).await {
            assert!(plan.contains(index), "{name} uses {index}:\n{plan}");
            if ["claim", "claim_suspects", "lock"].contains(&name) {
                // Planned for its values, as behind a pooler, it shows what it is told.
                let begins = |line: &str| line.contains("Cond") && line.contains("due_at >= ");
                assert!(plan.lines().any(begins), "{name} begins where it is told:\n{plan}");
            }
            assert_bounded(name, &plan);
        }
    }
}

/// Holds L6: the same with forty partitions. A claim merges their indexes, and finds each row it
/// took in its own partition alone.
#[tokio::test]
async fn no_statement_grows_with_the_partitions() {
    let place = Place::new();
    let layout = Layout::Partitioned(Period::Day);
    let store = place.store_with(PostgresOptions { layout, ..place.options() }).await;
    // A tenth of the crowd for each of the last ten days.
    place
        .run(
            &CROWD
                .replace("interval '1 day',", "interval '1 day' * (n % 10),")
                .replace("generate_series(1, 4000),", "generate_series(1, 4000) n,"),
        )
        .await;
    let maintainer = PartitionMaintainer::new(Arc::new(store), PartitionOptions::default());
    let Maintained::Here(made) = maintainer.unwrap().run_once().await.unwrap() else {
        panic!("nobody else is at work")
    };
    assert_eq!((made.created.len(), made.moved), (9, 4_000 * 9 / 10 * 9));
    for counted in [false, true] {
        for (name, _, plan) in explain(&place, OURS, counted).await {
            assert_bounded(name, &plan);
            if name == "claim" {
                assert!(plan.contains("Merge Append"), "{plan}");
                let probed = plan.lines().filter(|line| {
                    line.contains("_pkey on outbox_event_p") && !line.contains("never executed")
                });
                assert!(probed.count() <= 10, "only where rows were taken:\n{plan}");
            }
        }
    }
}

/// A bad night among everything that was ever delivered and kept.
const BAD_NIGHT: &str = "
    insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at, due_at,
                              status, done_at, last_error)
    select gen_random_uuid(), 0, case when n % 2 = 0 then 'even' else 'odd' end, 'x', now(), now(),
           now(), case when n % 1000 = 0 then 3 else 1 end, now() - random() * interval '1 hour', 'no'
      from generate_series(1, $rows) n";

#[tokio::test]
async fn a_list_of_dead_letters_walks_dead_letters_only() {
    let place = Place::new();
    place.store().await;
    let rows = soak::amount(50_000, 1_000_000);
    place.run(CROWD).await;
    place.run(&BAD_NIGHT.replace("$rows", &rows.to_string())).await;
    let dead = 4_000 + rows / 1_000;
    let client = place.client().await;
    client.batch_execute(&format!("set search_path = {}; {OURS}", place.schema)).await.unwrap();
    for Explained { name, text, types, values, .. } in statements(&client).await {
        if !name.starts_with("letters") {
            continue;
        }
        client.batch_execute(&format!("prepare {name}{types} as {text}")).await.unwrap();
        client.batch_execute("begin").await.unwrap();
        // None is of this type, so all of the dead are looked at, and nothing else.
        let plan = plan_of(&client, name, &values.replace("'t'", "'nobody'")).await;
        client.batch_execute("rollback").await.unwrap();
        for line in plan.lines() {
            assert!(touched(line) <= dead && filtered(line) <= dead, "{name}: {line}\n{plan}");
            assert!(!line.contains("Seq Scan on outbox_event"), "{name}:\n{plan}");
        }
    }
}

/// One tenant has a flood, another as much that is not visible, and a hundred have two rows each.
const TENANTS: &str = "
    insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at, due_at, tenant_id)
    select gen_random_uuid(), 0, 't', 'x', now(), now(),
           case kind when 'later' then now() + interval '1 day' else now() - interval '1 hour' end,
           case kind when 'small' then 'small ' || n % 100 else kind end
      from unnest(array['flood', 'later', 'small']) as kind,
           generate_series(1, case kind when 'small' then 200 else $rows end) n";

/// What a walk over tenants and a shared claim read depends on neither a flood nor on what is not visible,
/// whatever the server knows of the table.
#[tokio::test]
async fn shared_claims_read_no_more_than_they_take() {
    let place = Place::new();
    place.store_with(PostgresOptions { tenant_index: true, ..place.options() }).await;
    let rows = soak::amount(20_000, 1_000_000);
    place.run(&TENANTS.replace("$rows", &rows.to_string())).await;
    let small: Vec<String> = (0..61).map(|at| format!("small {at}")).collect();
    let shares =
        format!("'{{{},flood,later,\"\"}}', '{{{}}}'", small.join(","), vec!["3"; 64].join(","));
    let claim = format!("('0', null, null, '{{}}', 200, 1000000, 'a', '30 s', {shares})");
    let claim_except = claim.replace("')", "', '{a}', '{b}', '{c}')");
    let claim_types = "(interval, interval, timestamptz, uuid[], bigint, bigint, text, interval, text[], \
                       bigint[])";
    let except_types = claim_types.replace("bigint[])", "bigint[], text[], text[], text[])");
    let claims = include_str!("../../sql/outbox/claim.sql");
    let tenants = include_str!("../../sql/outbox/tenants.sql");
    let statements = [
        ("tenants", tenants, "(text, bigint, bigint)", "('', 64, 1024)"),
        ("claim_fair", claims, claim_types, claim.as_str()),
        ("claim_fair_except", claims, except_types.as_str(), claim_except.as_str()),
    ];
    for (settings, counted) in [(OURS, false), (OURS, true), ("", false), ("", true)] {
        let client = place.client().await;
        let search = format!("set search_path = {}; {settings}", place.schema);
        client.batch_execute(&search).await.unwrap();
        if counted {
            client.batch_execute("analyze outbox_event").await.unwrap();
        }
        for (name, file, types, values) in statements {
            let text = text(file, &[name]).replace("sendoff.", "");
            client.batch_execute(&format!("prepare {name}{types} as {text}")).await.unwrap();
            client.batch_execute("begin").await.unwrap();
            let plan = plan_of(&client, name, values).await;
            client.batch_execute("rollback").await.unwrap();
            assert!(plan.contains("outbox_event_tenant"), "{name}:\n{plan}");
            for line in plan.lines() {
                assert!(
                    touched(line) <= 2_000 && filtered(line) <= 2_000,
                    "{name}: {line}\n{plan}"
                );
                assert!(!line.contains("Seq Scan on outbox_event"), "{name}:\n{plan}");
            }
            // Entries of an index that are walked over are no rows, but they are pages.
            assert!(pages(&plan) <= 4_000, "{name}:\n{plan}");
        }
    }
}

/// How many pages a plan looked at.
fn pages(plan: &str) -> u64 {
    let total = plan.lines().find_map(|line| line.trim().strip_prefix("Buffers: shared hit="));
    let digits = total.map(|line| line.split(|c: char| !c.is_ascii_digit()).next().unwrap_or(""));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

const REPLAY: &str = include_str!("../../sql/outbox/replay.sql");
const HORIZON: &str = include_str!("../../sql/outbox/horizon.sql");
const STANDING: &str = include_str!("../../sql/outbox/standing.sql");

/// Delivered rows are walked in the order of their index, no further than a step or a page goes; who waits looks at
/// the rows that are waited for, and at the index of what is pending.
#[tokio::test]
async fn replays_and_barriers_walk_their_own_index_only() {
    let place = Place::new();
    place.store().await;
    place.run(&BAD_NIGHT.replace("$rows", "50000")).await;
    // Nothing of the crowd is delivered: no two were at the same time.
    place.run(&CROWD.replace("'done', 'done', 'done', ", "")).await;
    let client = place.client().await;
    client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
    let place_of = "'-infinity', 'infinity', (now() - interval '30 min'), 0";
    let filtered_by = "timestamptz, timestamptz, timestamptz, bigint, timestamptz, bigint, text, text, text, text, text";
    let step = format!("{place_of}, now() - interval '29 min', 0, 'even', null, null, null, null");
    let replay = format!("({filtered_by}, bigint, bigint)");
    let count = format!("({filtered_by})");
    let step_types = "(timestamptz, timestamptz, timestamptz, bigint, bigint)";
    let some =
        "select array_agg(event_id)::text from (select event_id from outbox_event limit 50) e";
    let some: String = client.query_one(some, &[]).await.unwrap().get(0);
    let cases = [
        ("replay_step", REPLAY, step_types, format!("({place_of}, 999)"), "_done", 1_100),
        ("replay", REPLAY, &replay, format!("({step}, 100, 1000000)"), "_done", 2_000),
        ("replay_count", REPLAY, &count, format!("({step})"), "_done", 2_000),
        ("standing", STANDING, "(uuid[])", format!("('{some}')"), "_pkey", 100),
        // As much as is pending, and not what was delivered.
        ("horizon", HORIZON, "", String::new(), "_due", 20_000),
        (
            "pending_within",
            HORIZON,
            "(bigint, timestamptz, bigint)",
            "(0, now(), 100)".to_owned(),
            "_due",
            20_000,
        ),
    ];
    for (settings, counted) in [(OURS, false), (OURS, true), ("", true)] {
        if counted {
            client.batch_execute("analyze outbox_event").await.unwrap();
        }
        client
            .batch_execute(&format!(
                "deallocate all; reset all; set search_path = {}; {settings}",
                place.schema
            ))
            .await
            .unwrap();
        for (name, file, types, values, index, most) in &cases {
            let text = text(file, &[name]).replace("sendoff.", "");
            client.batch_execute(&format!("prepare {name}{types} as {text}")).await.unwrap();
            let plan = plan_of(&client, name, values).await;
            assert!(plan.contains(&format!("outbox_event{index}")), "{name}:\n{plan}");
            assert!(!plan.contains("Seq Scan on outbox_event"), "{name}:\n{plan}");
            for line in plan.lines() {
                let rows = touched(line).max(filtered(line));
                assert!(rows <= *most, "{name}: {line}\n{plan}");
            }
        }
    }
}

/// What operators did is forgotten along its numbers, however much of it there is, and whether or not it is old enough.
#[tokio::test]
async fn forgetting_what_operators_did_looks_at_a_batch_of_it() {
    let place = Place::new();
    place.store().await;
    place
        .run(
            "insert into outbox_audit (at, action, actor, reason)
             select now() - interval '1 hour', 'pause', 'ada', 'why' from generate_series(1, 20000)",
        )
        .await;
    let text = text(include_str!("../../sql/outbox/forget.sql"), &["forget_audit"]);
    for counted in [false, true] {
        let client = place.client().await;
        if counted {
            client.batch_execute(&format!("analyze {}.outbox_audit", place.schema)).await.unwrap();
        }
        let text = text.replace("sendoff.", "");
        let prepare = format!("prepare forget(interval, bigint, timestamptz) as {text}");
        let search = format!("set search_path = {}; {OURS}; {prepare}; begin", place.schema);
        client.batch_execute(&search).await.unwrap();
        for values in ["('0', 50, null)", "('365 d', 50, null)"] {
            let plan = plan_of(&client, "forget", values).await;
            assert!(plan.contains("outbox_audit_pkey"), "{plan}");
            assert_bounded("forget", &plan);
        }
    }
}

pub(crate) fn assert_bounded(name: &str, plan: &str) {
    // A step that a limit of none leaves out is planned all the same.
    let scans =
        |line: &&str| line.contains("Seq Scan on outbox_event") && !line.contains("never executed");
    assert!(!plan.lines().any(|line| scans(&line)), "{name}:\n{plan}");
    for line in plan.lines() {
        assert!(touched(line) <= BATCH, "{name}: {line}\n{plan}");
        assert!(filtered(line) <= BATCH, "{name}: {line}\n{plan}");
    }
}

/// A table that was emptied and counted looks so small that anything seems cheap; plans made then are
/// kept while it fills.
#[tokio::test]
async fn a_plan_made_for_an_empty_table_serves_a_full_one() {
    let place = Place::new();
    place.store().await;
    let client = place.client().await;
    client.batch_execute(&format!("set search_path = {}; {OURS}", place.schema)).await.unwrap();
    // Only to know their names, types and texts.
    place.run(CROWD).await;
    let all = statements(&client).await;
    place.run("truncate outbox_event").await;
    client.batch_execute("vacuum analyze outbox_event").await.unwrap();
    for Explained { name, text, types, .. } in &all {
        client.batch_execute(&format!("prepare {name}{types} as {text}")).await.unwrap();
        let count = types.split(',').filter(|kind| !kind.is_empty()).count();
        let nothing = if count == 0 {
            String::new()
        } else {
            format!("({})", vec!["null"; count].join(", "))
        };
        client.batch_execute(&format!("explain execute {name}{nothing}")).await.unwrap();
    }
    place.run(CROWD).await;
    for Explained { name, values, .. } in statements(&client).await {
        client.batch_execute("begin").await.unwrap();
        let plan = plan_of(&client, name, &values).await;
        client.batch_execute("rollback").await.unwrap();
        assert_bounded(name, &plan);
    }
}

pub(crate) async fn plan_of(client: &Client, name: &str, values: &str) -> String {
    let explain =
        format!("explain (analyze, buffers, costs off, timing off) execute {name}{values}");
    let plan: Vec<String> = client
        .simple_query(&explain)
        .await
        .unwrap()
        .iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
        .collect();
    plan.join("\n")
}

/// Every statement with the index it should use and the plan it has.
async fn explain(
    place: &Place,
    settings: &str,
    counted: bool,
) -> Vec<(&'static str, &'static str, String)> {
    let mut explained = Vec::new();
    {
        let client = place.client().await;
        client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
        if counted {
            client.batch_execute("analyze outbox_event").await.unwrap();
        }
        client.batch_execute(settings).await.unwrap();
        for Explained { name, text, types, values, index } in statements(&client).await {
            client.batch_execute(&format!("prepare {name}{types} as {text}")).await.unwrap();
            client.batch_execute("begin").await.unwrap();
            let plan = plan_of(&client, name, &values).await;
            client.batch_execute("rollback").await.unwrap();
            explained.push((name, index, plan));
        }
    }
    explained
}

/// Rows of a node of the plan, in all its loops.
fn touched(line: &str) -> u64 {
    let number = |after: &str| {
        let (_, rest) = line.split_once(after)?;
        rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.parse::<f64>().ok()
    };
    (number("actual rows=").unwrap_or(0.0) * number("loops=").unwrap_or(1.0)) as u64
}

fn filtered(line: &str) -> u64 {
    line.split_once("Rows Removed by Filter: ")
        .map_or(0, |(_, count)| count.trim().parse().unwrap())
}

/// The same, of the sessions that are really used.
#[tokio::test]
async fn the_store_never_scans_its_table() {
    let place = Place::new();
    let store = place.store().await;
    let mut client = place.client().await;
    let rows: Vec<_> = (0..10).map(|n| due(Event::json("order.placed", &n).unwrap())).collect();
    write(&store, &mut client, &rows).await;
    let claimed = claim(&store, "a").await;
    assert!(settle_one(&store, hold_of(&claimed[0]), Outcome::Done).await);
    store.confirm(&[hold_of(&claimed[1])]).await.unwrap();
    store.lateness().await.unwrap();
    store.find(claimed[1].id).await.unwrap();
    store.topics().await.unwrap();
    let lock = Lock::new(5);
    assert!(store.lock(&lock).await.unwrap().is_none());
    let purge = Purge { cutoff: Cutoff::Age(std::time::Duration::ZERO), limit: 10, dead: true };
    store.purge(&purge).await.unwrap();
    store.purgeable(&purge).await.unwrap();
    store.claim(&by("b")).await.unwrap();
    store.close().await;
    drop(client);
    let statistic = async |column: &str| {
        let name = format!(
            "select {column}::bigint from pg_stat_all_tables
              where relid = '{}.outbox_event'::regclass",
            place.schema
        );
        place.number(&name).await
    };
    // Sessions report what they did when they end.
    eventually("the sessions' reports", async || statistic("n_tup_del").await >= 1).await;
    // The migrations made six indexes, and that is a scan for each.
    assert_eq!(statistic("seq_scan").await, 6);
    assert!(statistic("idx_scan").await > 0);
}

/// A writer's session is not ours to configure; the server must come to keep the plan by itself.
#[tokio::test]
async fn a_prepared_insert_is_planned_a_few_times_only() {
    let place = Place::new();
    let store = place.store().await;
    let mut client = store.prepare(place.client().await).await.unwrap();
    let held = || NewRow {
        event: crate::place::event(),
        birth: Birth::Held { owner: "a".into(), grace: std::time::Duration::from_secs(10) },
    };
    let due = || NewRow { event: crate::place::event(), birth: Birth::Due };
    // One event has statements of its own, with the bell and without.
    for rows in [vec![held as fn() -> NewRow], vec![due], vec![held; 2]] {
        for _ in 0..20 {
            let rows: Vec<_> = rows.iter().map(|row| row()).collect();
            let tx = sendoff_engine::capture::Begin::begin(&store, &mut client).await.unwrap();
            store.commit(tx, &rows).await.unwrap();
        }
    }
    let plans = "select generic_plans, custom_plans from pg_prepared_statements
                  where statement like 'insert into%'";
    let prepared = client.query_typed(plans, &[]).await.unwrap();
    assert_eq!(prepared.len(), 3);
    for row in prepared {
        let (generic, custom): (i64, i64) = (row.get(0), row.get(1));
        assert!(custom <= 5 && generic >= 15, "{generic} generic, {custom} custom");
    }
}
