//! Values as they stand in our statements and come back in the server's answers: exact, and safe
//! whatever is in them.
//!
//! A value goes into a statement as a [`Literal`]: hexadecimal digits or decimal ones, which no mode,
//! character set or setting of a session reads in another way. Nothing that somebody gave us is ever
//! part of a statement as it is. So a statement and what must be proved before it are one text, and one
//! round trip, where prepared ones would be several. Drivers that log the texts they send get the
//! values of an event as parameters instead.

use std::fmt::Write;
use std::time::Duration;

use mysql_async::Value;
use sendoff_core::journal::{Mode, Position};
use sendoff_core::order::{Ending, KeyToken};
use sendoff_core::partition::PartitionName;
use sendoff_core::{Death, EventId, Timestamp, limits};
use sendoff_engine::store::{Cutoff, EventKind};

/// A value in a statement. Only this module makes them.
#[derive(Clone)]
pub(crate) struct Literal(String);

impl Literal {
    pub(crate) fn null() -> Self {
        Self("null".into())
    }

    /// The server's time.
    pub(crate) fn now() -> Self {
        Self("utc_timestamp(6)".into())
    }

    /// In the place of a value that is apart from the text.
    pub(crate) fn mark() -> Self {
        Self("?".into())
    }

    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        let mut text = String::with_capacity(bytes.len() * 2 + 3);
        push_hex(&mut text, bytes);
        Self(text)
    }

    pub(crate) fn text(text: &str) -> Self {
        let mut literal = String::with_capacity(text.len() * 2 + 12);
        literal.push_str("_utf8mb4 ");
        push_hex(&mut literal, text.as_bytes());
        Self(literal)
    }

    pub(crate) fn maybe_text(text: Option<&str>) -> Self {
        text.map_or_else(Self::null, Self::text)
    }

    pub(crate) fn number(number: impl Into<i64>) -> Self {
        Self(number.into().to_string())
    }

    pub(crate) fn count(count: usize) -> Self {
        Self(count.to_string())
    }

    /// A session by its number.
    #[cfg(any(feature = "sea-orm", feature = "_sqlx"))]
    pub(crate) fn session(number: u64) -> Self {
        Self(number.to_string())
    }

    pub(crate) fn id(id: EventId) -> Self {
        Self::bytes(id.as_bytes())
    }

    /// For `in (…)`; at least one.
    pub(crate) fn ids(ids: impl IntoIterator<Item = EventId>) -> Self {
        let mut list = String::new();
        for id in ids {
            if !list.is_empty() {
                list.push(',');
            }
            push_hex(&mut list, id.as_bytes());
        }
        Self(list)
    }

    /// For `not in (…)`, also if there is none.
    pub(crate) fn other_ids(ids: &[EventId]) -> Self {
        // No id is empty; and nothing at all would be no list.
        if ids.is_empty() { Self::bytes(&[]) } else { Self::ids(ids.iter().copied()) }
    }

    /// For `not in (…)`, also if there is none: event types.
    pub(crate) fn other_types(types: &[&str]) -> Self {
        // No type is empty.
        if types.is_empty() { Self::text("") } else { Self::texts(types.iter().copied()) }
    }

    /// For `(…) not in (…)`, also if there is none: aggregate types and event types.
    pub(crate) fn other_kinds(kinds: &[EventKind<'_>]) -> Self {
        let pair =
            |kind: &EventKind<'_>| [Self::text(kind.aggregate_type), Self::text(kind.event_type)];
        let nobodys = EventKind { aggregate_type: "", event_type: "" };
        let kinds = if kinds.is_empty() { &[nobodys][..] } else { kinds };
        let pairs: Vec<_> = kinds.iter().map(pair).collect();
        Self::rows(pairs.iter().map(<[Self; 2]>::as_slice))
    }

    /// For `json_table`, in the order of the ids.
    pub(crate) fn id_list(ids: impl IntoIterator<Item = EventId>) -> Self {
        let mut ids: Vec<_> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        let mut list = String::with_capacity(ids.len() * 35 + 4);
        list.push_str("'[");
        for (at, id) in ids.iter().enumerate() {
            list.push_str(if at == 0 { "\"" } else { ",\"" });
            push_digits(&mut list, id.as_bytes());
            list.push('"');
        }
        list.push_str("]'");
        Self(list)
    }

    /// A point in time; see [`is_storable`].
    pub(crate) fn time(time: Timestamp) -> Self {
        Self(format!("timestamp'{}'", time_text(time)))
    }

    /// The nearest time that a DATETIME can keep.
    pub(crate) fn nearest_time(time: Timestamp) -> Self {
        Self::time(nearest(time))
    }

    /// A mark for each value of so many rows of `insert`, which are given apart from it.
    #[cfg(any(feature = "sea-orm", feature = "_sqlx"))]
    pub(crate) fn marks(rows: usize) -> Self {
        let row = "(?,?,?,?,?,?,?,?,?,\
                   coalesce(@sendoff_at + interval ? microsecond,date'9998-01-01'),@sendoff_at,?,?,?,\
                   @sendoff_at + interval ? microsecond)";
        Self(vec![row; rows].join(",\n"))
    }

    /// The name of a partition, which is one of ours.
    pub(crate) fn partition(name: &PartitionName) -> Self {
        Self(name.to_string())
    }

    /// When a partition ends.
    pub(crate) fn end(time: Timestamp) -> Self {
        Self(format!("'{}'", crate::partitions::end(time)))
    }

    /// Microseconds, for `interval … microsecond`.
    pub(crate) fn span(span: Duration) -> Self {
        Self(micros(span).to_string())
    }

    /// The earliest time of creation that is looked at.
    pub(crate) fn since(window: Option<Duration>) -> Self {
        window.map_or_else(Self::whenever, Self::ago)
    }

    /// Before what a row must have ended.
    pub(crate) fn cutoff(cutoff: Cutoff) -> Self {
        match cutoff {
            Cutoff::Age(age) => Self::ago(age),
            Cutoff::Before(moment) => Self::nearest_time(moment),
        }
    }

    fn ago(span: Duration) -> Self {
        Self(format!("utc_timestamp(6) - interval {} microsecond", micros(span)))
    }

    /// The earliest due time that is looked at.
    pub(crate) fn from(from: Option<Timestamp>) -> Self {
        from.filter(|time| is_storable(*time)).map_or_else(Self::whenever, Self::time)
    }

    /// Before every time there is, even a date of zeros.
    fn whenever() -> Self {
        Self("0".into())
    }

    /// The earliest time that there is.
    pub(crate) fn earliest() -> Self {
        Self::time(EARLIEST)
    }

    /// Rows of values, for `values …`.
    pub(crate) fn rows<'a>(rows: impl IntoIterator<Item = &'a [Self]>) -> Self {
        let mut list = String::new();
        for row in rows {
            list.push_str(if list.is_empty() { "(" } else { ",\n(" });
            for (at, value) in row.iter().enumerate() {
                if at > 0 {
                    list.push(',');
                }
                list.push_str(&value.0);
            }
            list.push(')');
        }
        Self(list)
    }

    /// The due time of a row that is in line.
    pub(crate) fn in_line() -> Self {
        Self("date'9998-01-01'".into())
    }

    /// The time that `insert` notes, and so much later.
    pub(crate) fn after_insert(span: Duration) -> Self {
        Self(format!("@sendoff_at + interval {} microsecond", micros(span)))
    }

    pub(crate) fn maybe_id(id: Option<EventId>) -> Self {
        id.map_or_else(Self::null, Self::id)
    }

    pub(crate) fn position(position: Position) -> Self {
        Self(position.get().to_string())
    }

    /// For `in (…)`; NULL, which is in no list, where there is none.
    pub(crate) fn numbers(numbers: impl IntoIterator<Item = u64>) -> Self {
        Self::list(numbers.into_iter().map(|number| number.to_string()))
    }

    /// The same of texts.
    pub(crate) fn texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        Self::list(texts.into_iter().map(|text| Self::text(text).0))
    }

    fn list(items: impl Iterator<Item = String>) -> Self {
        let items: Vec<_> = items.collect();
        if items.is_empty() { Self::null() } else { Self(items.join(",")) }
    }

    /// Statements of ours, each in parentheses, as one.
    pub(crate) fn union(statements: &[String]) -> Self {
        Self(statements.join("\nunion all\n"))
    }

    /// What narrows a search to facts of one of these types; nothing where any will do.
    pub(crate) fn of_types<'t>(types: impl ExactSizeIterator<Item = &'t str>) -> Self {
        if types.len() == 0 {
            return Self(String::new());
        }
        Self(format!("and e.event_type in ({})", Self::texts(types).0))
    }

    /// In the place of a part that a statement does without.
    pub(crate) fn nothing() -> Self {
        Self(String::new())
    }

    /// A part of a statement that was made of a file of ours.
    pub(crate) fn part(text: String) -> Self {
        Self(text)
    }

    /// Numbers that statements of ours find, each in parentheses, added up; at least one.
    pub(crate) fn sum(numbers: &[String]) -> Self {
        Self(numbers.join("\n + "))
    }

    /// How an anchor is locked.
    pub(crate) fn mode(mode: Mode) -> Self {
        match mode {
            Mode::Shared => Self::locking(true),
            Mode::Exclusive => Self("for update".into()),
        }
    }

    /// What makes a search see whatever is committed, and nothing where it is only to look.
    pub(crate) fn locking(locking: bool) -> Self {
        Self(if locking { "lock in share mode" } else { "" }.into())
    }

    /// The position that `last` noted.
    pub(crate) fn noted_last() -> Self {
        Self("@sendoff_last".into())
    }

    /// The time that `at` noted.
    pub(crate) fn noted_time() -> Self {
        Self("@sendoff_at".into())
    }

    /// The position of a fact that was inserted so many rows after the first.
    pub(crate) fn behind_first(rows: usize) -> Self {
        Self(format!("@sendoff_first + {rows}"))
    }

    /// A mark for each value of so many rows of `insert`, which are given apart from it.
    #[cfg(any(feature = "sea-orm", feature = "_sqlx"))]
    pub(crate) fn fact_marks(rows: usize) -> Self {
        Self(vec!["(?,?,?,?,@sendoff_at,?,?,?,?,?)"; rows].join(",\n"))
    }

    /// Numbers as rows of `void`.
    pub(crate) fn voids(numbers: impl Iterator<Item = u64>) -> Self {
        let rows: Vec<_> = numbers.map(|number| format!("({number}, utc_timestamp(6))")).collect();
        Self(rows.join(","))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Facts by their ids and what they hold, as `known` takes them: JSON of nothing but digits.
#[derive(Default)]
pub(crate) struct KnownFacts(String);

impl KnownFacts {
    pub(crate) fn push(&mut self, id: EventId, digest: &[u8]) {
        self.0.push_str(if self.0.is_empty() { "[{\"i\":\"" } else { ",{\"i\":\"" });
        push_digits(&mut self.0, id.as_bytes());
        self.0.push_str("\",\"d\":\"");
        push_digits(&mut self.0, digest);
        self.0.push_str("\"}");
    }

    pub(crate) fn literal(&self) -> Literal {
        Literal(format!("'{}]'", self.0))
    }
}

/// Dead letters, as `letters_change` takes them: JSON of nothing but digits and dates.
#[derive(Default)]
pub(crate) struct DeadRows(String);

impl DeadRows {
    pub(crate) fn push(&mut self, death: &Death) {
        self.0.push_str(if self.0.is_empty() { "[{\"i\":\"" } else { ",{\"i\":\"" });
        push_digits(&mut self.0, death.id.as_bytes());
        self.0.push('"');
        if let Some(died_at) = death.died_at {
            let _ = write!(self.0, ",\"t\":\"{}\"", time_text(nearest(died_at)));
        }
        self.0.push('}');
    }

    /// There is at least one.
    pub(crate) fn literal(&self) -> Literal {
        Literal(format!("'{}]'", self.0))
    }
}

/// Rows and what shall become of each, as `lock` and `settle` take them: JSON of nothing but digits and
/// dates.
#[derive(Default)]
pub(crate) struct EndRows(String);

/// What shall become of a row.
pub(crate) struct End<'a> {
    pub(crate) outcome: i16,
    pub(crate) after: Option<Duration>,
    pub(crate) attempts: Option<u32>,
    pub(crate) error: Option<&'a str>,
    pub(crate) due_at: Option<Timestamp>,
    /// Whether its key, if it has one, waits for what becomes of it.
    pub(crate) parks: bool,
}

