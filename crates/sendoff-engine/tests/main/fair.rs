//! Fair share by tenant, from the options to what handlers receive.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{Event, EventId};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{ClaimMode, Consumer, Relay, RelayOptions};
use sendoff_engine::store::{Claim, ClaimStore, Claims, Held, StoreError, TenantWalk};
use sendoff_engine::{FairOptions, OptionsError, Outbox, OutboxOptions, StartError};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;

use super::flaky::Flaky;
use super::{EVENT, SECOND, options, slow};

const FLOOD: usize = 3_000;
const SMALL: usize = 80;

/// A flood of one tenant first, then one event of each of the others.
async fn flood(store: &MemoryStore) {
    let writer = Outbox::writer_only(store.clone());
    let of = |tenant: &str| Event::builder(EVENT).tenant_id(tenant).json(&1).build().unwrap();
    let mut tx = writer.begin(store).await.unwrap();
    for at in 0..FLOOD {
        if at % 500 == 499 {
            tx.commit().await.unwrap();
            tx = writer.begin(store).await.unwrap();
        }
        tx.emit(of("flood")).unwrap();
    }
    for at in 0..SMALL {
        tx.emit(of(&format!("small {at}"))).unwrap();
    }
    tx.commit().await.unwrap();
}

fn fair() -> OutboxOptions {
    OutboxOptions { fair: Some(FairOptions::default()), cold_capacity: 400, ..options() }
}

/// After how many deliveries the last of the small ones came.
fn last_small(inbox: &Inbox) -> Option<usize> {
    let received = inbox.received();
    let is_small = |tenant: Option<&str>| tenant.is_some_and(|tenant| tenant != "flood");
    let small = received.iter().enumerate().filter(|(_, one)| is_small(one.event.tenant_id()));
    let places: Vec<usize> = small.map(|(at, _)| at).collect();
    (places.len() == SMALL).then(|| places[SMALL - 1])
}

#[tokio::test(start_paused = true)]
async fn whoever_has_few_events_is_served_before_the_flood_of_another_is_over() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    flood(&store.table).await;
    let handler = slow(&inbox, Duration::from_millis(10));
    let outbox = Outbox::builder(store.clone()).options(fair()).on(EVENT, handler);
    let outbox = outbox.start().await.unwrap();
    within(60 * SECOND, "all of it", async || inbox.received().len() == FLOOD + SMALL).await;
    // Two claims of 200 find all of them, and what waits in memory goes first.
    let last = last_small(&inbox).unwrap();
    assert!(last < 1_000, "after {last} deliveries");
    assert!(store.tenant_walks() > 0);
    let ids: std::collections::BTreeSet<EventId> = inbox.ids().into_iter().collect();
    assert_eq!(ids.len(), FLOOD + SMALL, "none twice");
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_option_claims_are_as_they_were() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    flood(&store.table).await;
    let outbox = Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone());
    let outbox = outbox.start().await.unwrap();
    within(60 * SECOND, "all of it", async || inbox.received().len() == FLOOD + SMALL).await;
    assert_eq!(store.tenant_walks(), 0);
    assert!(last_small(&inbox).unwrap() >= FLOOD, "the oldest due first");
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_shared_is_claimed_as_usual() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    let outbox = Outbox::builder(store.clone()).options(fair()).on(EVENT, inbox.clone());
    let outbox = outbox.start().await.unwrap();
    // Somebody drops the index.
    store.set_unfair(true);
    flood(&store.table).await;
    within(60 * SECOND, "all of it", async || inbox.received().len() == FLOOD + SMALL).await;
    assert!(store.tenant_walks() < 30, "it is not tried again and again");
    outbox.close().await;
}

#[tokio::test]
async fn a_start_without_the_index_is_refused_with_the_remedy() {
    let store = Flaky::default();
    store.set_unfair(true);
    let start = Outbox::builder(store.clone()).options(fair()).on(EVENT, Inbox::new()).start();
    let refused = start.await.unwrap_err();
    assert!(matches!(refused, StartError::Store(StoreError::Schema { .. })), "{refused:?}");
    assert!(refused.to_string().contains("migrate --fair"), "{refused}");
    let options = RelayOptions { fair: Some(FairOptions::default()), ..RelayOptions::default() };
    let relay = Relay::builder(store.clone()).options(options).build(Inbox::new()).unwrap();
    let refused = relay.start().await.unwrap_err();
    assert!(matches!(refused, StoreError::Schema { .. }), "{refused:?}");
    let without = Outbox::builder(store).on(EVENT, Inbox::new()).start().await.unwrap();
    without.close().await;
}

/// A store of somebody's own, who knows nothing of tenants.
struct Plain(MemoryStore);

#[async_trait]
impl ClaimStore for Plain {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claims, StoreError> {
        self.0.claim(claim).await
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        self.0.confirm(holds).await
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        self.0.rescue(longest).await
    }
}

#[tokio::test]
async fn a_store_that_shares_no_claims_says_so() {
    let plain = Plain(MemoryStore::new());
    let refused = plain.check_fair().await.unwrap_err();
    assert!(matches!(refused, StoreError::Misconfigured { .. }), "{refused:?}");
    assert!(refused.to_string().contains("leave `fair` out"), "{refused}");
    let walk = TenantWalk { after: "", limit: 64 };
    assert_eq!(plain.tenants(&walk).await.unwrap().waiting, Vec::<String>::new());
}

#[test]
fn options_that_cannot_be_kept_are_refused() {
    let heavy = FairOptions { weights: [("acme".to_owned(), 1_001)].into() };
    let options = OutboxOptions { fair: Some(heavy), ..OutboxOptions::default() };
    let said = options.validate().unwrap_err().to_string();
    assert_eq!(said, "fair.weights.acme is 1001; it must be from 1 to 1000");
    let fair = Some(FairOptions::default());
    let options = RelayOptions { fair, mode: ClaimMode::Locked, ..RelayOptions::default() };
    let refused = Consumer::new(MemoryStore::new(), options).unwrap_err();
    assert!(matches!(refused, OptionsError::Conflict { .. }), "{refused:?}");
    assert_eq!(refused.path(), "fair");
}
