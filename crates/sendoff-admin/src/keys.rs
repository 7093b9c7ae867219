//! Keys of an outbox's events: how they stand, and letting those go on that are parked.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, State};
use sendoff_core::limits;
use sendoff_core::order::{KeyFate, KeyStanding, KeyState};
use sendoff_engine::{KeysError, OrderKeys, ParkedKeys};
use serde::{Deserialize, Serialize};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::document::{KeyNotParked, KeyNotResumed};
use crate::letters::Id;
use crate::page::{After, Limit, limit};
use crate::problem::{Answer, Kind, Problem, note};
use crate::publishers::{Asked, Told};

type Office = State<OrderKeys>;
type Which = Result<Path<Keyed>, PathRejection>;

/// The key of events. Whether it can be one is for the keys to say.
#[derive(Debug, Deserialize)]
pub(crate) struct KeyText(String);

impl PartialSchema for KeyText {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(limits::ORDERING_KEY_CHARS))
            .pattern(Some(r"^[^\x00\r\n]+$"))
            .into()
    }
}

impl ToSchema for KeyText {}

/// The key that a path names.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct Keyed {
    /// The key, percent-encoded.
    #[param(inline)]
    key: KeyText,
}

/// Which keys.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Pages {
    /// How many at most.
    #[param(inline)]
    limit: Option<Limit>,
    /// What the page before gave as its `next`.
    #[param(inline)]
    after: Option<After>,
}

/// Who lets a key go on, and why: the audit keeps it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyOrder {
    /// Only if this dead event parks it, as it was seen before.
    #[schema(inline)]
    event_id: Option<Id>,
    /// Who orders it.
    #[schema(min_length = 1, max_length = 255)]
    actor: String,
    /// Why.
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
}

/// What a key waits for: a person who decides what becomes of a dead event, the end of what somebody has in hand,
/// a time, a node that takes it, or nothing.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Waits {
    Parked,
    Held,
    Waiting,
    InLine,
    Idle,
}

/// How a key stands: what it waits for, and what waits in it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyView {
    key: String,
    #[schema(inline)]
    state: Waits,
    /// How many of its events are owed a delivery, counted up to 1,000.
    events: u64,
    /// Whether that is all of them.
    exact: bool,
    /// The dead event that it is parked behind.
    #[schema(required)]
    parked_by: Option<String>,
    /// Since when: when that event died.
    #[schema(required, format = DateTime)]
    parked_since: Option<String>,
    /// The type of that event, unless its row is gone.
    #[schema(required)]
    dead_event_type: Option<String>,
    /// Attempts that were counted of it.
    #[schema(required, value_type = Option<u64>)]
    dead_attempts: Option<u32>,
    /// Why it is dead.
    #[schema(required)]
    dead_error: Option<String>,
    /// Who holds it, or its first event.
    #[schema(required)]
    held_by: Option<String>,
    /// Until when it is held, or waits.
    #[schema(required, format = DateTime)]
    until: Option<String>,
    /// The first of its events that is owed a delivery.
    #[schema(required)]
    first_event_id: Option<String>,
    #[schema(required)]
    first_event_type: Option<String>,
    #[schema(required, format = DateTime)]
    first_created_at: Option<String>,
    /// How long ago that was.
    #[schema(required)]
    first_age_seconds: Option<u64>,
    /// Attempts that were counted of it.
    #[schema(required, value_type = Option<u64>)]
    first_attempts: Option<u32>,
    /// Why the last of them failed.
    #[schema(required)]
    first_error: Option<String>,
}