impl End<'_> {
    /// As a list has it, after what it is looked for by.
    fn push(&self, list: &mut String) {
        let _ = write!(list, ",\"o\":{}", self.outcome);
        if let Some(after) = self.after {
            let _ = write!(list, ",\"d\":{}", micros(after));
        }
        if let Some(attempts) = self.attempts {
            let _ = write!(list, ",\"a\":{attempts}");
        }
        if let Some(error) = self.error {
            list.push_str(",\"e\":\"");
            push_digits(list, error.as_bytes());
            list.push('"');
        }
        if let Some(due_at) = self.due_at {
            let _ = write!(list, ",\"u\":\"{}\"", time_text(due_at));
        }
    }
}

impl EndRows {
    /// A row that is looked for by its token.
    pub(crate) fn held(&mut self, id: EventId, token: Timestamp, end: Option<&End<'_>>) {
        self.0.push_str(if self.0.is_empty() { "[{\"i\":\"" } else { ",{\"i\":\"" });
        push_digits(&mut self.0, id.as_bytes());
        let _ = write!(self.0, "\",\"t\":\"{}\"", time_text(token));
        if let Some(end) = end {
            end.push(&mut self.0);
            if end.parks {
                self.0.push_str(",\"p\":1");
            }
        }
        self.0.push('}');
    }

