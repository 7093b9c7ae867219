//! Publishers: seen, paused, resumed, reset, put back.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use sendoff_core::Timestamp;
use sendoff_core::journal::Position;
use sendoff_core::journal::publish::{CursorStatus, PairId};
use sendoff_engine::journal::publish::{To, Which};
use serde::Deserialize;
use tracing::info;

use crate::answer::{Changed, Lag, Pairs, following};
use crate::desk::{Desk, Operation};
use crate::page::{Last, PAGE_MAX, limit};
use crate::problem::{Kind, Problem};

pub(crate) type Office = State<Arc<dyn Desk>>;
pub(crate) type Name = Result<Path<String>, PathRejection>;
pub(crate) type Asked<Q> = Result<Query<Q>, QueryRejection>;

/// Which pairs of all. What is not known is refused: a misspelt topic would mean all topics.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    topic: Option<String>,
    publisher: Option<String>,
    limit: Option<usize>,
    after: Option<String>,
}

/// Which pairs of a publisher, page by page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pages {
    pub(crate) topic: Option<String>,
    pub(crate) limit: Option<usize>,
    pub(crate) after: Option<String>,
}

/// Which pairs of a publisher.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scope {
    topic: Option<String>,
}

/// Where a cursor is to be.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    Position(Position),
    Time(String),
}

pub(crate) async fn list(State(desk): Office, asked: Asked<List>) -> Result<Json<Pairs>, Problem> {
    let Query(asked) = asked?;
    let (limit, after) = (limit(asked.limit)?, Last::read(asked.after.as_deref())?);
    let which = which(asked.topic, asked.publisher)?;
    let (cursors, head) = desk.standing(&which).await?;
    Ok(Json(Pairs::new(following(cursors, after.as_ref()), head, limit)))
}

pub(crate) async fn lag(State(desk): Office, asked: Asked<List>) -> Result<Json<Lag>, Problem> {
    let Query(asked) = asked?;
    let (limit, after) = (limit(asked.limit)?, Last::read(asked.after.as_deref())?);
    let which = which(asked.topic, asked.publisher)?;
    let (cursors, head) = desk.standing(&which).await?;
    Ok(Json(Lag::new(cursors, after.as_ref(), head, limit)))
}

pub(crate) async fn status(
    State(desk): Office,
    name: Name,
    asked: Asked<Pages>,
) -> Result<Json<Pairs>, Problem> {
    let (Path(name), Query(asked)) = (name?, asked?);
    let (limit, after) = (limit(asked.limit)?, Last::read(asked.after.as_deref())?);
    let which = which(asked.topic, Some(name))?;
    let (cursors, head) = desk.standing(&which).await?;
    if cursors.is_empty() {
        return Err(unknown(&*desk, &which).await);
    }
    Ok(Json(Pairs::new(following(cursors, after.as_ref()), head, limit)))
}

pub(crate) async fn pause(
    State(desk): Office,
    name: Name,
    asked: Asked<Scope>,
) -> Result<Json<Changed>, Problem> {
    change(&*desk, name, asked, Operation::Pause).await
}

pub(crate) async fn resume(
    State(desk): Office,
    name: Name,
    asked: Asked<Scope>,
) -> Result<Json<Changed>, Problem> {
    change(&*desk, name, asked, Operation::Resume).await
}

pub(crate) async fn reset(
    State(desk): Office,
    name: Name,
    asked: Asked<Scope>,
) -> Result<Json<Changed>, Problem> {
    change(&*desk, name, asked, Operation::Reset).await
}

pub(crate) async fn rewind(
    State(desk): Office,
    name: Name,
    asked: Asked<Scope>,
    target: Result<Json<Target>, JsonRejection>,
) -> Result<Json<Changed>, Problem> {
    let Json(target) = target?;
    let to = match target {
        Target::Position(position) => To::Position(position),
        Target::Time(text) => {
            let time: jiff::Timestamp = text.parse().map_err(|_| {
                Problem::bad("time is not as in RFC 3339, like 2026-01-31T12:00:00Z")
            })?;
            To::Time(Timestamp::from_micros(time.as_microsecond()))
        }
    };
    change(&*desk, name, asked, Operation::Rewind(to)).await
}

async fn change(
    desk: &dyn Desk,
    name: Name,
    asked: Asked<Scope>,
    operation: Operation,
) -> Result<Json<Changed>, Problem> {
    let (Path(name), Query(asked)) = (name?, asked?);
    let which = which(asked.topic, Some(name))?;
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
pub(crate) fn which(topic: Option<String>, publisher: Option<String>) -> Result<Which, Problem> {
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
