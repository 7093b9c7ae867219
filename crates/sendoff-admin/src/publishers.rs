//! Publishers: seen, paused, resumed, reset, put back.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use sendoff_core::Timestamp;
use sendoff_core::journal::publish::{CursorStatus, PairId};
use sendoff_engine::journal::publish::{To, Which};
use serde::Deserialize;
use tracing::info;
use utoipa::{IntoParams, ToSchema};

use crate::answer::{Changed, Lag, Pairs, following};
use crate::desk::{Desk, Operation};
use crate::document::{HasFailed, NoSuchPublisher};
use crate::page::{After, Last, Limit, PAGE_MAX, limit};
use crate::parameter::{At, Name, Named};
use crate::problem::{Answer, Kind, Problem};

pub(crate) type Office = State<Arc<dyn Desk>>;
pub(crate) type Whose = Result<Path<Named>, PathRejection>;
pub(crate) type Asked<Q> = Result<Query<Q>, QueryRejection>;
pub(crate) type Told<T> = Result<Json<T>, JsonRejection>;

/// What is answered to whoever changed something.
const DONE: &str = "It was changed, and this is how things are since.";

/// Which pairs of all. What is not known is refused: a misspelt topic would mean all topics.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct List {
    /// Only the pair of this topic.
    #[param(inline)]
    topic: Option<Name>,
    /// Only the pairs of this publisher.
    #[param(inline)]
    publisher: Option<Name>,
    /// Items of a page.
    #[param(inline)]
    limit: Option<Limit>,
    /// What the page before gave as `next`.
    #[param(inline)]
    after: Option<After>,
}

/// Which pairs of a publisher, page by page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Pages {
    /// Only the pair of this topic.
    #[param(inline)]
    pub(crate) topic: Option<Name>,
    /// Items of a page.
    #[param(inline)]
    pub(crate) limit: Option<Limit>,
    /// What the page before gave as `next`.
    #[param(inline)]
    pub(crate) after: Option<After>,
}

/// Which pairs of a publisher.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Scope {
    /// Only the pair of this topic.
    #[param(inline)]
    topic: Option<Name>,
}

/// Where the cursors are to be: after a position, so that the next fact is the one after it; or before
/// whatever was recorded at a time or later, give or take a second too early.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    // Without a description: utoipa would demand an object that is an integer.
    Position(#[schema(inline)] At),
    /// As in RFC 3339.
    #[schema(format = DateTime)]
    Time(String),
}

/// All pairs of topic and publisher, in the order of their names.
///
/// This is also where the state of a publisher is found that is named `lag`.
#[utoipa::path(
    get, path = "/publishers", operation_id = "listPublishers", tag = "publishers", params(List),
    responses((status = 200, description = "A page of pairs.", body = Pairs)),
)]
pub(crate) async fn list(desk: Office, asked: Asked<List>) -> Answer<Pairs> {
    let Query(asked) = asked?;
    let (limit, after) = (limit(asked.limit)?, Last::read(asked.after)?);
    let which = which(asked.topic, asked.publisher)?;
    let (cursors, head) = desk.standing(&which).await?;
    Ok(Json(Pairs::new(following(cursors, after.as_ref()), head, limit)))
}

/// By how many positions each pair lags: from its own to the last one that was taken.
///
/// A publisher of this name is found by `/publishers?publisher=lag`.
#[utoipa::path(
    get, path = "/publishers/lag", operation_id = "lag", tag = "publishers", params(List),
    responses((status = 200, description = "A page of pairs, and the longest lag of all that were asked for.", body = Lag)),
)]
pub(crate) async fn lag(desk: Office, asked: Asked<List>) -> Answer<Lag> {
    let Query(asked) = asked?;
    let (limit, after) = (limit(asked.limit)?, Last::read(asked.after)?);
    let which = which(asked.topic, asked.publisher)?;
    let (cursors, head) = desk.standing(&which).await?;
    Ok(Json(Lag::new(cursors, after.as_ref(), head, limit)))
}

/// Where a publisher is, in each of its topics.
#[utoipa::path(
    get, path = "/publishers/{name}", operation_id = "publisher", tag = "publishers",
    params(Named, Pages),
    responses((status = 200, description = "A page of its pairs.", body = Pairs), NoSuchPublisher),
)]
pub(crate) async fn status(desk: Office, whose: Whose, asked: Asked<Pages>) -> Answer<Pairs> {
    let (Path(whose), Query(asked)) = (whose?, asked?);
    let (limit, after) = (limit(asked.limit)?, Last::read(asked.after)?);
    let which = which(asked.topic, Some(whose.name))?;
    let (cursors, head) = desk.standing(&which).await?;
    if cursors.is_empty() {
        return Err(unknown(&**desk, &which).await);
    }
    Ok(Json(Pairs::new(following(cursors, after.as_ref()), head, limit)))
}

