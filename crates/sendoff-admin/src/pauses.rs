//! Delivery of an outbox: what is paused, pausing and resuming.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use sendoff_core::{AuditNote, Pause, PauseScope, limits};
use sendoff_engine::store::PauseStore;
use serde::{Deserialize, Serialize};
use tracing::info;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::document::TooManyPauses;
use crate::problem::{Answer, Problem, note};
use crate::publishers::Told;

type Office = State<Arc<dyn PauseStore>>;

/// What is paused, as text.
#[derive(Debug, Deserialize)]
pub(crate) struct ScopeText(String);

impl PartialSchema for ScopeText {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .max_length(Some("handler:".len() + limits::HANDLER_CHARS))
            .pattern(Some(r"^(all|type:[^\x00\r\n]{1,128}|handler:[^\x00\r\n]{1,128})$"))
            .description(Some("`all`, `type:` and an event type, or `handler:` and its name."))
            .into()
    }
}

impl ToSchema for ScopeText {}

/// What to pause or to resume, by whom and why: the audit keeps it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseOrder {
    #[schema(inline)]
    scope: ScopeText,
    /// Who orders it.
    #[schema(min_length = 1, max_length = 255)]
    actor: String,
    /// Why.
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
}

fn checked(order: Told<PauseOrder>) -> Result<(PauseScope, AuditNote), Problem> {
    let Json(PauseOrder { scope, actor, reason }) = order?;
    let scope = scope.0.parse().map_err(|error| Problem::bad(format!("scope: {error}")))?;
    Ok((scope, note(actor, reason)?))
}

/// Something that is paused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PauseInForce {
    /// `all`, `type:` and an event type, or `handler:` and its name.
    scope: String,
    /// Since when.
    #[schema(format = DateTime)]
    since: String,
    /// Who ordered it.
    actor: String,
    /// Why.
    reason: String,
}

impl From<Pause> for PauseInForce {
    fn from(pause: Pause) -> Self {
        let Pause { scope, since, actor, reason } = pause;
        Self { scope: scope.to_string(), since: since.to_string(), actor, reason }
    }
}

/// Everything that is paused: all delivery, then types, then handlers, in the order of names.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PausesInForce {
    pauses: Vec<PauseInForce>,
}

/// What a request changed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PausesChanged {
    /// Whether it did: not where it was so already.
    changed: bool,
    now: PausesInForce,
}

async fn in_force(store: &dyn PauseStore) -> Result<PausesInForce, Problem> {
    let pauses = store.pauses().await?;
    Ok(PausesInForce { pauses: pauses.into_iter().map(PauseInForce::from).collect() })
}

/// What is paused of an outbox, since when, by whom and why.
#[utoipa::path(
    get, path = "/pauses", operation_id = "listPauses", tag = "pauses",
    responses(
        (status = 200, description = "All of it: there is a limit of 100.", body = PausesInForce),
    ),
)]
pub(crate) async fn list(store: Office) -> Answer<PausesInForce> {
    in_force(&**store).await.map(Json)
}

/// Pauses all delivery, one event type or one handler, on every node.
///
/// Each has heard of it within a second. Runs that have begun go on to their end; whatever else waits in the
/// table, and uses up no attempt.
#[utoipa::path(
    post, path = "/pauses", operation_id = "pauseDelivery", tag = "pauses",
    request_body = PauseOrder,
    responses(
        (status = 200, description = "It is paused, and this is what is.", body = PausesChanged),
        TooManyPauses,
    ),
)]
pub(crate) async fn pause(store: Office, order: Told<PauseOrder>) -> Answer<PausesChanged> {
    let (scope, note) = checked(order)?;
    let changed = store.pause(&scope, &note).await?;
    info!(%scope, actor = note.actor(), changed, "an operator paused delivery");
    Ok(Json(PausesChanged { changed, now: in_force(&**store).await? }))
}

/// Lets go what was paused: it is delivered from now on, the oldest first.
#[utoipa::path(
    post, path = "/pauses/resume", operation_id = "resumeDelivery", tag = "pauses",
    request_body = PauseOrder,
    responses(
        (status = 200, description = "It is not paused, and this is what is.", body = PausesChanged),
    ),
)]
pub(crate) async fn resume(store: Office, order: Told<PauseOrder>) -> Answer<PausesChanged> {
    let (scope, note) = checked(order)?;
    let changed = store.resume(&scope, &note).await?;
    info!(%scope, actor = note.actor(), changed, "an operator resumed delivery");
    Ok(Json(PausesChanged { changed, now: in_force(&**store).await? }))
}
