//! What sinks are given, and what they answered.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::{Fact, Position, Recorded};
use sendoff_core::{Delivery, Event, Lane, Origin, Sink, Timestamp, Verdict};
use sendoff_sinks::link::LinkOptions;

/// Enough for a machine that builds something else: facts are begun for a tenth of it.
const PLENTY: Duration = Duration::from_secs(120);

/// An event as an outbox delivers it for the first time.
pub(crate) fn delivery(event: Event) -> Delivery {
    let origin = Origin::Row(Lane::Cold);
    Delivery { event, created_at: Timestamp::now(), attempt: 1, origin }
}

pub(crate) fn patient(link: LinkOptions) -> LinkOptions {
    LinkOptions { deliver_within: PLENTY, ..link }
}

/// Delivers facts, in this order, each with the header `to`. What was answered, in the order of the facts.
pub(crate) async fn facts_to(sink: &impl Sink, places: &[&str]) -> Vec<Verdict> {
    let fact = |(number, to): (i64, &&str)| {
        let event = Event::builder("a").header("to", *to).bytes(number.to_string());
        let fact = Fact::builder(event.build().unwrap()).build().unwrap();
        let position = Position::try_from(number).unwrap();
        let recorded = Recorded { position, recorded_at: Timestamp::now(), fact };
        Delivery::of_fact(&Arc::new(recorded), 1)
    };
    sink.deliver(&(1..).zip(places).map(fact).collect::<Vec<_>>()).await
}

/// The first was taken and the second was not, and the third was not even sent.
pub(crate) fn is_stopped_at_the_second(verdicts: &[Verdict]) -> bool {
    matches!(verdicts, [Ok(()), Err(_)])
}
