//! Lists that are given out in parts.

use sendoff_core::journal::Position;
use sendoff_core::journal::publish::PairId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::problem::Problem;

/// Items of a page where nobody says.
const PAGE: usize = 100;
/// Items of a page at most; with one more, which says whether there is another page, a store still
/// reads them in one statement.
pub(crate) const PAGE_MAX: usize = 500;

/// How many items, as it is asked for.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Limit(usize);

impl PartialSchema for Limit {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(PAGE_MAX))
            .default(Some(PAGE.into()))
            .into()
    }
}

impl ToSchema for Limit {}

/// How many items, if that many can be had.
pub(crate) fn limit(asked: Option<Limit>) -> Result<usize, Problem> {
    let Limit(limit) = asked.unwrap_or(Limit(PAGE));
    if (1..=PAGE_MAX).contains(&limit) {
        Ok(limit)
    } else {
        Err(Problem::bad(format!("limit is {limit}; it must be between 1 and {PAGE_MAX}")))
    }
}

/// The page after which one, as it is asked for.
#[derive(Debug, Deserialize)]
pub(crate) struct After(String);

impl PartialSchema for After {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).pattern(Some("^([0-9a-f]{2})+$")).into()
    }
}

impl ToSchema for After {}

/// The last item of a page: what `next` says and `after` asks for. Hexadecimal, so that it can be
/// put into a URL as it is; what is in it is nobody's business.
impl After {
    pub(crate) fn written(last: &impl Serialize) -> String {
        let json = serde_json::to_vec(last).unwrap_or_default();
        json.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What is asked for, if it is there.
    pub(crate) fn read<T: DeserializeOwned>(asked: Option<Self>) -> Result<Option<T>, Problem> {
        let Some(Self(text)) = asked else { return Ok(None) };
        let digits = |pair: &[u8]| -> Option<u8> {
            u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()
        };
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(digits).collect();
        let last = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        last.map(Some).ok_or_else(Self::unknown)
    }

    fn unknown() -> Problem {
        Problem::bad("after is not what the page before gave as its next")
    }
}

/// The last pair of a page, or the last fact of one.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Last(String, String, Position);

impl Last {
    pub(crate) fn new(pair: &PairId, position: Position) -> Self {
        Self(pair.topic().to_owned(), pair.publisher().to_owned(), position)
    }

    pub(crate) fn pair(&self) -> PairId {
        PairId::restore(self.0.clone(), self.1.clone())
    }

    pub(crate) fn position(&self) -> Position {
        self.2
    }

    pub(crate) fn to_text(&self) -> String {
        After::written(self)
    }

    /// What `after` asks for, if it is there.
    pub(crate) fn read(asked: Option<After>) -> Result<Option<Self>, Problem> {
        let last: Option<Self> = After::read(asked)?;
        // No page ends at such a name, and PostgreSQL would refuse it.
        match last {
            Some(last) if last.0.contains('\0') || last.1.contains('\0') => Err(After::unknown()),
            last => Ok(last),
        }
    }
}

/// The first `limit` items, and whether there are more.
pub(crate) fn cut<T>(mut items: Vec<T>, limit: usize) -> (Vec<T>, bool) {
    let more = items.len() > limit;
    items.truncate(limit);
    (items, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_says_is_what_the_next_one_asks() {
        let pair = PairId::new("wállets \"a\"", "b/c:d").unwrap();
        let last = Last::new(&pair, Position::new(7).unwrap());
        let read = |text: &str| Last::read(Some(After(text.to_owned())));
        let again = read(&last.to_text()).unwrap_or_default().unwrap();
        assert_eq!((again.pair(), again.position().get()), (pair, 7));
        let nul = Last::new(&PairId::restore("t\0".into(), "p".into()), Position::START).to_text();
        for wrong in ["", "7", "zz", "+5", "5b5d", "é", &last.to_text()[2..], &nul] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(matches!(Last::read(None), Ok(None)));
    }

    #[test]
    fn a_page_has_a_limit() {
        let of = |asked: usize| limit(Some(Limit(asked)));
        assert!(of(0).is_err() && of(PAGE_MAX + 1).is_err());
        assert!(matches!(of(1), Ok(1)) && matches!(of(PAGE_MAX), Ok(PAGE_MAX)));
        assert!(matches!(limit(None), Ok(PAGE)));
        assert_eq!(cut(vec![1, 2, 3], 2), (vec![1, 2], true));
        assert_eq!(cut(vec![1, 2], 2), (vec![1, 2], false));
    }
}
