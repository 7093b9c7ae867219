//! Values as PostgreSQL sends them: exact, and silent in logs.
//!
//! Times are integers of microseconds on both sides, so that a token compares to itself; nothing
//! passes through a float. The driver may log the parameters of every statement, so what may be a
//! secret says nothing in `Debug`.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use sendoff_core::{EventId, Timestamp, Token, limits};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

type Wrong = Box<dyn Error + Sync + Send>;

/// 2000-01-01, where PostgreSQL counts from.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
/// PostgreSQL's calendar begins in 4713 BC.
const FIRST_MICROS: i64 = -210_866_803_200_000_000;

/// An event's id, as `uuid`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Id(pub(crate) EventId);

impl ToSql for Id {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Wrong> {
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Id {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Wrong> {
        Ok(Self(EventId::from_bytes(raw.try_into()?)))
    }

    accepts!(UUID);
}

/// A point in time, as `timestamptz`. The two infinities are the two ends of our own scale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At(pub(crate) Timestamp);

impl At {
    /// Whether PostgreSQL can keep it.
    pub(crate) fn is_storable(self) -> bool {
        self.0.as_micros() >= FIRST_MICROS
    }

    /// The nearest that PostgreSQL can keep: before its calendar is what it calls the beginning of time.
    pub(crate) fn in_calendar(self) -> Self {
        if self.is_storable() { self } else { Self(Timestamp::from_micros(i64::MIN)) }
    }

    pub(crate) fn is_finite(self) -> bool {
        ![i64::MIN, i64::MAX].contains(&self.0.as_micros())
    }
}

impl From<Token> for At {
    fn from(token: Token) -> Self {
        Self(token.due_at())
    }
}

impl ToSql for At {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Wrong> {
        out.put_i64(match self.0.as_micros() {
            end @ (i64::MIN | i64::MAX) => end,
            micros => micros.saturating_sub(EPOCH_MICROS),
        });
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for At {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Wrong> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(Timestamp::from_micros(micros.saturating_add(match micros {
            i64::MIN => 0,
            _ => EPOCH_MICROS,
        }))))
    }

    accepts!(TIMESTAMPTZ);
}

/// A whole number of any width.
pub(crate) struct Integer(pub(crate) i64);

impl<'a> FromSql<'a> for Integer {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, Wrong> {
        Ok(Self(match *of {
            Type::INT2 => i16::from_sql(of, raw)?.into(),
            Type::INT4 => i32::from_sql(of, raw)?.into(),
            _ => i64::from_sql(of, raw)?,
        }))
    }

    accepts!(INT2, INT4, INT8);
}

/// A span of time, as an `interval` of microseconds alone: days and months depend on time zones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span(pub(crate) Duration);

impl ToSql for Span {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Wrong> {
        let micros = self.0.min(LONGEST_SPAN).as_micros();
        out.put_i64(i64::try_from(micros).unwrap_or(i64::MAX));
        out.put_i32(0);
        out.put_i32(0);
        Ok(IsNull::No)
    }

    accepts!(INTERVAL);
    to_sql_checked!();
}

/// Twice the longest delay: what is added to or taken from the present stays in the calendar.
const LONGEST_SPAN: Duration = Duration::from_secs(limits::DELAY.as_secs() * 2);

/// JSON text, as `jsonb`.
pub(crate) struct Json(pub(crate) String);

impl ToSql for Json {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Wrong> {
        out.put_u8(JSONB_VERSION);
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    accepts!(JSONB);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Json {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Wrong> {
        match raw.split_first() {
            Some((&JSONB_VERSION, text)) => Ok(Self(std::str::from_utf8(text)?.to_owned())),
            _ => Err("an unknown version of jsonb".into()),
        }
    }

    accepts!(JSONB);
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of JSON", self.0.len())
    }
}

const JSONB_VERSION: u8 = 1;

/// A payload, as `bytea`.
#[derive(Clone, Copy)]
pub(crate) struct Payload<'a>(pub(crate) &'a [u8]);

impl ToSql for Payload<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Wrong> {
        out.put_slice(self.0);
        Ok(IsNull::No)
    }

