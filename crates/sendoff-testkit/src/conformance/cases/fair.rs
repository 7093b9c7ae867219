//! Claims that are shared among tenants: whoever has few rows is served soon, however many others have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sendoff_core::fair::{NO_TENANT, Share};
use sendoff_core::{Event, EventId, limits};
use sendoff_engine::FairOptions;
use sendoff_engine::relay::{Batch, Consumer, RelayOptions};
use sendoff_engine::store::{
    Claim, ClaimStore, Claimed, EventKind, Except, NewRow, TenantWalk, TenantsFound,
};

use crate::conformance::probe::{due, ids};
use crate::conformance::{Probe, StoreHarness};

/// Rows of the one tenant that has too many.
const FLOOD: usize = 20_000;
/// Rows in one write of it.
const PART: usize = 1_000;

/// An event of this tenant; of none, if the name is empty.
fn of(tenant: &str) -> Event {
    let event = Event::builder("thing.happened").bytes("x");
    let event = if tenant == NO_TENANT { event } else { event.tenant_id(tenant) };
    event.build().expect("an event")
}

fn rows(tenant: &str, count: usize) -> Vec<NewRow> {
    (0..count).map(|_| due(of(tenant))).collect()
}

fn share(tenant: &str, rows: usize) -> Share {
    Share { tenant: tenant.to_owned(), rows }
}

fn tenant_of(event: &Event) -> &str {
    event.tenant_id().unwrap_or(NO_TENANT)
}

fn tenants_of(claimed: &[Claimed]) -> Vec<&str> {
    claimed.iter().map(|row| tenant_of(row.event.as_ref().expect("an event"))).collect()
}

/// How many events of a batch each tenant has.
fn counts(batch: &Batch) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for record in batch.records() {
        *counts.entry(tenant_of(&record.event).to_owned()).or_insert(0) += 1;
    }
    counts
}

fn consumer<H>(probe: &Probe<H>, batch: usize, weights: &[(&str, u32)]) -> Consumer
where
    H: StoreHarness<Store: Clone>,
{
    let weights = weights.iter().map(|(tenant, weight)| ((*tenant).to_owned(), *weight)).collect();
    let (fair, hold) = (Some(FairOptions { weights }), Duration::from_secs(600));
    let options = RelayOptions { fair, batch, hold, ..RelayOptions::default() };
    Consumer::new(probe.store().clone(), options).expect("options are good")
}

async fn walk<H: StoreHarness>(probe: &Probe<H>, after: &str, limit: usize) -> TenantsFound {
    probe.store().tenants(&TenantWalk { after, limit }).await.expect("tenants")
}

/// In the order of bytes, from the one after, around once; those that have nothing visible are walked over.
pub async fn tenants_are_walked_over_in_a_circle<H: StoreHarness>(probe: &Probe<H>) {
    probe.store().check_fair().await.expect("it shares claims");
    assert_eq!(walk(probe, "b", 64).await, TenantsFound::default(), "nobody is there");
    for tenant in ["b", "a", NO_TENANT, "B", "a ", "ä", "c"] {
        probe.commit(&rows(tenant, 3)).await;
    }
    let later = Event::builder("thing.happened").tenant_id("later").bytes("x");
    let later = later.delay(Duration::from_secs(3_600)).build().expect("an event");
    probe.commit(&[due(later)]).await;
    let found = |waiting: &[&str], last: &str| TenantsFound {
        waiting: waiting.iter().map(|&tenant| tenant.to_owned()).collect(),
        last: Some(last.to_owned()),
    };
    let all = ["B", "a", "a ", "b", "c", "ä", NO_TENANT];
    assert_eq!(walk(probe, NO_TENANT, 64).await, found(&all, NO_TENANT), "from the first");
    let around = ["a ", "b", "c", "ä", NO_TENANT, "B", "a"];
    assert_eq!(walk(probe, "a", 64).await, found(&around, "a"), "around once");
    assert_eq!(walk(probe, "a", 2).await, found(&around[..2], "b"));
    assert_eq!(walk(probe, "c", 2).await, found(&["ä", NO_TENANT], NO_TENANT));
    assert_eq!(walk(probe, "bb", 1).await, found(&["c"], "c"), "one that is not there");
    let beyond = ["\u{ff}", "later"].map(|after| walk(probe, after, 1));
    let [beyond, after] = beyond;
    assert_eq!(beyond.await, found(&[NO_TENANT], NO_TENANT), "after the last");
    assert_eq!(after.await, found(&["ä"], "ä"));
    probe.claim_all("node").await;
    let held = walk(probe, "a", 64).await;
    assert_eq!(held, TenantsFound { waiting: Vec::new(), last: Some("a".to_owned()) });
}

