//! Which part of a JSON value does not fit a type, and what was expected there.
//!
//! Promise: what is told are names of fields and types, which the program has anyway, and nothing of
//! the value. The parser's own errors quote it; so a value that could not be read is read once more, by
//! a reader whose errors never do.

use std::fmt;

use serde::Deserializer;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Expected, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::Value;

/// Why a value could not be read.
#[derive(Debug, Default)]
pub(super) struct Misfit {
    /// From the outermost field to the one at fault.
    path: String,
    expected: Option<String>,
    /// Whether only this reader, and not the parser, failed here.
    unsure: bool,
}

/// What does not fit `T` in `payload`, which is JSON; nothing where that cannot be told.
pub(super) fn find_misfit<T: DeserializeOwned>(payload: &[u8]) -> Option<Misfit> {
    let value: Value = serde_json::from_slice(payload).ok()?;
    T::deserialize(Reader(&value)).err().filter(|misfit| !misfit.unsure)
}

impl Misfit {
    /// The field and what was expected there.
    pub(super) fn told(self) -> (Option<String>, Option<String>) {
        (Some(self.path).filter(|path| !path.is_empty()), self.expected)
    }

    fn expecting(expected: impl fmt::Display) -> Self {
        Self { expected: Some(expected.to_string()), ..Self::default() }
    }

    fn unsure() -> Self {
        Self { unsure: true, ..Self::default() }
    }

    fn one_of(names: &'static [&'static str]) -> Self {
        Self::expecting(format_args!("one of `{}`", names.join("`, `")))
    }

    /// The same, seen from one step further out.
    fn within(mut self, step: &str) -> Self {
        let joint = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{step}{joint}{}", self.path);
        self
    }
}

impl de::Error for Misfit {
    /// Whatever it says may quote the value.
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::default()
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::expecting(expected)
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::expecting(expected)
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::expecting(expected)
    }

    fn unknown_variant(_: &str, names: &'static [&'static str]) -> Self {
        Self::one_of(names)
    }

    fn unknown_field(_: &str, names: &'static [&'static str]) -> Self {
        Self::one_of(names)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::expecting("a value").within(field)
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

impl std::error::Error for Misfit {}

/// Reads a value as the parser would.
struct Reader<'v>(&'v Value);

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => visitor.visit_u64(number),
                (_, Some(number), _) => visitor.visit_i64(number),
                (.., Some(number)) => visitor.visit_f64(number),
                _ => Err(Misfit::unsure()),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            Value::Object(_) => self.deserialize_struct("", &[], visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Object(entries) => visitor.visit_map(Entries::of(entries, fields)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(BorrowedStrDeserializer::new(name)),
            Value::Object(entries) => {
                visitor.visit_enum(MapAccessDeserializer::new(Entries::of(entries, variants)))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        // Types of the parser's own, which only it can read.
        if name.starts_with("$serde_json") {
            return Err(Misfit::unsure());
        }
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'v>(std::iter::Enumerate<std::slice::Iter<'v, Value>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Misfit;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Misfit> {
        let Some((at, item)) = self.0.next() else { return Ok(None) };
        let read = seed.deserialize(Reader(item)).map(Some);
        read.map_err(|misfit| misfit.within(&format!("[{at}]")))
    }
}

struct Entries<'v> {
    entries: serde_json::map::Iter<'v>,
    /// Keys that the program knows. None: a map, whose keys are part of the value.
    names: &'static [&'static str],
    current: Option<(&'v str, &'v Value)>,
}

impl<'v> Entries<'v> {
    fn of(entries: &'v serde_json::Map<String, Value>, names: &'static [&'static str]) -> Self {
        Self { entries: entries.iter(), names, current: None }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Misfit;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Misfit> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.current = Some((key, value));
        let read = seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some);
        // The parser reads keys of maps as numbers, too.
        read.map_err(|misfit: Misfit| if self.names.is_empty() { Misfit::unsure() } else { misfit })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Misfit> {
        let Some((key, value)) = self.current.take() else { return Err(Misfit::unsure()) };
        let name = self.names.iter().find(|name| **name == key).unwrap_or(&"*");
        seed.deserialize(Reader(value)).map_err(|misfit| misfit.within(name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "read, and never looked at")]
    struct Order {
        id: u64,
        #[serde(default)]
        items: Vec<Item>,
        #[serde(default)]
        notes: BTreeMap<String, u8>,
        #[serde(default)]
        shelves: BTreeMap<u32, u8>,
        paid: Option<Paid>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "read, and never looked at")]
    struct Item {
        price: u32,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code, reason = "read, and never looked at")]
    enum Paid {
        Cash,
        Card(u16),
    }

    fn told(json: &str) -> Option<(String, String)> {
        assert!(serde_json::from_str::<Order>(json).is_err(), "{json}");
        let (field, expected) = find_misfit::<Order>(json.as_bytes())?.told();
        Some((field.unwrap_or_default(), expected.unwrap_or_default()))
    }

    #[test]
    fn the_field_and_what_was_expected_there_are_told() {
        for (json, field, expected) in [
            (r#"[]"#, "", "struct Order with 5 elements"),
            (r#"7"#, "", "struct Order"),
            (r#"{}"#, "id", "a value"),
            (r#"{"id": "seven"}"#, "id", "u64"),
            (r#"{"id": -1}"#, "id", "u64"),
            (r#"{"id": 1.5}"#, "id", "u64"),
            (r#"{"id": null}"#, "id", "u64"),
            (r#"{"id": 1, "items": [{"price": 1}, {"price": -5}]}"#, "items[1].price", "u32"),
            (r#"{"id": 1, "items": [{"cost": 1}]}"#, "items[0].price", "a value"),
            (r#"{"id": 1, "notes": {"secret": 300}}"#, "notes.*", "u8"),
            (r#"{"id": 1, "paid": "stones"}"#, "paid", "one of `cash`, `card`"),
            (r#"{"id": 1, "paid": {"card": "4111"}}"#, "paid.card", "u16"),
            (r#"{"id": 1, "secret": 1}"#, "", "one of `id`, `items`, `notes`, `shelves`, `paid`"),
        ] {
            assert_eq!(told(json), Some((field.into(), expected.into())), "{json}");
        }
    }

    /// Keys that are numbers are read by the parser alone: better nothing than something wrong.
    #[test]
    fn what_cannot_be_told_for_sure_is_not() {
        assert_eq!(told(r#"{"id": 1, "shelves": {"1": 300}}"#), None);
    }
}
