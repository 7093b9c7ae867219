//! The parameters of the insert as text, for a driver that has no type for some of them, and no NULL
//! in an array.
//!
//! The statement casts every array, and the server reads an array from text as well. Nothing here
//! depends on the settings of a session, such as `DateStyle`, and every value is exact.

use std::borrow::Cow;

use sendoff_core::limits;

use crate::wire::{At, Span};

const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
/// 1970-01-01, in the days of astronomers.
const EPOCH_DAY: i64 = 2_440_588;

/// An array of texts, or of what the server reads from text.
#[cfg_attr(
    not(feature = "sea-orm"),
    allow(dead_code, reason = "only sea-orm has no arrays and spans")
)]
pub(crate) fn array<'a>(items: impl IntoIterator<Item = Option<Cow<'a, str>>>) -> String {
    let mut array = String::from("{");
    for item in items {
        if array.len() > 1 {
            array.push(',');
        }
        match item {
            // Quoted, it would be a text of four letters.
            None => array.push_str("NULL"),
            Some(item) => quote(&item, &mut array),
        }
    }
    array.push('}');
    array
}

#[cfg_attr(
    not(feature = "sea-orm"),
    allow(dead_code, reason = "only sea-orm has no arrays and spans")
)]
fn quote(item: &str, array: &mut String) {
    array.push('"');
    for letter in item.chars() {
        if matches!(letter, '"' | '\\') {
            array.push('\\');
        }
        array.push(letter);
    }
    array.push('"');
}

/// A `timestamptz`. By the number of its day: a date would need a calendar, and years before Christ.
pub(crate) fn time(At(time): At) -> String {
    let micros = time.as_micros();
    if micros == i64::MAX {
        return "infinity".into();
    }
    let day = micros.div_euclid(DAY_MICROS) + EPOCH_DAY;
    format!("J{day} {}+00", clock(micros.rem_euclid(DAY_MICROS).unsigned_abs().into()))
}

/// An `interval` without days and months, which depend on time zones.
#[cfg_attr(
    not(feature = "sea-orm"),
    allow(dead_code, reason = "only sea-orm has no arrays and spans")
)]
pub(super) fn span(Span(span): Span) -> String {
    clock(span.min(limits::DELAY).as_micros())
}

fn clock(micros: u128) -> String {
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    format!("{}:{:02}:{seconds:02}.{micros:06}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sendoff_core::Timestamp;

    use super::*;

    #[test]
    fn texts_are_quoted_and_nothing_is_not() {
        let items = [Some("NULL"), None, Some(r#"a "b" \ {c},"#), Some("")];
        let items = items.map(|item| item.map(Cow::Borrowed));
        assert_eq!(array(items), r#"{"NULL",NULL,"a \"b\" \\ {c},",""}"#);
        assert_eq!(array([]), "{}");
    }

    #[test]
    fn times_are_exact_to_the_microsecond() {
        let text = |micros| time(At(Timestamp::from_micros(micros)));
        assert_eq!(text(0), "J2440588 0:00:00.000000+00");
        assert_eq!(text(-1), "J2440587 23:59:59.999999+00");
        assert_eq!(text(-210_866_803_200_000_000), "J0 0:00:00.000000+00");
        assert_eq!(text(i64::MAX), "infinity");
        assert_eq!(span(Span(Duration::from_micros(90_061_000_001))), "25:01:01.000001");
    }
}
