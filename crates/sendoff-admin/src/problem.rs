//! What went wrong, as RFC 9457 has it.

use std::fmt;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sendoff_core::{AuditNote, report};
use sendoff_engine::store::StoreError;
use serde::Serialize;
use tracing::warn;
use utoipa::ToSchema;

use crate::access::Refusal;

/// What a route answers.
pub(crate) type Answer<T> = Result<Json<T>, Problem>;

/// What programs tell problems apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) enum Kind {
    #[serde(rename = "urn:sendoff:problem:no-token")]
    NoToken,
    #[serde(rename = "urn:sendoff:problem:wrong-token")]
    WrongToken,
    #[serde(rename = "urn:sendoff:problem:not-local")]
    NotLocal,
    #[serde(rename = "urn:sendoff:problem:bad-request")]
    BadRequest,
    #[serde(rename = "urn:sendoff:problem:no-such-route")]
    NoSuchRoute,
    #[serde(rename = "urn:sendoff:problem:no-such-publisher")]
    NoSuchPublisher,
    #[serde(rename = "urn:sendoff:problem:not-parked")]
    NotParked,
    #[serde(rename = "urn:sendoff:problem:no-such-event")]
    NoSuchEvent,
    #[serde(rename = "urn:sendoff:problem:not-dead")]
    NotDead,
    #[serde(rename = "urn:sendoff:problem:locked")]
    Locked,
    #[serde(rename = "urn:sendoff:problem:parked-by-another")]
    ParkedByAnother,
    #[serde(rename = "urn:sendoff:problem:wrong-method")]
    WrongMethod,
    #[serde(rename = "urn:sendoff:problem:has-failed")]
    HasFailed,
    #[serde(rename = "urn:sendoff:problem:too-many-pauses")]
    TooManyPauses,
    #[serde(rename = "urn:sendoff:problem:too-large")]
    TooLarge,
    #[serde(rename = "urn:sendoff:problem:not-json")]
    NotJson,
    #[serde(rename = "urn:sendoff:problem:busy")]
    Busy,
    #[serde(rename = "urn:sendoff:problem:late")]
    Late,
    #[serde(rename = "urn:sendoff:problem:unavailable")]
    Unavailable,
    #[serde(rename = "urn:sendoff:problem:refused")]
    Refused,
}

impl Kind {
    /// Its status and its title.
    pub(crate) const fn parts(self) -> (StatusCode, &'static str) {
        match self {
            Self::NoToken => (StatusCode::UNAUTHORIZED, "a token is needed"),
            Self::WrongToken => (StatusCode::UNAUTHORIZED, "the token is wrong"),
            Self::NotLocal => (StatusCode::FORBIDDEN, "not from this machine"),
            Self::BadRequest => (StatusCode::BAD_REQUEST, "it makes no sense"),
            Self::NoSuchRoute => (StatusCode::NOT_FOUND, "there is no such route"),
            Self::NoSuchPublisher => (StatusCode::NOT_FOUND, "there is no such publisher"),
            Self::NotParked => (StatusCode::NOT_FOUND, "nothing is parked there"),
            Self::NoSuchEvent => (StatusCode::NOT_FOUND, "there is no such event"),
            Self::NotDead => (StatusCode::CONFLICT, "the event is not dead"),
            Self::Locked => (StatusCode::CONFLICT, "somebody has it locked"),
            Self::ParkedByAnother => (StatusCode::CONFLICT, "another event parks the key"),
            Self::WrongMethod => (StatusCode::METHOD_NOT_ALLOWED, "not with this method"),
            Self::HasFailed => (StatusCode::CONFLICT, "the publisher has failed"),
            Self::TooManyPauses => (StatusCode::CONFLICT, "too much is paused by name"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"),
            Self::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is no JSON"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many requests at once"),
            Self::Late => (StatusCode::SERVICE_UNAVAILABLE, "it took too long"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "the database is unavailable"),
            Self::Refused => (StatusCode::INTERNAL_SERVER_ERROR, "the database refused"),
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

    /// The same, with what was done before it went wrong.
    pub(crate) fn after(mut self, done: impl fmt::Display) -> Self {
        self.detail = format!("{done}; then: {}", self.detail);
        self
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(Kind::BadRequest, detail)
    }
}

/// What went wrong (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Body {
    #[schema(inline)]
    r#type: Kind,
    /// The same for every problem of this type.
    title: &'static str,
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// The cause, and what to do about it.
    detail: String,
}

/// Who acts, and why, if the audit can keep it.
pub(crate) fn note(actor: String, reason: String) -> Result<AuditNote, Problem> {
    AuditNote::new(actor, reason).map_err(|invalid| Problem::bad(invalid.to_string()))
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, title) = self.kind.parts();
        let body = Body { r#type: self.kind, title, status: status.as_u16(), detail: self.detail };
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
            StoreError::Unavailable(_) | StoreError::Busy(_) | StoreError::Closed => {
                Kind::Unavailable
            }
            StoreError::Timeout => Kind::Late,
            StoreError::Misconfigured { reason } => return Self::bad(reason),
            StoreError::TooManyPauses { .. } => Kind::TooManyPauses,
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
