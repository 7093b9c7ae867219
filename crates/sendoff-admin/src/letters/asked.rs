//! What requests about dead letters bring, with what may be in it as the document says it.

use sendoff_core::{EventId, LetterFilter, LetterOrder, Timestamp, limits};
use sendoff_engine::store::PayloadWanted;
use serde::{Deserialize, Deserializer, de};
use utoipa::openapi::{KnownFormat, ObjectBuilder, RefOr, Schema, SchemaFormat, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::page::{After, Limit};

/// A line of text of so many characters at most. Whether it can be what it is to be is for the filter and
/// the note to say.
#[derive(Debug, Deserialize)]
pub(crate) struct Line<const MOST: usize>(pub(super) String);

impl<const MOST: usize> PartialSchema for Line<MOST> {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .max_length(Some(MOST))
            .pattern(Some(r"^[^\x00\r\n]*$"))
            .into()
    }
}

impl<const MOST: usize> ToSchema for Line<MOST> {}

pub(crate) type Actor = Line<{ limits::ACTOR_CHARS }>;
pub(crate) type Reason = Line<{ limits::REASON_CHARS }>;
type TypeName = Line<{ limits::EVENT_TYPE_CHARS }>;
type AggregateTypeName = Line<{ limits::AGGREGATE_TYPE_CHARS }>;
type AggregateId = Line<{ limits::AGGREGATE_ID_CHARS }>;
type TenantId = Line<{ limits::TENANT_ID_CHARS }>;

/// A part of an error, which may have several lines.
#[derive(Debug, Deserialize)]
pub(crate) struct ErrorPart(String);

impl PartialSchema for ErrorPart {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(limits::ERROR_CHARS))
            .pattern(Some(r"^[^\x00]+$"))
            .into()
    }
}

impl ToSchema for ErrorPart {}

/// A time, as in RFC 3339.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time(pub(super) Timestamp);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .pattern(Some(
                r"^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$",
            ))
            .into()
    }
}

impl ToSchema for Time {}

/// How often an event was tried.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Attempts(u32);

impl PartialSchema for Attempts {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .maximum(Some(u64::from(u32::MAX)))
            .into()
    }
}

impl ToSchema for Attempts {}

/// How many letters a sweep changes.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Most(pub(super) u64);

impl PartialSchema for Most {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).into()
    }
}

impl ToSchema for Most {}

/// An event's id, as UUID or ULID.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Id(pub(crate) EventId);

impl PartialSchema for Id {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(
                "^([0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}|\
                 [0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12})$",
            ))
            .into()
    }
}

impl ToSchema for Id {}

/// The event that a path names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct Identified {
    /// The event's id, as UUID or ULID.
    #[param(inline)]
    pub(super) id: Id,
}

/// Which letters come first.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    #[default]
    Oldest,
    Newest,
}

impl PartialSchema for Order {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["oldest", "newest"]))
            .default(Some("oldest".into()))
            .into()
    }
}

impl ToSchema for Order {}

impl From<Order> for LetterOrder {
    fn from(order: Order) -> Self {
        match order {
            Order::Oldest => Self::OldestFirst,
            Order::Newest => Self::NewestFirst,
        }
    }
}

/// What of an event is shown.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Shown {
    /// With its payload, which may be large, and secret.
    #[serde(default)]
    #[param(default = false)]
    payload: bool,
}

impl Shown {
    pub(super) fn wanted(&self) -> PayloadWanted {
        if self.payload { PayloadWanted::Yes } else { PayloadWanted::No }
    }
}

/// Which entries of the audit.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditPages {
    /// Only what was done to this event.
    #[param(inline)]
    pub(super) event_id: Option<Id>,
    /// Items of a page.
    #[param(inline)]
    pub(super) limit: Option<Limit>,
    /// What the page before gave as `next`.
    #[param(inline)]
    pub(super) after: Option<After>,
}

