//! The document of the routes, as OpenAPI 3.1. Handlers and their types say what each route takes and
//! answers; here is what all of them share.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Content, HeaderBuilder, Object, OpenApi, Ref, RefOr, Response, ResponseBuilder, Schema, Type,
};
use utoipa::{IntoResponses, ToSchema};

use crate::problem::Body;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Sendoff: dead letters and delivery of an outbox, publishers of a journal",
        description = "Unknown parameters are refused. Every answer that is none has the form of a \
                       Problem; 404 and 405 are also given for routes and methods that are not here.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    servers((url = "/")),
    security(("bearer" = [])),
    tags(
        (name = "letters", description = "Dead letters: seen, requeued, discarded; what operators did."),
        (name = "pauses", description = "Delivery of an outbox: what is paused."),
        (name = "keys", description = "Keys of an outbox's events: how they stand, and letting parked ones go on."),
        (name = "publishers", description = "Where publishers are, and operating them."),
        (name = "parked", description = "Facts that could not be published and were parked."),
        (name = "document"),
    ),
    components(schemas(Body)),
)]
struct Frame;

/// The document before it has any routes.
pub(crate) fn frame() -> OpenApi {
    <Frame as utoipa::OpenApi>::openapi()
}

/// Adds what all routes share, and leaves out what none of them has.
pub(crate) fn complete(mut document: OpenApi) -> OpenApi {
    document.paths.paths.values_mut().flat_map(operations).for_each(share);
    let (mut referred, mut tagged) = (BTreeSet::new(), BTreeSet::new());
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        tagged.extend(operation.tags.iter().flatten().cloned());
        for response in operation.responses.responses.values() {
            if let RefOr::Ref(reference) = response {
                referred.insert(reference.ref_location.clone());
            }
        }
    }
    if let Some(tags) = &mut document.tags {
        tags.retain(|tag| tagged.contains(&tag.name));
    }
    let components = document.components.get_or_insert_default();
    components.schemas.values_mut().for_each(close);
    components.responses = shared()
        .into_iter()
        .filter(|(name, _)| referred.contains(&Ref::from_response_name(*name).ref_location))
        .map(|(name, response)| (name.to_owned(), response.into()))
        .collect();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme("bearer", bearer);
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    [get, put, post, delete, patch].into_iter().flatten()
}

/// What the gate refuses and what the database does may happen to every request; the rest to those
/// that bring something along.
fn share(operation: &mut Operation) {
    let body = operation.request_body.is_some();
    let brings = body || operation.parameters.is_some();
    let answers = &mut operation.responses.responses;
    answers.extend(Unauthorized::responses());
    answers.extend(NotLocal::responses());
    answers.extend(Refused::responses());
    answers.extend(Unavailable::responses());
    if brings {
        answers.extend(BadRequest::responses());
    }
    if body {
        answers.extend(TooLarge::responses());
        answers.extend(NotJson::responses());
    }
}

/// Nothing has fields that are not in the document.
fn close(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) if !object.properties.is_empty() => {
            object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        }
        RefOr::T(Schema::OneOf(one_of)) => one_of.items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Answers that are none: each is in the document once, and operations refer to it by its name. A
/// handler lists those that only some routes give, as `responses(…, NoSuchPublisher)`.
macro_rules! shared {
    ($($name:ident $status:literal $description:literal $(, $header:literal $type:ident)?;)*) => {
        $(
            pub(crate) struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    let here = Ref::from_response_name(stringify!($name));
                    BTreeMap::from([($status.to_string(), here.into())])
                }
            }
        )*

        fn shared() -> [(&'static str, Response); [$($status),*].len()] {
            [$((stringify!($name), problem($description) $(.header($header, always(Type::$type)))?.build())),*]
        }
    };
}

shared! {
    Unauthorized 401 "There is no token, or a wrong one.", "WWW-Authenticate" String;
    NotLocal 403 "The service answers this machine only.";
    BadRequest 400 "A parameter or the body makes no sense; the detail names it.";
    NoSuchPublisher 404 "There is no such publisher, or it has no such topic.";
    NotParked 404 "There is no such publisher or topic, or nothing is parked at this position.";
    KeyNotParked 404 "The key is not parked.";
    NoSuchEvent 404 "There is no such event, or no more.";
    HasFailed 409 "It has failed, and must be reset.";
    NotTreated 409 "The event is not dead, or somebody has it locked; it is as it was.";
    KeyNotResumed 409 "Another event parks the key, or somebody has it locked; it is as it was.";
    TooManyPauses 409 "Too much is paused by name.";
    TooLarge 413 "The body is too large.";
    NotJson 415 "The body is not declared to be JSON.";
    Refused 500 "The database refused; the detail says why.";
    Unavailable 503
        "The database is unavailable, or the request took too long, or there are too many at once.",
        "Retry-After" Integer;
}

fn problem(description: &str) -> ResponseBuilder {
    let body = Content::new(Some(Ref::from_schema_name(Body::name())));
    ResponseBuilder::new().description(description).content("application/problem+json", body)
}

/// A header that is never missing, which utoipa has no word for.
fn always(r#type: Type) -> utoipa::openapi::Header {
    let mut header = HeaderBuilder::new().schema(Some(Object::with_type(r#type))).build();
    header.extensions = Some(Extensions::from_iter([("required", Value::Bool(true))]));
    header
}
