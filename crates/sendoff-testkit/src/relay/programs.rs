//! Two programs on one table.

use std::time::Duration;

use sendoff_core::Status;
use sendoff_engine::relay::{ClaimMode, RelayOptions, TopicWorker};
use sendoff_engine::store::RegisterStore;
use sendoff_engine::{Outbox, OutboxOptions};

use super::Relayed;
use super::topics::write;
use crate::acceptance::Inbox;
use crate::conformance::Probe;
use crate::wait::eventually;

const SOON: Duration = Duration::from_millis(10);

/// An outbox and a topic worker that know of each other deliver their own events, and touch none of the
/// other's: none is dead, and no attempt is counted. Holds D6.
pub async fn two_programs_on_one_table_touch_nothing_of_each_other<H: Relayed>(
    probe: &Probe<H>,
    mode: ClaimMode,
) {
    let (shipped, billed) = (Inbox::new(), Inbox::new());
    let shipping = async || {
        let options = OutboxOptions { poll_interval: SOON, ..OutboxOptions::default() };
        let outbox = Outbox::builder(probe.store().clone()).options(options);
        outbox.on("shipping", shipped.clone()).start().await.expect("it starts")
    };
    let said = async |event_type: &str| {
        let lately = Duration::from_secs(60);
        let registered = probe.store().register(&[], lately).await.expect("what is handled");
        registered.iter().any(|(_, of)| of == event_type)
    };
    let first = shipping().await;
    eventually("shipping to be known", async || said("shipping").await).await;
    let options = RelayOptions { mode, poll_interval: SOON, ..RelayOptions::for_topics() };
    let worker = TopicWorker::builder(probe.store().clone()).options(options);
    let worker = worker.on("billing", billed.clone()).build().expect("the configuration is good");
    let billing = worker.start().await.expect("it starts");
    eventually("billing to be known", async || said("billing").await).await;
    // Who starts hears of the others before it takes anything.
    first.close().await;
    let shipping = shipping().await;

    let topics = ["shipping", "billing"].repeat(20);
    let ids = write(probe, &topics).await;
    let delivered = async || (shipped.ids().len(), billed.ids().len()) == (20, 20);
    eventually("each to deliver its own", delivered).await;
    shipping.close().await;
    billing.close().await;
    for id in ids {
        // Some stores keep nothing of what is done.
        if let Some(row) = probe.find(id).await {
            assert_eq!((row.status, row.attempts), (Status::Done, 0), "{:?}", row.last_error);
        }
    }
}
