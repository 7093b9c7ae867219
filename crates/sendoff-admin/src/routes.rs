//! Every route there is, and the document that describes them.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Uri};
use axum::response::IntoResponse;
use axum::routing::any;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::desk::Desk;
use crate::problem::{Kind, Problem};
use crate::{document, parked, publishers};

/// Where the routes are.
pub(crate) const BASE: &str = "/api/outbox";

/// Made once, when it is first asked for.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let document = document::complete(routes().into_openapi());
    document.to_json().expect("its keys are text")
});

/// The one list of routes: what is served is described by what its handler says, and by nothing else.
///
/// `lag` is a route, so the state of a publisher of this name is not at `/publishers/lag` but in what
/// that lists, and at `/publishers?publisher=lag`; everything else of it is where others have it.
fn routes() -> OpenApiRouter<Arc<dyn Desk>> {
    let routes = OpenApiRouter::new()
        .routes(routes!(openapi))
        .routes(routes!(publishers::list))
        .routes(routes!(publishers::lag))
        .routes(routes!(publishers::status))
        .routes(routes!(publishers::pause))
        .routes(routes!(publishers::resume))
        .routes(routes!(publishers::reset))
        .routes(routes!(publishers::rewind))
        .routes(routes!(parked::list))
        .routes(routes!(parked::retry))
        .routes(routes!(parked::discard));
    OpenApiRouter::with_openapi(document::frame()).nest(BASE, routes)
}

/// The routes, and nobody at the gate yet. Whatever else is asked for under their place is theirs to
/// refuse, as routes and not as a fallback: an application may have one of its own.
pub(crate) fn router(desk: Arc<dyn Desk>) -> Router {
    let mut router = Router::from(routes()).method_not_allowed_fallback(wrong_method);
    for rest in ["", "/", "/{*rest}"] {
        router = router.route(&format!("{BASE}{rest}"), any(no_route));
    }
    router.with_state(desk)
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "document",
    tag = "document",
    responses((
        status = 200,
        description = "OpenAPI 3.1.",
        body = Object,
        content_type = "application/json",
    )),
)]
async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.as_str())
}

async fn no_route(uri: Uri) -> Problem {
    let path = uri.path();
    Problem::new(Kind::NoSuchRoute, format!("{path} is not in {BASE}/openapi.json"))
}

async fn wrong_method(method: Method) -> Problem {
    Problem::new(Kind::WrongMethod, format!("{method} is not in the header Allow"))
}