impl From<KeyStanding> for KeyView {
    fn from(standing: KeyStanding) -> Self {
        let KeyStanding { key, state, events, first } = standing;
        let (word, held_by, until, parking) = match state {
            KeyState::Parked(parking) => (Waits::Parked, None, None, Some(parking)),
            KeyState::Held { by, until } => (Waits::Held, Some(by), Some(until), None),
            KeyState::Waiting { until } => (Waits::Waiting, None, Some(until), None),
            KeyState::InLine => (Waits::InLine, None, None, None),
            _ => (Waits::Idle, None, None, None),
        };
        let (parked_by, parked_since) =
            parking.as_ref().map(|p| (p.event.to_string(), p.since.to_string())).unzip();
        let letter = parking.and_then(|parking| parking.letter);
        let (dead_event_type, dead_attempts, dead_error) = match letter {
            Some(letter) => (Some(letter.event_type), Some(letter.attempts), letter.last_error),
            None => (None, None, None),
        };
        Self {
            key,
            state: word,
            events: events.counted(),
            exact: events.is_exact(),
            parked_by,
            parked_since,
            dead_event_type,
            dead_attempts,
            dead_error,
            held_by,
            until: until.map(|until| until.to_string()),
            first_event_id: first.as_ref().map(|first| first.id.to_string()),
            first_event_type: first.as_ref().map(|first| first.event_type.clone()),
            first_created_at: first.as_ref().map(|first| first.created_at.to_string()),
            first_age_seconds: first.as_ref().map(|first| first.age.as_secs()),
            first_attempts: first.as_ref().map(|first| first.attempts),
            first_error: first.and_then(|first| first.last_error),
        }
    }
}

/// Parked keys, in the order of their bytes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ParkedKeyPage {
    keys: Vec<KeyView>,
    /// What to ask for as `after` to have the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

impl From<ParkedKeys> for ParkedKeyPage {
    fn from(page: ParkedKeys) -> Self {
        let next = page.next.map(|key| After::written(&key));
        Self { keys: page.keys.into_iter().map(KeyView::from).collect(), next }
    }
}

/// A key that goes on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ResumedKey {
    key: String,
    /// The dead event that parked it, and stays dead.
    event_id: String,
}

/// Keys that are parked behind a dead event.
#[utoipa::path(
    get, path = "/keys", operation_id = "listParkedKeys", tag = "keys", params(Pages),
    responses((status = 200, description = "A page of them, in the order of their bytes.", body = ParkedKeyPage)),
)]
pub(crate) async fn list(keys: Office, asked: Asked<Pages>) -> Answer<ParkedKeyPage> {
    let Query(asked) = asked?;
    let (limit, after) = (limit(asked.limit)?, After::read::<String>(asked.after)?);
    Ok(Json(keys.parked(after.as_deref(), limit).await?.into()))
}

/// How a key stands, also one that is not parked.
#[utoipa::path(
    get, path = "/keys/{key}", operation_id = "key", tag = "keys", params(Keyed),
    responses((status = 200, description = "What it waits for, and why.", body = KeyView)),
)]
pub(crate) async fn show(keys: Office, which: Which) -> Answer<KeyView> {
    let Path(which) = which?;
    Ok(Json(keys.show(&which.key.0).await?.into()))
}

/// A parked key goes on without the dead event that parks it.
///
/// That stays dead. Requeued later, it comes after whatever overtook it; to keep the order, requeue or discard
/// it instead.
#[utoipa::path(
    post, path = "/keys/{key}/resume", operation_id = "resumeKey", tag = "keys", params(Keyed),
    request_body = KeyOrder,
    responses(
        (status = 200, description = "Its other events are delivered from now on.", body = ResumedKey),
        KeyNotParked,
        KeyNotResumed,
    ),
)]
pub(crate) async fn resume(
    keys: Office,
    which: Which,
    order: Told<KeyOrder>,
) -> Answer<ResumedKey> {
    let (Path(which), Json(order)) = (which?, order?);
    let (key, event) = (which.key.0, order.event_id.map(|id| id.0));
    let note = note(order.actor, order.reason)?;
    match keys.resume(&key, event, &note).await? {
        KeyFate::Resumed { event } => Ok(Json(ResumedKey { key, event_id: event.to_string() })),
        KeyFate::NotParked => {
            Err(Problem::new(Kind::NotParked, "the key is not parked; those that are: /keys"))
        }
        KeyFate::ParkedBy { event } => {
            let detail = format!("the dead event {event} parks it, and it is as it was");
            Err(Problem::new(Kind::ParkedByAnother, detail))
        }
        _ => {
            let detail = "somebody has the key locked, and it is as it was; try again";
            Err(Problem::new(Kind::Locked, detail))
        }
    }
}

impl From<KeysError> for Problem {
    fn from(error: KeysError) -> Self {
        match error {
            KeysError::Store(error) => error.into(),
            refused => Self::bad(refused.to_string()),
        }
    }
}