    /// A row in line, whose key stands at this place in another list, from 1.
    pub(crate) fn in_line(&mut self, id: EventId, key: (usize, &str), end: &End<'_>) {
        self.0.push_str(if self.0.is_empty() { "[{\"i\":\"" } else { ",{\"i\":\"" });
        push_digits(&mut self.0, id.as_bytes());
        let _ = write!(self.0, "\",\"k\":{}", key.0);
        end.push(&mut self.0);
        if end.parks {
            self.0.push_str(",\"p\":\"");
            push_digits(&mut self.0, key.1.as_bytes());
            self.0.push('"');
        }
        self.0.push('}');
    }

    /// A row that is locked already, as `lock_keyed` notes those that it found.
    pub(crate) fn locked(&mut self, id: EventId, row: &LockedRow, end: &End<'_>) {
        let LockedRow { seq, event_type, key } = row;
        fn or_null(value: Option<impl std::fmt::Display>) -> String {
            value.map_or_else(|| "null".into(), |value| value.to_string())
        }
        self.0.push_str(if self.0.is_empty() { "[[\"" } else { ",[\"" });
        push_digits(&mut self.0, id.as_bytes());
        let _ = write!(self.0, "\",{seq},{},\"", end.outcome);
        push_digits(&mut self.0, event_type);
        let (after, attempts) = (or_null(end.after.map(micros)), or_null(end.attempts));
        let _ = write!(self.0, "\",{after},{attempts},");
        match end.error {
            Some(error) => {
                self.0.push('"');
                push_digits(&mut self.0, error.as_bytes());
                self.0.push_str("\",");
            }
            None => self.0.push_str("null,"),
        }
        match end.due_at {
            Some(due_at) => {
                let _ = write!(self.0, "\"{}\",", time_text(due_at));
            }
            None => self.0.push_str("null,"),
        }
        match key {
            Some(key) => {
                self.0.push('"');
                push_digits(&mut self.0, key);
                self.0.push_str("\",");
            }
            None => self.0.push_str("null,"),
        }
        self.0.push_str(if end.parks { "1,null]" } else { "null,null]" });
    }

