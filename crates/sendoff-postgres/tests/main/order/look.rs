//! The function's look at a key is the engine's: every case of it, in one table.

use sendoff_core::Timestamp;
use sendoff_core::order::{self, Head, IN_LINE, KeyEntry, Look, TakeTerms};
use sendoff_engine::store::{Except, KeyStore, Suspects, TakeKeys};

use super::*;

const HEADS: [&str; 6] = ["none", "in_line", "shelved", "left_out", "held", "due"];

/// A key for each kind of entry and head.
fn cases() -> String {
    let heads = HEADS.join("','");
    format!(
        "insert into outbox_key (ordering_key, due_at, since, taken_at, run, careful, losses, locked_by)
         select concat_ws(' ', head, holder, run, careful, losses, idle), now() - interval '1 s',
                now() - idle, now() - interval '1 h', run, careful, losses, nullif(holder, 'none')
           from unnest(array['{heads}']) head, unnest(array['none', 'n', 'gone']) holder,
                unnest(array[0, 1, 7]) run, unnest(array[0, 1, 3]) careful, unnest(array[0, 1, 2]) losses,
                unnest(array[interval '0', interval '3 s', interval '1 h']) idle;
         insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at,
                                   ordering_key, due_at, locked_by)
         select gen_random_uuid(), 0, case head when 'left_out' then 'left' else 't' end, 'x', now(), now(),
                ordering_key,
                case head when 'shelved' then timestamptz '9999-01-01 00:00:00Z'
                          when 'held' then now() + interval '20 s' when 'due' then now() - interval '1 s'
                          else '9998-01-01 00:00:00Z' end,
                case head when 'held' then 'somebody' end
           from (select ordering_key, split_part(ordering_key, ' ', 1) as head from outbox_key) k
          where head <> 'none'"
    )
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    key: String,
    stands: KeyEntry,
    due_at: Timestamp,
    head_due: Timestamp,
    attempts: i32,
}

async fn read(place: &Place) -> Vec<Entry> {
    let client = place.client().await;
    client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
    let micros = |column| format!("(extract(epoch from {column}) * 1000000)::bigint");
    let query = format!(
        "select k.ordering_key, {}, k.run::int, k.careful::int, k.losses::int,
                coalesce(k.locked_by <> 'n', false), {}, coalesce({}, 0), coalesce(e.attempts, 0)
           from outbox_key k left join outbox_event e using (ordering_key) order by 1",
        micros("k.since"),
        micros("k.due_at"),
        micros("e.due_at"),
    );
    let rows = client.query(&query, &[]).await.unwrap();
    let time = |row: &tokio_postgres::Row, at| Timestamp::from_micros(row.get(at));
    let count = |row: &tokio_postgres::Row, at| u32::try_from(row.get::<_, i32>(at)).unwrap();
    let entry = |row: &tokio_postgres::Row| Entry {
        key: row.get(0),
        stands: KeyEntry {
            since: time(row, 1),
            run: count(row, 2),
            careful: count(row, 3),
            losses: count(row, 4),
            lost: row.get(5),
        },
        due_at: time(row, 6),
        head_due: time(row, 7),
        attempts: row.get(8),
    };
    rows.iter().map(entry).collect()
}

fn head(entry: &Entry) -> Head {
    match entry.key.split(' ').next().unwrap() {
        "none" => Head::None,
        "in_line" | "shelved" => Head::InLine,
        "left_out" => Head::LeftOut,
        "held" => Head::Held(entry.head_due),
        _ => Head::Due(entry.head_due),
    }
}

/// Half a microsecond is cut by one and rounded by the other.
fn is_about(at: Timestamp, other: Timestamp) -> bool {
    at.as_micros().abs_diff(other.as_micros()) <= 1
}