/// Of each tenant as many as its share, the oldest due of each; of nobody else.
pub async fn a_shared_claim_gives_each_tenant_its_share<H: StoreHarness>(probe: &Probe<H>) {
    let flood = rows("flood", 30);
    let (none, small) = (rows(NO_TENANT, 3), rows("small", 2));
    for part in [&flood, &none, &small, &rows("other", 2)] {
        probe.commit(part).await;
    }
    let id = |row: &NewRow| row.event.id();
    let shares = [share("small", 5), share("flood", 4), share("nobody", 9), share(NO_TENANT, 2)];
    let fair = Claim { shares: &shares, ..probe.claim_by("node") };
    let claimed = probe.claim(&fair).await;
    let expected: Vec<EventId> =
        flood[..4].iter().chain(&none[..2]).chain(&small).map(id).collect();
    assert_eq!(ids(&claimed), expected, "oldest due first");
    let three = Claim { limit: 3, ..fair };
    let claimed = probe.claim(&three).await;
    assert_eq!(ids(&claimed), [id(&flood[4]), id(&flood[5]), id(&none[2])], "one each, then more");
    assert!(probe.claim(&Claim { limit: 0, ..fair }).await.is_empty());
    let kind = EventKind::of(&flood[0].event);
    let kinds = [kind];
    let except = Claim { except: Except::kinds(&kinds), ..fair };
    assert!(probe.claim(&except).await.is_empty(), "kinds that are left out");
    let types = ["thing.else"];
    let except = Claim { except: Except { kinds: &[], types: &types }, ..fair };
    assert_eq!(tenants_of(&probe.claim(&except).await), ["flood"; 4]);
    let rest: BTreeSet<EventId> = ids(&probe.claim_all("node").await).into_iter().collect();
    assert_eq!(rest.len(), 20 + 2, "what is left is there for claims as usual");
}

/// Where bytes run out, every tenant has its first row before any has its second.
pub async fn a_shared_claim_is_bounded_in_bytes<H: StoreHarness>(probe: &Probe<H>) {
    let heavy = |tenant: &str, count: usize| -> Vec<NewRow> {
        let event = || Event::builder("heavy").tenant_id(tenant).bytes(vec![7; 3_000]);
        (0..count).map(|_| due(event().build().expect("an event"))).collect()
    };
    for tenant in ["a", "b", "c"] {
        probe.commit(&heavy(tenant, 5)).await;
    }
    let shares = ["c", "b", "a"].map(|tenant| share(tenant, 5));
    let bounded = |bytes| Claim { shares: &shares, bytes, ..probe.claim_by("node") };
    assert_eq!(tenants_of(&probe.claim(&bounded(10_000)).await), ["a", "b", "c"]);
    assert_eq!(tenants_of(&probe.claim(&bounded(7_000)).await), ["b", "c"]);
    assert_eq!(tenants_of(&probe.claim(&bounded(0)).await), ["c"], "always one");
}

/// Rows that somebody lost twice run alone: no shared claim takes them.
pub async fn a_shared_claim_leaves_suspects_out<H: StoreHarness>(probe: &Probe<H>) {
    use crate::conformance::probe::HOLD;
    probe.commit(&rows("a", 1)).await;
    for owner in ["one", "two"] {
        assert_eq!(probe.claim_all(owner).await.len(), 1);
        probe.pass(HOLD).await;
    }
    let shares = [share("a", 5)];
    let fair = Claim { shares: &shares, ..probe.claim_by("three") };
    assert!(probe.claim(&fair).await.is_empty());
    assert_eq!(walk(probe, NO_TENANT, 64).await.waiting, ["a"], "it is visible all the same");
}

/// The bound: a tenant with visible rows is served within ⌈tenants / 64⌉ + 1 claims, whatever another has.
pub async fn a_flood_of_one_tenant_keeps_no_other_waiting<H: StoreHarness<Store: Clone>>(
    probe: &Probe<H>,
) {
    const SMALL: usize = 100;
    for _ in 0..FLOOD / PART {
        probe.commit(&rows("flood", PART)).await;
    }
    let small: Vec<NewRow> = (0..SMALL).flat_map(|at| rows(&format!("small {at:03}"), 2)).collect();
    probe.commit(&small).await;
    let consumer = consumer(probe, 200, &[]);
    let bound = (SMALL + 1).div_ceil(limits::TENANTS_SERVED) + 1;
    let mut open = Vec::new();
    let mut served = BTreeMap::new();
    for _ in 0..bound {
        let batch = consumer.fetch().await.expect("fetch").expect("there is more");
        assert_eq!(batch.records().len(), 200, "nothing is wasted");
        for (tenant, count) in counts(&batch) {
            *served.entry(tenant).or_insert(0) += count;
        }
        open.push(batch);
    }
    assert_eq!(served.len(), SMALL + 1, "everybody within {bound} claims");
    assert!(served.values().all(|&count| count >= 1));
    assert!(served["flood"] >= 200, "what nobody else needs is its");
    for batch in open {
        batch.rollback().await.expect("rollback");
    }
}

