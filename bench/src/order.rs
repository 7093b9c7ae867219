//! The event that is written everywhere: an order of 200 bytes, with a number.

use sendoff_core::{Event, InvalidEvent};

/// The type of every event.
pub(crate) const EVENT_TYPE: &str = "bench.order";
/// Bytes of every payload.
pub(crate) const PAYLOAD_BYTES: usize = 200;

const HEAD: &str = r#"{"order":"#;
const END: &str = r#""}"#;

/// The payload of an order, as JSON.
pub(crate) fn payload(number: u64) -> Vec<u8> {
    let mut text = format!(r#"{HEAD}{number},"note":""#);
    while text.len() < PAYLOAD_BYTES - END.len() {
        text.push('x');
    }
    text.push_str(END);
    text.into_bytes()
}

/// The number of an order.
pub(crate) fn number(payload: &[u8]) -> Option<u64> {
    let digits = payload.strip_prefix(HEAD.as_bytes())?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// The event of an order.
pub(crate) fn event(number: u64) -> Result<Event, InvalidEvent> {
    event_of(number, 0)
}

/// The event of an order, with one of so many keys; without any where there is none.
pub(crate) fn event_of(number: u64, keys: u64) -> Result<Event, InvalidEvent> {
    let event = Event::builder(EVENT_TYPE).bytes(payload(number)).content_type("application/json");
    match key(number, keys) {
        Some(key) => event.ordering_key(key).build(),
        None => event.build(),
    }
}

/// The key of an order, of so many.
pub(crate) fn key(number: u64, keys: u64) -> Option<String> {
    (keys > 0).then(|| format!("key-{}", number % keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_payload_is_json_of_the_same_size_and_knows_its_number() {
        for wanted in [0, 7, 1_000_000, u64::MAX] {
            let payload = payload(wanted);
            assert_eq!(payload.len(), PAYLOAD_BYTES);
            assert!(serde_json::from_slice::<serde_json::Value>(&payload).is_ok());
            assert_eq!(number(&payload), Some(wanted));
        }
        assert_eq!(number(b"{}"), None);
    }
}