    pub(crate) fn literal(&self) -> Literal {
        if self.0.is_empty() { Literal("'[]'".into()) } else { Literal(format!("'{}]'", self.0)) }
    }
}

/// What identifies a row that is locked beside its id, and what its end needs to know of it.
pub(crate) struct LockedRow {
    pub(crate) seq: i64,
    pub(crate) event_type: Vec<u8>,
    pub(crate) key: Option<Vec<u8>>,
}

/// Keys, as statements about them take them: JSON of nothing but digits and dates.
#[derive(Default)]
pub(crate) struct KeyRows(String);

impl KeyRows {
    /// With the most events to run.
    pub(crate) fn wanted(&mut self, key: &str, run: u32) {
        self.begin(key);
        let _ = write!(self.0, ",\"r\":{run}}}");
    }

    /// With when it was taken.
    pub(crate) fn held(&mut self, key: &str, token: KeyToken) {
        self.begin(key);
        let _ = write!(self.0, ",\"t\":\"{}\"}}", time_text(nearest(token.taken_at())));
    }

    /// With what shall become of it, and whether events of it are over.
    pub(crate) fn ends(&mut self, key: &str, token: KeyToken, ending: Ending, ended: bool) {
        let (ending, after) = match ending {
            Ending::HeldOn => (0, Duration::ZERO),
            Ending::Free => (1, Duration::ZERO),
            Ending::After(after) => (2, after.min(limits::DELAY)),
            Ending::Exhausted => (3, Duration::ZERO),
        };
        self.begin(key);
        let (token, after) = (time_text(nearest(token.taken_at())), micros(after));
        let ended = u8::from(ended);
        let _ = write!(self.0, ",\"t\":\"{token}\",\"w\":{ending},\"d\":{after},\"s\":{ended}}}");
    }