/// Three times the weight, three times the rows; and what the small ones leave is shared in the same way.
pub async fn weights_decide_how_much_each_tenant_gets<H: StoreHarness<Store: Clone>>(
    probe: &Probe<H>,
) {
    probe.commit(&rows("light", 300)).await;
    probe.commit(&rows("heavy", 300)).await;
    let consumer = consumer(probe, 100, &[("heavy", 3)]);
    let mut batch = consumer.fetch().await.expect("fetch").expect("there is more");
    assert_eq!(counts(&batch), [("heavy".to_owned(), 75), ("light".to_owned(), 25)].into());
    finish(&mut batch);
    batch.commit().await.expect("commit");

    probe.commit(&rows("small", 1)).await;
    let batch = consumer.fetch().await.expect("fetch").expect("there is more");
    let counts = counts(&batch);
    assert_eq!((counts["small"], batch.records().len()), (1, 100));
    assert!((74..=75).contains(&counts["heavy"]), "{counts:?}");
    batch.rollback().await.expect("rollback");
}

/// Events without a tenant are one tenant beside the others.
pub async fn events_without_a_tenant_count_as_one<H: StoreHarness<Store: Clone>>(probe: &Probe<H>) {
    probe.commit(&rows(NO_TENANT, 300)).await;
    probe.commit(&rows("a", 300)).await;
    let consumer = consumer(probe, 100, &[]);
    let batch = consumer.fetch().await.expect("fetch").expect("there is more");
    assert_eq!(counts(&batch), [(NO_TENANT.to_owned(), 50), ("a".to_owned(), 50)].into());
    batch.rollback().await.expect("rollback");
}

/// Whoever is alone gets whole batches, to the last row.
pub async fn a_tenant_alone_fills_every_batch<H: StoreHarness<Store: Clone>>(probe: &Probe<H>) {
    probe.commit(&rows("a", 250)).await;
    let consumer = consumer(probe, 100, &[]);
    for expected in [100, 100, 50] {
        let mut batch = consumer.fetch().await.expect("fetch").expect("there is more");
        assert_eq!(batch.records().len(), expected);
        finish(&mut batch);
        batch.commit().await.expect("commit");
    }
    assert!(consumer.fetch().await.expect("fetch").is_none(), "that was all");
}

/// Several nodes share claims at once: every event is delivered, and none twice.
pub async fn shared_claims_lose_nothing_and_take_nothing_twice<H: StoreHarness<Store: Clone>>(
    probe: &Probe<H>,
) {
    let mut written = BTreeSet::new();
    for (tenant, count) in [("flood", 400), (NO_TENANT, 70), ("a", 3), ("b", 1), ("c", 90)] {
        let rows = rows(tenant, count);
        written.extend(rows.iter().map(|row| row.event.id()));
        probe.commit(&rows).await;
    }
    let nodes = (0..3).map(|_| {
        let consumer = consumer(probe, 20, &[("flood", 2)]);
        tokio::spawn(drained(consumer))
    });
    let mut delivered = Vec::new();
    for node in nodes.collect::<Vec<_>>() {
        delivered.extend(node.await.expect("a node does not panic"));
    }
    // A node may see nothing while others have the last rows locked; none is left for good.
    delivered.extend(drained(consumer(probe, 20, &[])).await);
    assert_eq!(delivered.len(), written.len(), "none twice");
    assert_eq!(delivered.into_iter().collect::<BTreeSet<_>>(), written, "and all of them");
}

async fn drained(consumer: Consumer) -> Vec<EventId> {
    let mut delivered = Vec::new();
    while let Some(mut batch) = consumer.fetch().await.expect("fetch") {
        delivered.extend(finish(&mut batch));
        batch.commit().await.expect("commit");
    }
    delivered
}

/// Answers all of it, and says what that is.
fn finish(batch: &mut Batch) -> Vec<EventId> {
    let ids: Vec<EventId> = batch.records().map(|record| record.event.id()).collect();
    for id in &ids {
        batch.ack(*id).expect("it is of this batch");
    }
    ids
}
