//! Every route there is, and the document that describes them.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Uri};
use axum::response::IntoResponse;
use axum::routing::any;
use sendoff_engine::OrderKeys;
use sendoff_engine::store::PauseStore;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::desk::Desk;
use crate::letters::LetterDesk;
use crate::problem::{Kind, Problem};
use crate::{document, keys, letters, parked, pauses, publishers};

/// Where the routes are.
pub(crate) const BASE: &str = "/api/outbox";

/// What is served.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    /// A journal, for its publishers.
    pub(crate) journal: Option<Arc<dyn Desk>>,
    /// An outbox, for its dead letters.
    pub(crate) outbox: Option<LetterDesk>,
    /// An outbox, for what is paused of its delivery.
    pub(crate) pauses: Option<Arc<dyn PauseStore>>,
    /// The keys of an outbox's events.
    pub(crate) keys: Option<OrderKeys>,
}

/// The document itself, for whoever asks for it.
type Document = Arc<str>;

/// The routes of publishers. What is served is described by what its handler says, and by nothing else.
///
/// `lag` is a route, so the state of a publisher of this name is not at `/publishers/lag` but in what
/// that lists, and at `/publishers?publisher=lag`; everything else of it is where others have it.
fn of_publishers() -> OpenApiRouter<Arc<dyn Desk>> {
    OpenApiRouter::new()
        .routes(routes!(publishers::list))
        .routes(routes!(publishers::lag))
        .routes(routes!(publishers::status))
        .routes(routes!(publishers::pause))
        .routes(routes!(publishers::resume))
        .routes(routes!(publishers::reset))
        .routes(routes!(publishers::rewind))
        .routes(routes!(parked::list))
        .routes(routes!(parked::retry))
        .routes(routes!(parked::discard))
}

/// The routes of dead letters.
fn of_letters() -> OpenApiRouter<LetterDesk> {
    OpenApiRouter::new()
        .routes(routes!(letters::list))
        .routes(routes!(letters::show))
        .routes(routes!(letters::requeue))
        .routes(routes!(letters::discard))
        .routes(routes!(letters::requeue_all))
        .routes(routes!(letters::discard_all))
        .routes(routes!(letters::audit))
}

/// The routes of what is paused.
fn of_pauses() -> OpenApiRouter<Arc<dyn PauseStore>> {
    OpenApiRouter::new()
        .routes(routes!(pauses::list, pauses::pause))
        .routes(routes!(pauses::resume))
}

/// The routes of keys.
fn of_keys() -> OpenApiRouter<OrderKeys> {
    OpenApiRouter::new()
        .routes(routes!(keys::list))
        .routes(routes!(keys::show))
        .routes(routes!(keys::resume))
}

/// The routes of what is served, and of the document about them.
fn routes(parts: &Parts, document: Document) -> OpenApiRouter {
    let mut routes: OpenApiRouter =
        OpenApiRouter::new().routes(routes!(openapi)).with_state(document);
    if let Some(desk) = &parts.journal {
        routes = routes.merge(of_publishers().with_state(Arc::clone(desk)));
    }
    if let Some(desk) = &parts.outbox {
        routes = routes.merge(of_letters().with_state(desk.clone()));
    }
    if let Some(store) = &parts.pauses {
        routes = routes.merge(of_pauses().with_state(Arc::clone(store)));
    }
    if let Some(keys) = &parts.keys {
        routes = routes.merge(of_keys().with_state(keys.clone()));
    }
    OpenApiRouter::with_openapi(document::frame()).nest(BASE, routes)
}

/// The routes, and nobody at the gate yet. Whatever else is asked for under their place is theirs to
/// refuse, as routes and not as a fallback: an application may have one of its own.
pub(crate) fn router(parts: &Parts) -> Router {
    let described = document::complete(routes(parts, Arc::default()).into_openapi());
    let document = described.to_json().expect("its keys are text");
    let mut router =
        Router::from(routes(parts, document.into())).method_not_allowed_fallback(wrong_method);
    for rest in ["", "/", "/{*rest}"] {
        router = router.route(&format!("{BASE}{rest}"), any(no_route));
    }
    router
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "document", tag = "document",
    responses((
        status = 200,
        description = "OpenAPI 3.1.",
        body = Object,
        content_type = "application/json",
    )),
)]
async fn openapi(State(document): State<Document>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], document.to_string())
}

async fn no_route(uri: Uri) -> Problem {
    let path = uri.path();
    Problem::new(Kind::NoSuchRoute, format!("{path} is not in {BASE}/openapi.json"))
}

async fn wrong_method(method: Method) -> Problem {
    Problem::new(Kind::WrongMethod, format!("{method} is not in the header Allow"))
}