/// Who acts, and why. The audit keeps both.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Author {
    /// Who acts: a person's name, as the caller says it.
    #[schema(inline)]
    pub(super) actor: Actor,
    /// Why.
    #[schema(inline)]
    pub(super) reason: Reason,
}

/// What is done to many letters, by whom and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sweep {
    /// Who acts: a person's name, as the caller says it.
    #[schema(inline)]
    pub(super) actor: Actor,
    /// Why.
    #[schema(inline)]
    pub(super) reason: Reason,
    /// Which letters: those of which all of this is true.
    #[schema(inline)]
    pub(super) filter: Option<Filter>,
    /// All of them, where nothing else is said.
    #[serde(default)]
    pub(super) all: bool,
    /// Only count them.
    #[serde(default)]
    pub(super) dry_run: bool,
    /// End when so many are done.
    #[schema(inline)]
    pub(super) limit: Option<Most>,
    /// Only letters that died at this time or earlier: what the answer before gave as `began`.
    #[schema(inline)]
    pub(super) began: Option<Time>,
}

/// A structure that says which letters are meant, with what else it has: the fields stand here once.
macro_rules! filtered {
    (
        $(#[$attribute:meta])*
        struct $name:ident by $inline:ident { $($(#[$field_attribute:meta])* $field:ident: $kind:ty,)* }
    ) => {
        $(#[$attribute])*
        pub(crate) struct $name {
            /// Only events of this type.
            #[$inline(inline)]
            event_type: Option<TypeName>,
            /// Only events about this kind of aggregate.
            #[$inline(inline)]
            aggregate_type: Option<AggregateTypeName>,
            /// Only events about this aggregate.
            #[$inline(inline)]
            aggregate_id: Option<AggregateId>,
            /// Only events of this tenant.
            #[$inline(inline)]
            tenant_id: Option<TenantId>,
            /// Only those that died at this time or later.
            #[$inline(inline)]
            died_from: Option<Time>,
            /// Only those that died before this time.
            #[$inline(inline)]
            died_to: Option<Time>,
            /// Only those with this in their last error, letter by letter.
            #[$inline(inline)]
            error: Option<ErrorPart>,
            /// Only those with so many attempts or more.
            #[$inline(inline)]
            attempts_least: Option<Attempts>,
            /// Only those with so many attempts or fewer.
            #[$inline(inline)]
            attempts_most: Option<Attempts>,
            $($(#[$field_attribute])* pub(super) $field: $kind,)*
        }

        impl $name {
            /// The letters that are meant.
            pub(super) fn filter(&self) -> LetterFilter {
                LetterFilter {
                    event_type: self.event_type.as_ref().map(|line| line.0.clone()),
                    aggregate_type: self.aggregate_type.as_ref().map(|line| line.0.clone()),
                    aggregate_id: self.aggregate_id.as_ref().map(|line| line.0.clone()),
                    tenant_id: self.tenant_id.as_ref().map(|line| line.0.clone()),
                    died_from: self.died_from.map(|time| time.0),
                    died_to: self.died_to.map(|time| time.0),
                    error: self.error.as_ref().map(|part| part.0.clone()),
                    attempts_least: self.attempts_least.map(|count| count.0),
                    attempts_most: self.attempts_most.map(|count| count.0),
                }
            }
        }
    };
}

filtered! {
    /// Which letters. What is not known is refused: a misspelt filter would mean all letters.
    #[derive(Debug, Deserialize, IntoParams)]
    #[serde(deny_unknown_fields)]
    #[into_params(parameter_in = Query)]
    struct List by param {
        /// Which of them come first.
        #[serde(default)]
        #[param(inline)]
        order: Order,
        /// Items of a page.
        #[param(inline)]
        limit: Option<Limit>,
        /// What the page before gave as `next`.
        #[param(inline)]
        after: Option<After>,
    }
}

filtered! {
    /// Which letters: those of which all of this is true.
    #[derive(Debug, Deserialize, ToSchema)]
    #[serde(deny_unknown_fields)]
    struct Filter by schema {}
}
