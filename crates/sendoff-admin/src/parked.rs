//! Facts that a publisher has parked.

use axum::Json;
use axum::extract::{Path, Query, State};
use sendoff_core::journal::Position;
use sendoff_engine::journal::publish::{ChangeParked, ParkedChange, ParkedPage, Which};
use serde::Deserialize;
use tracing::info;

use crate::answer::{ChangedFacts, ParkedFacts};
use crate::desk::Desk;
use crate::page::{Last, limit};
use crate::problem::{Kind, Problem};
use crate::publishers::{Asked, Name, Office, Pages, unknown, which};

/// Which facts: one, or all of them by saying so.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Facts {
    topic: Option<String>,
    position: Option<Position>,
    #[serde(default)]
    all: bool,
}

pub(crate) async fn list(
    State(desk): Office,
    name: Name,
    asked: Asked<Pages>,
) -> Result<Json<ParkedFacts>, Problem> {
    let (Path(name), Query(asked)) = (name?, asked?);
    let (limit, after) = (limit(asked.limit)?, Last::read(asked.after.as_deref())?);
    let which = which(asked.topic, Some(name))?;
    let last = after.map(|last| (last.pair(), last.position()));
    let after = last.as_ref().map(|(pair, position)| (pair, *position));
    let parked = desk.parked(ParkedPage { which: &which, after, limit: limit + 1 }).await?;
    if parked.is_empty() {
        must_be_known(&*desk, &which).await?;
    }
    Ok(Json(ParkedFacts::new(parked, limit)))
}

pub(crate) async fn retry(
    State(desk): Office,
    name: Name,
    asked: Asked<Facts>,
) -> Result<Json<ChangedFacts>, Problem> {
    change(&*desk, name, asked, ParkedChange::Retry).await
}

pub(crate) async fn discard(
    State(desk): Office,
    name: Name,
    asked: Asked<Facts>,
) -> Result<Json<ChangedFacts>, Problem> {
    change(&*desk, name, asked, ParkedChange::Discard).await
}

async fn change(
    desk: &dyn Desk,
    name: Name,
    asked: Asked<Facts>,
    change: ParkedChange,
) -> Result<Json<ChangedFacts>, Problem> {
    let (Path(name), Query(asked)) = (name?, asked?);
    if asked.position.is_some() == asked.all {
        return Err(Problem::bad("say either position=N or all=true"));
    }
    let which = which(asked.topic, Some(name))?;
    let changed = desk
        .change_parked(ChangeParked { which: &which, position: asked.position, change })
        .await?;
    if changed == 0 {
        must_be_known(desk, &which).await?;
        if let Some(position) = asked.position {
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
