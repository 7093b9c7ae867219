//! What went wrong, as RFC 9457 has it.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sendoff_core::report;
use sendoff_engine::store::StoreError;
use serde::Serialize;
use tracing::warn;

use crate::access::Refusal;

/// What programs tell problems apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    NoToken,
    WrongToken,
    NotLocal,
    BadRequest,
    NoSuchRoute,
    NoSuchPublisher,
    NotParked,
    WrongMethod,
    HasFailed,
    TooLarge,
    NotJson,
    Busy,
    Late,
    Unavailable,
    Refused,
}

impl Kind {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 15] = [
        Self::NoToken,
        Self::WrongToken,
        Self::NotLocal,
        Self::BadRequest,
        Self::NoSuchRoute,
        Self::NoSuchPublisher,
        Self::NotParked,
        Self::WrongMethod,
        Self::HasFailed,
        Self::TooLarge,
        Self::NotJson,
        Self::Busy,
        Self::Late,
        Self::Unavailable,
        Self::Refused,
    ];

    /// Its status, the end of its type, and its title.
    pub(crate) const fn parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::NoToken => (StatusCode::UNAUTHORIZED, "no-token", "a token is needed"),
            Self::WrongToken => (StatusCode::UNAUTHORIZED, "wrong-token", "the token is wrong"),
            Self::NotLocal => (StatusCode::FORBIDDEN, "not-local", "not from this machine"),
            Self::BadRequest => (StatusCode::BAD_REQUEST, "bad-request", "it makes no sense"),
            Self::NoSuchRoute => (StatusCode::NOT_FOUND, "no-such-route", "there is no such route"),
            Self::NoSuchPublisher => {
                (StatusCode::NOT_FOUND, "no-such-publisher", "there is no such publisher")
            }
            Self::NotParked => (StatusCode::NOT_FOUND, "not-parked", "nothing is parked there"),
            Self::WrongMethod => {
                (StatusCode::METHOD_NOT_ALLOWED, "wrong-method", "not with this method")
            }
            Self::HasFailed => (StatusCode::CONFLICT, "has-failed", "the publisher has failed"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too-large", "the body is too large"),
            Self::NotJson => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", "the body is no JSON")
            }
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy", "too many requests at once"),
            Self::Late => (StatusCode::SERVICE_UNAVAILABLE, "late", "it took too long"),
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the database is unavailable")
            }
            Self::Refused => (StatusCode::INTERNAL_SERVER_ERROR, "refused", "the database refused"),
        }
    }
}

/// An answer that is none.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    detail: String,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(Kind::BadRequest, detail)
    }
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, slug, title) = self.kind.parts();
        let body = Body {
            r#type: format!("urn:sendoff:problem:{slug}"),
            title,
            status: status.as_u16(),
            detail: &self.detail,
        };
        let mut response = (status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let more = match self.kind {
            Kind::NoToken => Some((WWW_AUTHENTICATE, "Bearer realm=\"sendoff\"")),
            Kind::WrongToken => {
                Some((WWW_AUTHENTICATE, "Bearer realm=\"sendoff\", error=\"invalid_token\""))
            }
            Kind::Busy | Kind::Late | Kind::Unavailable => Some((RETRY_AFTER, "1")),
            _ => None,
        };
        if let Some((name, value)) = more {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoToken => {
                Self::new(Kind::NoToken, "send the header `Authorization: Bearer <token>`, once")
            }
            Refusal::WrongToken => {
                Self::new(Kind::WrongToken, "the token is not the one this service was given")
            }
            Refusal::NotLocal(why) => Self::new(Kind::NotLocal, why),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let kind = match error {
            StoreError::Unavailable(_) | StoreError::Closed => Kind::Unavailable,
            StoreError::Timeout => Kind::Late,
            StoreError::Misconfigured { reason } => return Self::bad(reason),
            _ => Kind::Refused,
        };
        let detail = report(&error);
        warn!(error = detail, "a request could not be answered");
        Self::new(kind, detail)
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::bad(rejection.body_text())
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::bad(rejection.body_text())
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        let kind = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Kind::TooLarge,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Kind::NotJson,
            _ => Kind::BadRequest,
        };
        Self::new(kind, rejection.body_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_database_does_has_a_status_of_its_own() {
        let kind = |error: StoreError| Problem::from(error).kind;
        assert_eq!(kind(StoreError::Unavailable("gone".into())), Kind::Unavailable);
        assert_eq!(kind(StoreError::Closed), Kind::Unavailable);
        assert_eq!(kind(StoreError::Timeout), Kind::Late);
        assert_eq!(kind(StoreError::Refused("no such table".into())), Kind::Refused);
        assert_eq!(kind(StoreError::NewerSchema { found: 9, known: 1 }), Kind::Refused);
    }
}
