//! Spans of time, as people write them.

use std::time::Duration;

/// `500ms`, `90s`, `15m`, `12h`, `7d`, `4w`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || {
        format!(
            "a time is a whole number with its unit (ms, s, m, h, d, w), such as 7d; not {text:?}"
        )
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_whole_numbers() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("12h", 43_200), ("7d", 604_800)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("4w"), duration("28d"));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "7", "d", "-7d", "1.5h", "7 d", "7days", "99999999999999999999d"] {
            assert!(duration(wrong).unwrap_err().contains("such as 7d"), "{wrong}");
        }
        assert!(duration("18446744073709551615w").is_err());
    }
}
