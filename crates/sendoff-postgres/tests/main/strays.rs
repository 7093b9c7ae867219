//! Claims whose answers are lost.

use std::time::Duration;

use sendoff_engine::relay::{Relay, RelayOptions};
use sendoff_engine::store::{Birth, ClaimStore, HeldBy, NewRow, Outcome};
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_postgres::PostgresStore;
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::proxy::{Cut, Proxy};
use sendoff_testkit::wait::within;

use crate::place::{Place, by_way_of, claim, due, event, hold_of, port, settle_one, write};

/// A third of a hold.
const SOON: Duration = Duration::from_secs(10);
/// The first rows on their way to the client.
const REPLY: Cut = Cut::Reply { text: b"order.placed", before: 0 };

/// What is held since a claim, and not what was born held, is released, is settled, or is somebody else's.
#[tokio::test]
async fn what_a_node_holds_since_a_claim_can_be_asked_for() {
    let place = Place::new();
    let store = place.store().await;
    let mut client = place.client().await;
    let held = async |owner| {
        let hold = Duration::from_secs(30);
        let by = HeldBy { owner, hold, born: SOON, limit: 10 };
        store.held_by(&by).await.unwrap()
    };
    write(&store, &mut client, &[due(event())]).await;
    let first = hold_of(&claim(&store, "a").await[0]);
    let born = NewRow { birth: Birth::Held { owner: "a".into(), grace: SOON }, ..due(event()) };
    write(&store, &mut client, &[born, due(event())]).await;
    let second = hold_of(&claim(&store, "b").await[0]);
    assert_eq!((held("a").await, held("b").await), (vec![first], vec![second]));
    assert!(settle_one(&store, first, Outcome::Released).await);
    assert!(settle_one(&store, second, Outcome::Done).await);
    assert!(held("a").await.is_empty() && held("b").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_claim_whose_answer_was_lost_are_delivered_soon() {
    for relays in [false, true] {
        let place = Place::new();
        let healthy = place.store().await;
        let proxy = Proxy::start(port(&place.url)).await.unwrap();
        let url = by_way_of(&place.url, &proxy);
        let store = PostgresStore::connect_with(&url, place.options()).await.unwrap();
        write(&healthy, &mut place.client().await, &[due(event())]).await;
        proxy.cut(REPLY);
        let inbox = Inbox::new();
        let done = within(SOON, "its end", async || {
            place.number("select count(*) from outbox_event where status = 1").await == 1
        });
        if relays {
            let relay = Relay::builder(store).options(RelayOptions::default());
            relay.build(inbox.clone()).unwrap().run(done).await;
        } else {
            let outbox = Outbox::builder(store).options(OutboxOptions::default());
            let outbox = outbox.on("order.placed", inbox.clone()).start().unwrap();
            done.await;
            outbox.close().await;
        }
        assert!(proxy.is_cut());
        assert_eq!(inbox.received().len(), 1);
        let counted = "select count(*) from outbox_event where attempts + losses > 0";
        assert_eq!(place.number(counted).await, 0);
    }
}
