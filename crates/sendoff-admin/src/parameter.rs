//! Values that requests bring, with what may be in them as the document says it.

use sendoff_core::journal::Position;
use sendoff_core::limits;
use serde::Deserialize;
use utoipa::openapi::{KnownFormat, ObjectBuilder, RefOr, Schema, SchemaFormat, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

/// The name of a topic or a publisher. Whether it can be one is for `PairId` to say.
#[derive(Debug, Deserialize)]
pub(crate) struct Name(pub(crate) String);

impl PartialSchema for Name {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(limits::TOPIC_CHARS))
            .pattern(Some(r"^[^\x00\r\n]+$"))
            .into()
    }
}

impl ToSchema for Name {}

/// The publisher that a path names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct Named {
    /// The publisher's name.
    #[param(inline)]
    pub(crate) name: Name,
}

/// A position.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct At(pub(crate) Position);

impl PartialSchema for At {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(Position::START.get()))
            .maximum(Some(Position::END.get()))
            .into()
    }
}

impl ToSchema for At {}

#[cfg(test)]
mod tests {
    use sendoff_core::journal::publish::PairId;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_is_described_as_it_is_checked() {
        let schema = serde_json::to_value(Name::schema()).unwrap();
        let (least, most) = (&schema["minLength"], &schema["maxLength"]);
        assert_eq!((least, most), (&json!(1), &json!(limits::TOPIC_CHARS)));
        assert_eq!(schema["pattern"], r"^[^\x00\r\n]+$");
        let taken = |name: &str| PairId::new(name, name).is_ok();
        assert!(!taken("") && taken("ä") && taken(&"ä".repeat(128)) && !taken(&"ä".repeat(129)));
        for code in 0..=u8::MAX {
            let refused = matches!(code, 0 | b'\r' | b'\n');
            assert_eq!(taken(&char::from(code).to_string()), !refused, "{code}");
        }
    }

    #[test]
    fn a_position_is_described_as_it_is_read() {
        let schema = serde_json::to_value(At::schema()).unwrap();
        let (least, most) = (schema["minimum"].as_u64(), schema["maximum"].as_u64());
        assert_eq!((least, most), (Some(0), Some(i64::MAX.cast_unsigned())));
        let read = |number: u64| serde_json::from_value::<At>(json!(number)).is_ok();
        assert!(read(0) && read(most.unwrap()) && !read(most.unwrap() + 1));
    }
}