    accepts!(BYTEA);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Payload<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Wrong> {
        Ok(Self(raw))
    }

    accepts!(BYTEA);
}

impl fmt::Debug for Payload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// The text of an error, as `text`. It may quote what a handler was given.
#[derive(Clone, Copy)]
pub(crate) struct ErrorText<'a>(pub(crate) &'a str);

impl ToSql for ErrorText<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Wrong> {
        // The engine keeps NUL out; a settlement that slipped through must not be refused for ever.
        for part in self.0.split_inclusive('\0') {
            match part.strip_suffix('\0') {
                Some(text) => {
                    out.put_slice(text.as_bytes());
                    out.put_slice("\u{fffd}".as_bytes());
                }
                None => out.put_slice(part.as_bytes()),
            }
        }
        Ok(IsNull::No)
    }

    accepts!(TEXT);
    to_sql_checked!();
}

impl fmt::Debug for ErrorText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of text", self.0.len())
    }
}

/// Texts as the text form of an array: where arrays of arrays are wanted, which the server only has in
/// rectangles.
pub(crate) fn array_text<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut array = String::from("{");
    for text in texts {
        array.push_str(if array.len() > 1 { ",\"" } else { "\"" });
        for character in text.chars() {
            if matches!(character, '"' | '\\') {
                array.push('\\');
            }
            array.push(character);
        }
        array.push('"');
    }
    array.push('}');
    array
}

/// A transaction's number, as `xid8`, or from its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Xid(pub(crate) u64);

impl ToSql for Xid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Wrong> {
        out.put_u64(self.0);
        Ok(IsNull::No)
    }

    accepts!(XID8);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Xid {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Wrong> {
        Ok(Self(match *kind {
            Type::XID8 => u64::from_be_bytes(raw.try_into()?),
            _ => std::str::from_utf8(raw)?.parse()?,
        }))
    }

    accepts!(TEXT, XID8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(micros: i64) -> i64 {
        let mut raw = BytesMut::new();
        At(Timestamp::from_micros(micros)).to_sql(&Type::TIMESTAMPTZ, &mut raw).unwrap();
        At::from_sql(&Type::TIMESTAMPTZ, &raw).unwrap().0.as_micros()
    }

    #[test]
    fn times_are_exact_to_the_microsecond() {
        for micros in [0, 1, -1, EPOCH_MICROS, 1_700_000_000_123_457, FIRST_MICROS, i64::MAX - 1] {
            assert_eq!(there_and_back(micros), micros);
        }
        assert_eq!(there_and_back(i64::MAX), i64::MAX);
        assert_eq!(there_and_back(i64::MIN), i64::MIN);
    }

    #[test]
    fn spans_are_bounded_and_made_of_microseconds() {
        let mut raw = BytesMut::new();
        Span(Duration::from_secs(24 * 60 * 60)).to_sql(&Type::INTERVAL, &mut raw).unwrap();
        assert_eq!(raw[..8], 86_400_000_000_i64.to_be_bytes());
        assert_eq!(raw[8..], [0; 8]);
        raw.clear();
        Span(Duration::MAX).to_sql(&Type::INTERVAL, &mut raw).unwrap();
        assert!(i64::from_be_bytes(raw[..8].try_into().unwrap()) < i64::MAX / 4);
    }

    #[test]
    fn what_may_be_secret_is_not_shown() {
        let shown = format!(
            "{:?} {:?} {:?}",
            Payload(b"s3cret"),
            Json("s3cret".into()),
            ErrorText("s3cret")
        );
        assert!(!shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn nul_in_an_error_is_replaced() {
        let mut raw = BytesMut::new();
        ErrorText("a\0b\0").to_sql(&Type::TEXT, &mut raw).unwrap();
        assert_eq!(&raw[..], "a\u{fffd}b\u{fffd}".as_bytes());
    }
}
