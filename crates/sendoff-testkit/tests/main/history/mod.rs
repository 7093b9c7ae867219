//! The checker finds each kind of violation that is planted, and nothing in a clean history.

mod clean;
mod explained;
mod planted;
mod readers;

use std::time::Duration;

use sendoff_core::order::AfterDead;
use sendoff_core::{Delivery, Event, EventBuilder, Lane, Origin, Status, Timestamp, Token};
use sendoff_engine::store::{Held, Outcome, Settlement};
use sendoff_testkit::history::{Expectations, History, Run, Verdict, Violation, check};

const HEALED: Expectations = Expectations {
    ordered: Some(AfterDead::Skip),
    one_by_one: false,
    healed: true,
    max_attempts: Some(3),
    outages: false,
};

fn event() -> Event {
    Event::json_text("thing.happened", "{}").expect("within the limits")
}

fn keyed(key: &str) -> Event {
    build(Event::builder("thing.happened").ordering_key(key).json_text("{}"))
}

fn build(builder: EventBuilder) -> Event {
    builder.build().expect("within the limits")
}

/// Moves for tests, in as few words as a history needs.
trait Moves {
    fn start(&self, node: &str, event: &Event, attempt: u32) -> Run;
    fn deliver(&self, node: &str, event: &Event, attempt: u32, ok: bool);
    fn write_and_deliver(&self, event: &Event);
    fn settle(&self, event: &Event, outcome: Outcome, applied: bool, current: bool);
    fn violations(&self) -> Vec<Violation>;
    fn verdict(&self) -> Verdict;
}

impl Moves for History {
    fn start(&self, node: &str, event: &Event, attempt: u32) -> Run {
        let created_at = Timestamp::from_micros(0);
        let delivery =
            Delivery { event: event.clone(), created_at, attempt, origin: Origin::Row(Lane::Cold) };
        self.delivery_started(node, &delivery)
    }

    fn deliver(&self, node: &str, event: &Event, attempt: u32, ok: bool) {
        self.start(node, event, attempt).finished(ok);
    }

    fn write_and_deliver(&self, event: &Event) {
        self.committed(event);
        self.deliver("one", event, 1, true);
        self.stands(event.id(), Status::Done, 0);
    }

    fn settle(&self, event: &Event, outcome: Outcome, applied: bool, current: bool) {
        let token = Token::new(Timestamp::from_micros(0).saturating_add(Duration::from_secs(1)));
        let held = Held::row(event.id(), token);
        self.settled("one", &Settlement { held, outcome }, applied, current);
    }

    fn violations(&self) -> Vec<Violation> {
        self.verdict().violations
    }

    fn verdict(&self) -> Verdict {
        check(self, &HEALED)
    }
}