/// Stops a publisher after the batch it is at.
///
/// Nodes of other processes find it at their next round, every 500 ms unless they are told otherwise.
#[utoipa::path(
    post, path = "/publishers/{name}/pause", operation_id = "pause", tag = "publishers",
    params(Named, Scope), responses((status = 200, description = DONE, body = Changed), NoSuchPublisher),
)]
pub(crate) async fn pause(desk: Office, whose: Whose, asked: Asked<Scope>) -> Answer<Changed> {
    change(&**desk, whose, asked, Operation::Pause).await
}

/// Lets a publisher go on that was paused, where it was.
#[utoipa::path(
    post, path = "/publishers/{name}/resume", operation_id = "resume", tag = "publishers",
    params(Named, Scope),
    responses((status = 200, description = DONE, body = Changed), NoSuchPublisher, HasFailed),
)]
pub(crate) async fn resume(desk: Office, whose: Whose, asked: Asked<Scope>) -> Answer<Changed> {
    change(&**desk, whose, asked, Operation::Resume).await
}

/// Lets a publisher go on that was paused or has failed, and forgets its errors.
#[utoipa::path(
    post, path = "/publishers/{name}/reset", operation_id = "reset", tag = "publishers",
    params(Named, Scope), responses((status = 200, description = DONE, body = Changed), NoSuchPublisher),
)]
pub(crate) async fn reset(desk: Office, whose: Whose, asked: Asked<Scope>) -> Answer<Changed> {
    change(&**desk, whose, asked, Operation::Reset).await
}

/// Puts a publisher's cursors somewhere else, back or ahead.
///
/// What lies between is published again, or not at all. No cursor can be put ahead of the journal's end.
#[utoipa::path(
    post, path = "/publishers/{name}/rewind", operation_id = "rewind", tag = "publishers",
    params(Named, Scope), request_body = Target,
    responses((status = 200, description = DONE, body = Changed), NoSuchPublisher),
)]
pub(crate) async fn rewind(
    desk: Office,
    whose: Whose,
    asked: Asked<Scope>,
    target: Told<Target>,
) -> Answer<Changed> {
    let Json(target) = target?;
    let to = match target {
        Target::Position(position) => To::Position(position.0),
        Target::Time(text) => {
            let time: jiff::Timestamp = text.parse().map_err(|_| {
                Problem::bad("time is not as in RFC 3339, like 2026-01-31T12:00:00Z")
            })?;
            To::Time(Timestamp::from_micros(time.as_microsecond()))
        }
    };
    change(&**desk, whose, asked, Operation::Rewind(to)).await
}

async fn change(
    desk: &dyn Desk,
    whose: Whose,
    asked: Asked<Scope>,
    operation: Operation,
) -> Answer<Changed> {
    let (Path(whose), Query(asked)) = (whose?, asked?);
    let which = which(asked.topic, Some(whose.name))?;
    let changed = desk.operate(&which, operation).await?;
    if changed == 0 {
        return Err(unknown(desk, &which).await);
    }
    let (cursors, head) = desk.standing(&which).await?;
    let failed = |status| status == CursorStatus::Failed;
    if matches!(operation, Operation::Resume) && cursors.iter().all(|c| failed(c.status)) {
        return Err(Problem::new(
            Kind::HasFailed,
            "resume lets go on what was paused; what has failed is reset, when its cause is mended",
        ));
    }
    info!(
        publisher = which.publisher,
        topic = which.topic,
        ?operation,
        pairs = changed,
        "an operator changed publishers"
    );
    let now = Pairs::new(following(cursors, None), head, PAGE_MAX);
    Ok(Json(Changed { changed, now }))
}

/// The pairs of these names, if they can be names.
pub(crate) fn which(topic: Option<Name>, publisher: Option<Name>) -> Result<Which, Problem> {
    let (topic, publisher) = (topic.map(|name| name.0), publisher.map(|name| name.0));
    let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "any".into());
    PairId::new(name(&topic), name(&publisher)).map_err(|error| Problem::bad(error.to_string()))?;
    Ok(Which { topic, publisher })
}

/// Why there are no such pairs.
pub(crate) async fn unknown(desk: &dyn Desk, which: &Which) -> Problem {
    let publisher = which.publisher.as_deref().unwrap_or_default();
    let detail = match &which.topic {
        None => format!("no publisher is named {publisher:?}; they are listed by /publishers"),
        Some(topic) => match desk.standing(&Which::publisher(publisher)).await {
            Err(error) => return error.into(),
            Ok((cursors, _)) if cursors.is_empty() => {
                format!("no publisher is named {publisher:?}; they are listed by /publishers")
            }
            Ok(_) => format!("the publisher {publisher:?} has no topic {topic:?}"),
        },
    };
    Problem::new(Kind::NoSuchPublisher, detail)
}