#[tokio::test]
async fn the_function_looks_as_the_engine_does() {
    for suspects in [Suspects::Skip, Suspects::Only] {
        let place = Place::new();
        let store = place.store().await;
        place.run(&cases()).await;
        let before = read(&place).await;
        assert_eq!(before.len(), HEADS.len() * 3 * 27 * 3);
        let terms = TakeTerms { run: 200, suspects: suspects == Suspects::Only, full: false };
        let (limit, types) = (before.len(), ["left"]);
        let except = Except::types(&types);
        let take = TakeKeys { limit, except, suspects, walk: None, ..taking("n") };
        let taken = store.take_keys(&take).await.unwrap();
        let after = read(&place).await;
        let now = taken.keys[0].token.taken_at();
        let (mut put_off, mut kept) = (0, 0);
        for entry in &before {
            let now_stands = after.iter().find(|other| other.key == entry.key);
            let key = taken.keys.iter().find(|key| *key.key == *entry.key);
            if entry.stands.is_suspect() != terms.suspects {
                assert_eq!((now_stands, key), (Some(entry), None));
                kept += 1;
                continue;
            }
            match order::look(&entry.stands, head(entry), now, terms) {
                Look::Gone => assert_eq!((now_stands, key), (None, None), "{entry:?}"),
                Look::Take { run, careful, losses, blame } => {
                    let (stands, key) = (now_stands.unwrap(), key.unwrap());
                    assert_eq!((key.run, key.lost), (run, blame), "{entry:?}");
                    let KeyEntry { since, lost, .. } = stands.stands;
                    let expected = KeyEntry { since: now, run, careful, losses, lost: false };
                    assert_eq!(stands.stands, expected, "{entry:?}");
                    assert_eq!((since, lost), (now, false));
                    assert_eq!(stands.due_at, now.saturating_add(HOLD));
                    assert_eq!(stands.attempts, entry.attempts + i32::from(blame), "{entry:?}");
                    assert!(stands.head_due >= IN_LINE);
                }
                Look::Later { at, careful } => {
                    let stands = now_stands.unwrap();
                    assert!(is_about(stands.due_at, at), "{entry:?}: {stands:?}, not {at:?}");
                    let expected = KeyEntry { run: 0, careful, lost: false, ..entry.stands };
                    assert_eq!((stands.stands, key), (expected, None), "{entry:?}");
                    put_off += 1;
                }
                Look::Left { .. } => {
                    assert_eq!((now_stands, key), (Some(entry), None));
                    put_off += 1;
                }
            }
        }
        assert!(kept > 0 && put_off > 0);
        assert_eq!(taken.put_off, put_off);
        assert_eq!(taken.next, Some(Duration::from_millis(100)));
    }
}

/// What is counted for a holder who vanished is on the disk when it is answered, and nothing else waits for it.
#[tokio::test]
async fn only_a_take_from_the_lost_waits_for_the_disk() {
    let place = Place::new();
    let store = place.store().await;
    place
        .run(
            "create table durable (lasts boolean);
             create function note() returns trigger language plpgsql as $$ begin
                 insert into durable values (current_setting('synchronous_commit') <> 'off');
                 return null;
             end $$;
             alter function note() set search_path = :schema;
             create constraint trigger note after insert or update on outbox_key
                 deferrable initially deferred for each row execute function note()"
                .replace(":schema", &place.schema)
                .as_str(),
        )
        .await;
    let durable = async || {
        let answer = place.number("select count(*) filter (where lasts) from durable").await;
        place.run("truncate durable").await;
        answer
    };
    written(&place, &store, &["a"]).await;
    take_one(&store, "n").await;
    assert_eq!(durable().await, 0);
    place.run("alter table outbox_key disable trigger note").await;
    lapse(&place).await;
    place.run("alter table outbox_key enable trigger note").await;
    take_one(&store, "n").await;
    assert_eq!(durable().await, 0, "its own");
    place.run("alter table outbox_key disable trigger note").await;
    lapse(&place).await;
    place.run("alter table outbox_key enable trigger note").await;
    take_one(&store, "m").await;
    assert_eq!(durable().await, 1);
}