    fn begin(&mut self, key: &str) {
        self.0.push_str(if self.0.is_empty() { "[{\"k\":\"" } else { ",{\"k\":\"" });
        push_digits(&mut self.0, key.as_bytes());
        self.0.push('"');
    }

    /// There is at least one.
    pub(crate) fn literal(&self) -> Literal {
        Literal(format!("'{}]'", self.0))
    }
}

/// Twice the longest delay: what is added to or taken from the present stays in the calendar.
const LONGEST_SPAN: Duration = Duration::from_secs(limits::DELAY.as_secs() * 2);

pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.min(LONGEST_SPAN).as_micros()).unwrap_or(i64::MAX)
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    text.push_str("x'");
    push_digits(text, bytes);
    text.push('\'');
}

fn push_digits(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.reserve(bytes.len() * 2);
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)].into());
        text.push(DIGITS[usize::from(byte & 15)].into());
    }
}

const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
/// The years 1000 to 9999, which is what a DATETIME is documented to keep.
const FIRST_MICROS: i64 = -30_610_224_000_000_000;
const LAST_MICROS: i64 = 253_402_300_799_999_999;
/// The first time that a DATETIME can keep.
pub(crate) const EARLIEST: Timestamp = Timestamp::from_micros(FIRST_MICROS);

/// Whether a DATETIME can keep it.
pub(crate) fn is_storable(time: Timestamp) -> bool {
    (FIRST_MICROS..=LAST_MICROS).contains(&time.as_micros())
}

/// The nearest time that a DATETIME can keep.
fn nearest(time: Timestamp) -> Timestamp {
    Timestamp::from_micros(time.as_micros().clamp(FIRST_MICROS, LAST_MICROS))
}

/// `YYYY-MM-DD HH:MM:SS.ffffff`; see [`is_storable`].
pub(crate) fn time_text(time: Timestamp) -> String {
    let micros = time.as_micros();
    let (year, month, day) = civil(micros.div_euclid(DAY_MICROS));
    let clock = micros.rem_euclid(DAY_MICROS);
    let (seconds, micros) = (clock / 1_000_000, clock % 1_000_000);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{micros:06}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// The server's `YYYY-MM-DD HH:MM:SS.ffffff`, which has no time zone and means UTC.
pub(crate) fn parse_time(text: &[u8]) -> Option<Timestamp> {
    let number = |from: usize, to: usize| {
        text.get(from..to)?.iter().try_fold(0_i64, |sum, digit| {
            digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0'))
        })
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b' '), (13, b':'), (16, b':'), (19, b'.')];
    if text.len() != 26 || separators.iter().any(|(at, separator)| text[*at] != *separator) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    // A session that is not strict may have stored zeros.
    if month == 0 || day == 0 {
        return None;
    }
    let seconds = number(11, 13)? * 3_600 + number(14, 16)? * 60 + number(17, 19)?;
    Some(at((year, month, day), seconds, number(20, 26)?))
}

/// The same as the server sends it where it was asked with values apart from a text.
pub(crate) fn time_of(value: &Value) -> Option<Timestamp> {
    match *value {
        Value::Bytes(ref text) => parse_time(text),
        Value::Date(year, month, day, hour, minute, second, micros) if month > 0 && day > 0 => {
            let seconds = i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second);
            Some(at((year.into(), month.into(), day.into()), seconds, micros.into()))
        }
        _ => None,
    }
}

fn at((year, month, day): (i64, i64, i64), seconds: i64, micros: i64) -> Timestamp {
    Timestamp::from_micros(days(year, month, day) * DAY_MICROS + seconds * 1_000_000 + micros)
}

