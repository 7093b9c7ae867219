//! Dead letters: seen, requeued, discarded; and what operators did.

mod answer;
mod asked;

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, State};
use sendoff_core::{EventId, LetterAct, LetterFate, LetterFilter, LetterPosition, Timestamp};
use sendoff_engine::{DeadLetters, LettersError, ShownEvent, SweepOptions};
use tokio::time::sleep;

use self::answer::{AuditEntries, DeadLetterPage, EventDetail, SweptLetters, TreatedLetter};
pub(crate) use self::asked::Id;
use self::asked::{AuditPages, Author, Identified, List, Shown, Sweep};
use crate::document::{NoSuchEvent, NotTreated};
use crate::page::{After, limit};
use crate::problem::{Answer, Kind, Problem, note};
use crate::publishers::{Asked, Told};

/// The dead letters behind the routes, and for how long a request may work on many of them.
#[derive(Clone)]
pub(crate) struct LetterDesk {
    pub(crate) letters: DeadLetters,
    pub(crate) patience: Duration,
}

type Office = State<LetterDesk>;
type Which = Result<Path<Identified>, PathRejection>;

/// Dead letters: events that no attempt is left for.
#[utoipa::path(
    get, path = "/events", operation_id = "listDeadLetters", tag = "letters", params(List),
    responses((status = 200, description = "A page of them, in the order in which they died.", body = DeadLetterPage)),
)]
pub(crate) async fn list(desk: Office, asked: Asked<List>) -> Answer<DeadLetterPage> {
    let Query(asked) = asked?;
    let (limit, order, filter) = (limit(asked.limit)?, asked.order.into(), asked.filter());
    let after: Option<(i64, i64)> = After::read(asked.after)?;
    let after = after.map(|(micros, seq)| {
        let died_at = Timestamp::from_micros(micros);
        LetterPosition { died_at, seq }
    });
    let page = desk.letters.list(&filter, order, after, limit).await?;
    Ok(Json(page.into()))
}

/// One event, dead or not, and what operators did to it.
#[utoipa::path(
    get, path = "/events/{id}", operation_id = "event", tag = "letters", params(Identified, Shown),
    responses(
        (status = 200, description = "The event as it stands.", body = EventDetail),
        NoSuchEvent,
    ),
)]
pub(crate) async fn show(desk: Office, which: Which, asked: Asked<Shown>) -> Answer<EventDetail> {
    let (Path(which), Query(asked)) = (which?, asked?);
    match desk.letters.show(which.id.0, asked.wanted()).await? {
        Some(ShownEvent { record: Some(record), audit }) => {
            Ok(Json(EventDetail::new(record, audit)))
        }
        Some(ShownEvent { record: None, .. }) => Err(Problem::new(
            Kind::NoSuchEvent,
            "it is not there any more; what operators did to it is at /audit?event_id=…",
        )),
        None => Err(unknown(which.id.0)),
    }
}

/// A dead letter is tried again, as if it had never been.
#[utoipa::path(
    post, path = "/events/{id}/requeue", operation_id = "requeue", tag = "letters",
    params(Identified), request_body = Author,
    responses(
        (status = 200, description = "It is NEW, and due now.", body = TreatedLetter), NoSuchEvent, NotTreated,
    ),
)]
pub(crate) async fn requeue(desk: Office, which: Which, by: Told<Author>) -> Answer<TreatedLetter> {
    treat(&desk, which, by, LetterAct::Requeue).await
}

/// A dead letter is deleted, and will not be delivered.
#[utoipa::path(
    post, path = "/events/{id}/discard", operation_id = "discard", tag = "letters",
    params(Identified), request_body = Author,
    responses(
        (status = 200, description = "It is gone; only the audit remembers it.", body = TreatedLetter), NoSuchEvent, NotTreated,
    ),
)]
pub(crate) async fn discard(desk: Office, which: Which, by: Told<Author>) -> Answer<TreatedLetter> {
    treat(&desk, which, by, LetterAct::Discard).await
}

