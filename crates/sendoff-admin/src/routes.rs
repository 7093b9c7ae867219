//! Every route there is, and the document that describes them.

use std::sync::Arc;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Uri};
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, MethodRouter, any, on};

use crate::desk::Desk;
use crate::problem::{Kind, Problem};
use crate::{parked, publishers};

/// Where the routes are.
pub(crate) const BASE: &str = "/api/outbox";

/// OpenAPI 3.1. Kept by hand; tests compare it with the routes and with what they answer.
const OPENAPI: &str = include_str!("openapi.json");

type Route = (Method, &'static str, MethodRouter<Arc<dyn Desk>>);

/// The one list of routes.
///
/// `lag` is a route, so the state of a publisher of this name is not at `/publishers/lag` but in what
/// that lists, and at `/publishers?publisher=lag`; everything else of it is where others have it.
fn routes() -> [Route; 11] {
    let (get, post) = (MethodFilter::GET, MethodFilter::POST);
    [
        (Method::GET, "/openapi.json", on(get, openapi)),
        (Method::GET, "/publishers", on(get, publishers::list)),
        (Method::GET, "/publishers/lag", on(get, publishers::lag)),
        (Method::GET, "/publishers/{name}", on(get, publishers::status)),
        (Method::POST, "/publishers/{name}/pause", on(post, publishers::pause)),
        (Method::POST, "/publishers/{name}/resume", on(post, publishers::resume)),
        (Method::POST, "/publishers/{name}/reset", on(post, publishers::reset)),
        (Method::POST, "/publishers/{name}/rewind", on(post, publishers::rewind)),
        (Method::GET, "/publishers/{name}/parked", on(get, parked::list)),
        (Method::POST, "/publishers/{name}/parked/retry", on(post, parked::retry)),
        (Method::POST, "/publishers/{name}/parked/discard", on(post, parked::discard)),
    ]
}

/// The routes, and nobody at the gate yet. Whatever else is asked for under their place is theirs to
/// refuse, as routes and not as a fallback: an application may have one of its own.
pub(crate) fn router(desk: Arc<dyn Desk>) -> Router {
    let mut router = Router::new();
    for (_, path, handler) in routes() {
        router = router.route(&format!("{BASE}{path}"), handler);
    }
    router = router.method_not_allowed_fallback(wrong_method);
    for rest in ["", "/", "/{*rest}"] {
        router = router.route(&format!("{BASE}{rest}"), any(no_route));
    }
    router.with_state(desk)
}

async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], OPENAPI)
}

async fn no_route(uri: Uri) -> Problem {
    let path = uri.path();
    Problem::new(Kind::NoSuchRoute, format!("{path} is not in {BASE}/openapi.json"))
}

async fn wrong_method(method: Method) -> Problem {
    Problem::new(Kind::WrongMethod, format!("{method} is not in the header Allow"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn document() -> Value {
        serde_json::from_str(OPENAPI).unwrap()
    }

    #[test]
    fn the_document_has_exactly_the_routes() {
        let served: BTreeSet<_> = routes()
            .into_iter()
            .map(|(method, path, _)| (method.as_str().to_lowercase(), format!("{BASE}{path}")))
            .collect();
        let document = document();
        assert_eq!(document["openapi"], "3.1.1");
        let mut documented = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                if method != "parameters" {
                    documented.insert((method.clone(), path.clone()));
                    assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()));
                }
            }
        }
        assert_eq!(served, documented);
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn the_document_has_every_kind_of_problem() {
        let document = document();
        let types = &document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"];
        let documented: BTreeSet<_> =
            types.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let known: Vec<_> = Kind::ALL
            .iter()
            .map(|kind| format!("urn:sendoff:problem:{}", kind.parts().1))
            .collect();
        assert_eq!(documented, known.iter().map(String::as_str).collect());
    }
}
