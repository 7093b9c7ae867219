//! Durations as text, in files that configure something: `250ms`, `30s`, `5m`, `1h 30m`, `7d`. For
//! `#[serde(with = "…")]`; [`optional`] is for those that may be missing, which is written `none`.

use std::time::Duration;

use jiff::fmt::friendly::SpanPrinter;
use jiff::{Span, SpanRelativeTo};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;

/// Writes a duration as text.
pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&SpanPrinter::new().unsigned_duration_to_string(duration))
}

/// Reads a duration from text.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(from)?)
}

fn parse<E: Error>(text: &str) -> Result<Duration, E> {
    let day = SpanRelativeTo::days_are_24_hours();
    let parsed = text.parse::<Span>().and_then(|span| span.to_duration(day));
    parsed
        .and_then(Duration::try_from)
        .map_err(|_| E::custom(format_args!("{text:?} is no duration like 250ms, 30s, 5m or 7d")))
}

/// The same for what may be missing.
pub mod optional {
    use super::{Deserialize, Deserializer, Duration, Serializer, parse};

    /// The word for no duration, since not every format has one of its own.
    const NONE: &str = "none";

    /// Writes a duration as text, or `none`.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::serialize(duration, to),
            None => to.serialize_str(NONE),
        }
    }

    /// Reads a duration from text, or none.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        match Option::<String>::deserialize(from)?.as_deref() {
            None | Some(NONE) => Ok(None),
            Some(text) => parse(text).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Times(
        #[serde(with = "crate::duration")] Duration,
        #[serde(with = "crate::duration::optional")] Option<Duration>,
    );

    #[test]
    fn durations_are_read_and_written_as_text() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        for (text, time) in [
            ("250ms", Duration::from_millis(250)),
            ("30s", Duration::from_secs(30)),
            ("5m", minutes(5)),
            ("1h 30m", minutes(90)),
            ("7d", minutes(7 * 24 * 60)),
            ("0s", Duration::ZERO),
        ] {
            let times = Times(time, Some(time));
            assert_eq!(from_value::<Times>(json!([text, text])).unwrap(), times);
            let written = serde_json::to_value(&times).unwrap();
            assert_eq!(from_value::<Times>(written).unwrap(), times);
        }
        let none = Times(Duration::ZERO, None);
        assert_eq!(serde_json::to_value(&none).unwrap(), json!(["0s", "none"]));
        for missing in [json!("none"), json!(null)] {
            assert_eq!(from_value::<Times>(json!(["0s", missing])).unwrap(), none);
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_an_example() {
        for wrong in ["", "30", "-5s", "soon", "99999999999999h"] {
            let error = from_value::<Times>(json!([wrong, "none"])).unwrap_err().to_string();
            assert!(error.contains("30s"), "{error}");
            assert!(error.contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