/// All dead letters of a filter are tried again, as many as there is time for.
///
/// Only letters that died before it began are touched, so that it ends also while handlers still fail. Where
/// `finished` is false, ask again with what it says as `began`.
#[utoipa::path(
    post, path = "/events/requeue", operation_id = "requeueAll", tag = "letters",
    request_body = Sweep,
    responses((status = 200, description = "So many were found, and requeued.", body = SweptLetters)),
)]
pub(crate) async fn requeue_all(desk: Office, told: Told<Sweep>) -> Answer<SweptLetters> {
    sweep(&desk, told, LetterAct::Requeue).await
}

/// All dead letters of a filter are deleted, as many as there is time for.
///
/// Only letters that died before it began are touched. Where `finished` is false, ask again with what it
/// says as `began`.
#[utoipa::path(
    post, path = "/events/discard", operation_id = "discardAll", tag = "letters",
    request_body = Sweep,
    responses((status = 200, description = "So many were found, and discarded.", body = SweptLetters)),
)]
pub(crate) async fn discard_all(desk: Office, told: Told<Sweep>) -> Answer<SweptLetters> {
    sweep(&desk, told, LetterAct::Discard).await
}

/// What operators did, the latest first.
#[utoipa::path(
    get, path = "/audit", operation_id = "audit", tag = "letters", params(AuditPages),
    responses((status = 200, description = "A page of it.", body = AuditEntries)),
)]
pub(crate) async fn audit(desk: Office, asked: Asked<AuditPages>) -> Answer<AuditEntries> {
    let Query(asked) = asked?;
    let (limit, before) = (limit(asked.limit)?, After::read(asked.after)?);
    let event = asked.event_id.map(|id| id.0);
    Ok(Json(desk.letters.audit(event, before, limit).await?.into()))
}

async fn treat(
    desk: &LetterDesk,
    which: Which,
    by: Told<Author>,
    act: LetterAct,
) -> Answer<TreatedLetter> {
    let (Path(which), Json(author)) = (which?, by?);
    let (id, note) = (which.id.0, note(author.actor.0, author.reason.0)?);
    let told = match act {
        LetterAct::Requeue => desk.letters.requeue(&[id], &note).await?,
        LetterAct::Discard => desk.letters.discard(&[id], &note).await?,
    };
    match told.first().map_or(LetterFate::NotFound, |(_, fate)| *fate) {
        LetterFate::Done => Ok(Json(TreatedLetter::new(id, act))),
        LetterFate::NotFound => Err(unknown(id)),
        LetterFate::NotDead { status } => {
            let detail = format!("it is {}, so there is nothing to be done", status.name());
            Err(Problem::new(Kind::NotDead, detail))
        }
        LetterFate::DiedAgain => Err(Problem::new(Kind::NotDead, "it died again meanwhile")),
        LetterFate::Busy => {
            let detail = "somebody has its row locked, and it is as it was; try again";
            Err(Problem::new(Kind::Locked, detail))
        }
    }
}

async fn sweep(desk: &LetterDesk, told: Told<Sweep>, act: LetterAct) -> Answer<SweptLetters> {
    let Json(told) = told?;
    let filter: LetterFilter = told.filter.as_ref().map(asked::Filter::filter).unwrap_or_default();
    if filter.is_everything() != told.all {
        return Err(Problem::bad("say either what is true of the letters, or all: true"));
    }
    let note = note(told.actor.0, told.reason.0)?;
    let options = SweepOptions {
        limit: told.limit.map(|limit| limit.0),
        began: told.began.map(|time| time.0),
        ..SweepOptions::default()
    };
    let sweep = desk.letters.sweep(act, filter, note, options)?;
    let found = sweep.dry_run().await?;
    if told.dry_run {
        return Ok(Json(SweptLetters::foretold(found)));
    }
    // Between two transactions, while there is still time to say so.
    match sweep.run_until(sleep(desk.patience)).await {
        Ok(swept) => Ok(Json(SweptLetters::new(found, swept))),
        Err(error) if error.so_far.done > 0 => {
            let problem = Problem::from(error.source);
            Err(problem.after(format!("{} letters were changed before", error.so_far.done)))
        }
        Err(error) => Err(error.source.into()),
    }
}

fn unknown(id: EventId) -> Problem {
    Problem::new(Kind::NoSuchEvent, format!("no event has the id {id}; dead ones are at /events"))
}

impl From<LettersError> for Problem {
    fn from(error: LettersError) -> Self {
        match error {
            LettersError::Store(error) => error.into(),
            refused => Self::bad(refused.to_string()),
        }
    }
}
