//! Facts that a publisher has parked.

use axum::Json;
use axum::extract::{Path, Query};
use sendoff_engine::journal::publish::{ChangeParked, ParkedChange, ParkedPage, Which};
use serde::Deserialize;
use tracing::info;
use utoipa::IntoParams;

use crate::answer::{ChangedFacts, ParkedFacts};
use crate::desk::Desk;
use crate::document::{NoSuchPublisher, NotParked};
use crate::page::{Last, limit};
use crate::parameter::{At, Name, Named};
use crate::problem::{Answer, Kind, Problem};
use crate::publishers::{Asked, Office, Pages, Whose, unknown, which};

/// Which facts: one, or all of them by saying so.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Facts {
    /// Only the pair of this topic.
    #[param(inline)]
    topic: Option<Name>,
    /// Only the fact at this position.
    #[param(inline)]
    position: Option<At>,
    /// All of them.
    #[serde(default)]
    #[param(default = false)]
    all: bool,
}

/// Facts that a publisher has parked.
#[utoipa::path(
    get, path = "/publishers/{name}/parked", operation_id = "parked", tag = "parked",
    params(Named, Pages),
    responses(
        (status = 200, description = "A page of them, in the order of pairs and positions.", body = ParkedFacts),
        NoSuchPublisher,
    ),
)]
pub(crate) async fn list(desk: Office, whose: Whose, asked: Asked<Pages>) -> Answer<ParkedFacts> {
    let (Path(whose), Query(asked)) = (whose?, asked?);
    let (limit, after) = (limit(asked.limit)?, Last::read(asked.after)?);
    let which = which(asked.topic, Some(whose.name))?;
    let last = after.map(|last| (last.pair(), last.position()));
    let after = last.as_ref().map(|(pair, position)| (pair, *position));
    let parked = desk.parked(ParkedPage { which: &which, after, limit: limit + 1 }).await?;
    if parked.is_empty() {
        must_be_known(&**desk, &which).await?;
    }
    Ok(Json(ParkedFacts::new(parked, limit)))
}

/// Facts that were parked are tried again now.
///
/// Either `position` or `all=true` must be said.
#[utoipa::path(
    post, path = "/publishers/{name}/parked/retry", operation_id = "retryParked", tag = "parked",
    params(Named, Facts),
    responses((status = 200, description = "So many were meant.", body = ChangedFacts), NotParked),
)]
pub(crate) async fn retry(desk: Office, whose: Whose, asked: Asked<Facts>) -> Answer<ChangedFacts> {
    change(&**desk, whose, asked, ParkedChange::Retry).await
}

/// Facts that were parked are forgotten, and will not be published.
///
/// Either `position` or `all=true` must be said.
#[utoipa::path(
    post, path = "/publishers/{name}/parked/discard", operation_id = "discardParked",
    tag = "parked", params(Named, Facts),
    responses((status = 200, description = "So many were meant.", body = ChangedFacts), NotParked),
)]
pub(crate) async fn discard(
    desk: Office,
    whose: Whose,
    asked: Asked<Facts>,
) -> Answer<ChangedFacts> {
    change(&**desk, whose, asked, ParkedChange::Discard).await
}

async fn change(
    desk: &dyn Desk,
    whose: Whose,
    asked: Asked<Facts>,
    change: ParkedChange,
) -> Answer<ChangedFacts> {
    let (Path(whose), Query(asked)) = (whose?, asked?);
    if asked.position.is_some() == asked.all {
        return Err(Problem::bad("say either position=N or all=true"));
    }
    let which = which(asked.topic, Some(whose.name))?;
    let position = asked.position.map(|at| at.0);
    let changed = desk.change_parked(ChangeParked { which: &which, position, change }).await?;
    if changed == 0 {
        must_be_known(desk, &which).await?;
        if let Some(position) = position {
            let detail = format!("no fact at position {position} is parked");
            return Err(Problem::new(Kind::NotParked, detail));
        }
    }
    info!(
        publisher = which.publisher,
        topic = which.topic,
        ?change,
        facts = changed,
        "an operator changed what is parked"
    );
    Ok(Json(ChangedFacts { changed }))
}

async fn must_be_known(desk: &dyn Desk, which: &Which) -> Result<(), Problem> {
    let (cursors, _) = desk.standing(which).await?;
    if cursors.is_empty() { Err(unknown(desk, which).await) } else { Ok(()) }
}