/// Days since 1970-01-01 of a date. Years begin in March here, so that a leap day is the last of its
/// year; 400 of them are always 146,097 days.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(micros: i64) -> String {
        Literal::time(Timestamp::from_micros(micros)).0
    }

    #[test]
    fn times_are_exact_to_the_microsecond() {
        assert_eq!(time(0), "timestamp'1970-01-01 00:00:00.000000'");
        assert_eq!(time(-1), "timestamp'1969-12-31 23:59:59.999999'");
        assert_eq!(time(951_782_400_000_001), "timestamp'2000-02-29 00:00:00.000001'");
        assert_eq!(time(FIRST_MICROS), "timestamp'1000-01-01 00:00:00.000000'");
        assert_eq!(time(LAST_MICROS), "timestamp'9999-12-31 23:59:59.999999'");
        let mut micros = FIRST_MICROS;
        while micros <= LAST_MICROS {
            let text = time(micros);
            let text = text.trim_start_matches("timestamp'").trim_end_matches('\'');
            assert_eq!(parse_time(text.as_bytes()), Some(Timestamp::from_micros(micros)), "{text}");
            micros += 86_399_999_999 * 97;
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "0",
            "2026-11-15 12:00:00",
            "2026-11-15T12:00:00.000000",
            "2026-1x-15 12:00:00.000000",
            "0000-00-00 00:00:00.000000",
            "2026-11-00 12:00:00.000000",
        ] {
            assert_eq!(parse_time(text.as_bytes()), None, "{text}");
        }
    }

    /// Holds W6.
    #[test]
    fn whatever_a_value_is_its_literal_is_made_of_digits() {
        let nasty = "'; drop table outbox_event; -- \\ \" ` \0 \u{1f600}";
        let hex = |literal: Literal| {
            let digits = literal.0.trim_start_matches("_utf8mb4 ").trim_start_matches("x'");
            let digits = digits.strip_suffix('\'').unwrap().to_owned();
            assert!(digits.bytes().all(|digit| digit.is_ascii_hexdigit()), "{digits}");
        };
        hex(Literal::text(nasty));
        hex(Literal::bytes(nasty.as_bytes()));
        for list in [Literal::texts([nasty]), Literal::texts([nasty, nasty])] {
            list.0.split(',').for_each(|item| hex(Literal(item.to_owned())));
        }
        assert_eq!(Literal::texts([]).0, "null");
        let mut known = KnownFacts::default();
        known.push(EventId::from_bytes([255; 16]), nasty.as_bytes());
        let known = known.literal().0;
        assert!(
            known.starts_with("'[{\"i\":\"ffff") && known.matches('\'').count() == 2,
            "{known}"
        );
        let id = EventId::from_bytes([255; 16]);
        let after = Some(Duration::from_secs(1));
        let error = Some("a'\"\\");
        let end = End { outcome: 2, after, attempts: Some(7), error, due_at: None, parks: true };
        let mut rows = EndRows::default();
        rows.held(id, Timestamp::from_micros(1), Some(&end));
        rows.held(id, Timestamp::from_micros(1), None);
        let json = rows.literal().0;
        assert!(json.contains(r#""o":2,"d":1000000,"a":7,"e":"6127225c","p":1}"#), "{json}");
        assert_eq!(json.matches('\'').count(), 2, "{json}");
        let mut rows = EndRows::default();
        let event_type = nasty.as_bytes().to_vec();
        rows.locked(id, &LockedRow { seq: 5, event_type, key: Some(b"k'".to_vec()) }, &end);
        let json = rows.literal().0;
        assert!(json.ends_with(r#",1000000,7,"6127225c",null,"6b27",1,null]]'"#), "{json}");
        assert_eq!(json.matches('\'').count(), 2, "{json}");
        let mut rows = EndRows::default();
        rows.in_line(id, (3, nasty), &end);
        let json = rows.literal().0;
        assert!(json.contains(r#"","k":3,"o":2,"d":1000000"#), "{json}");
        assert_eq!(json.matches('\'').count(), 2, "{json}");
        let (mut keys, token) = (KeyRows::default(), KeyToken::new(Timestamp::from_micros(1)));
        keys.ends(nasty, token, Ending::After(Duration::from_secs(1)), true);
        keys.held(nasty, token);
        keys.wanted(nasty, 7);
        let json = keys.literal().0;
        assert!(json.contains(r#"","w":2,"d":1000000,"s":1}"#), "{json}");
        assert_eq!(json.matches('\'').count(), 2, "{json}");
    }
}
