//! Delayed delivery.

use std::time::Duration;

use sendoff_core::{Event, InvalidEvent, limits};

fn delayed(delay: Duration) -> Result<Event, InvalidEvent> {
    Event::builder("x").delay(delay).bytes("payload").build()
}

/// Holds E12.
#[test]
fn an_event_is_due_at_once_unless_delayed() {
    assert_eq!(Event::json("x", "payload").unwrap().delay(), Duration::ZERO);
    let minute = Duration::from_secs(60);
    assert_eq!(delayed(minute).unwrap().delay(), minute);
}

/// Holds E12.
#[test]
fn the_longest_delay_passes_and_a_longer_one_is_refused() {
    let step = Duration::from_nanos(1);
    assert!(delayed(limits::DELAY - step).is_ok());
    assert!(delayed(limits::DELAY).is_ok());
    for longer in [limits::DELAY + step, Duration::MAX] {
        assert!(matches!(
            delayed(longer),
            Err(InvalidEvent::DelayTooLong { delay, limit })
                if delay == longer && limit == limits::DELAY
        ));
    }
}
