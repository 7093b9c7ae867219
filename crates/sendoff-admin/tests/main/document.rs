//! What the document says about an answer, and whether it is so.

use std::collections::BTreeSet;
use std::sync::Arc;

use sendoff_admin::Admin;
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::{DeadLetters, OrderKeys};
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use crate::client::Answer;
use crate::served::{Served, token};

/// As it is served.
async fn document() -> &'static Value {
    static DOCUMENT: OnceCell<Value> = OnceCell::const_new();
    let served = async || described(everything()).await;
    DOCUMENT.get_or_init(served).await
}

/// An outbox and a journal.
fn everything() -> Admin {
    let letters = DeadLetters::new(Arc::new(MemoryStore::new()));
    let admin = Admin::new(&Journal::new(MemoryJournal::new())).with_outbox(letters);
    let keys = OrderKeys::new(Arc::new(MemoryStore::new()));
    admin.with_pauses(MemoryStore::new()).with_keys(keys).token(token())
}

async fn described(admin: Admin) -> Value {
    let served = Served::by(admin).await;
    let answer = served.client.send("GET", "/openapi.json", None).await;
    served.close().await;
    answer.body
}

/// Follows a reference, if it is one.
fn resolve<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    match value["$ref"].as_str() {
        Some(place) => document.pointer(place.trim_start_matches('#')).unwrap(),
        None => value,
    }
}

/// The path of the document that a request's path is of; one without parameters comes first.
fn path_of<'d>(document: &'d Value, path: &str) -> Option<&'d Value> {
    let fits = |template: &str| {
        let (known, asked) = (template.split('/'), path.split('/'));
        known.clone().count() == asked.clone().count()
            && known.zip(asked).all(|(known, asked)| known.starts_with('{') || known == asked)
    };
    let paths = document["paths"].as_object().unwrap();
    paths.get(path).or_else(|| paths.iter().find(|(known, _)| fits(known)).map(|(_, item)| item))
}

/// Holds an answer against the document.
pub(crate) async fn check(method: &str, path: &str, answer: &Answer) {
    let document = document().await;
    let (status, body) = (answer.status, &answer.body);
    let kind = answer.header("content-type").unwrap_or_default();
    let path = path.split('?').next().unwrap();
    let operation = path_of(document, path).map(|item| &item[method.to_lowercase()]);
    let Some(operation) = operation.filter(|operation| !operation.is_null()) else {
        // What is not in the document is not answered.
        assert!(matches!(status, 401 | 403 | 404 | 405), "{method} {path}: {status}");
        assert_eq!(kind, "application/problem+json");
        return conforms(document, &document["components"]["schemas"]["Problem"], body, path);
    };
    let response = &operation["responses"][status.to_string()];
    assert!(!response.is_null(), "{method} {path}: {status} is not in the document");
    let response = resolve(document, response);
    for (name, header) in response["headers"].as_object().into_iter().flatten() {
        assert_eq!(header["required"], true, "{name}");
        assert!(answer.header(&name.to_lowercase()).is_some(), "{method} {path}: {name}");
    }
    let content = &response["content"][kind];
    assert!(!content.is_null(), "{method} {path}: {status} is not {kind}");
    conforms(document, &content["schema"], body, path);
}

/// As much of JSON Schema as the document uses.
fn conforms(document: &Value, schema: &Value, value: &Value, at: &str) {
    let schema = resolve(document, schema);
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let known = &schema["type"];
    let fits = known == name || known.as_array().is_some_and(|all| all.iter().any(|t| t == name));
    assert!(fits, "{at} is {value}, not {known}");
    if let Some(all) = schema["enum"].as_array() {
        assert!(all.contains(value), "{at} is {value}, not one of {all:?}");
    }
    if let (Some(least), Some(number)) = (schema["minimum"].as_i64(), value.as_i64()) {
        assert!(number >= least, "{at} is {number}");
    }
    for required in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(required.as_str().unwrap()).is_some(), "{at}: {required}");
    }
    if let Some(properties) = schema["properties"].as_object() {
        assert_eq!(schema["additionalProperties"], false, "{at}");
        assert_eq!(schema["required"].as_array().map(Vec::len), Some(properties.len()), "{at}");
    }
    for (key, field) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(key) {
            Some(schema) => conforms(document, schema, field, &format!("{at}.{key}")),
            None => assert_ne!(schema["additionalProperties"], false, "{at}.{key} is not known"),
        }
    }
    for item in value.as_array().into_iter().flatten() {
        conforms(document, &schema["items"], item, &format!("{at}[]"));
    }
}

/// Every operation, with its path and its method.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &str, &Map<String, Value>)> {
    document["paths"].as_object().unwrap().iter().flat_map(|(path, item)| {
        let operations = item.as_object().unwrap().iter();
        operations.map(|(method, operation)| {
            (path.as_str(), method.as_str(), operation.as_object().unwrap())
        })
    })
}

#[tokio::test]
async fn the_document_says_what_it_is_and_who_may_ask() {
    let document = document().await;
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["security"], json!([{"bearer": []}]));
    let bearer = json!({"type": "http", "scheme": "bearer"});
    assert_eq!(document["components"]["securitySchemes"], json!({"bearer": bearer}));
}

/// A client that is made from the document has a name, a place and a word for each operation.
#[tokio::test]
async fn every_operation_is_served_named_and_described() {
    let document = document().await;
    let served = Served::by(everything()).await;
    let tags = document["tags"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations(document) {
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{operation:?}");
        assert!(operation["summary"].as_str().unwrap().ends_with('.'), "{operation:?}");
        for tag in operation["tags"].as_array().unwrap() {
            assert!(tags.iter().any(|known| known["name"] == *tag), "{tag}");
        }
        for answer in ["200", "401", "403", "500", "503"] {
            assert!(operation["responses"].get(answer).is_some(), "{method} {path}: {answer}");
        }
        let path = path.strip_prefix("/api/outbox").unwrap().split('/');
        let some = |part| if str::starts_with(part, '{') { "p" } else { part };
        let path = path.map(some).collect::<Vec<_>>().join("/");
        let answer = served.client.ask(&method.to_uppercase(), &path, None).await;
        assert_ne!(answer.status, 405, "{method} {path}");
        assert_ne!(answer.body["type"], "urn:sendoff:problem:no-such-route", "{method} {path}");
    }
    assert!(ids.contains("document"));
    served.close().await;
}

/// Whatever is referred to is there, and whatever is there is referred to.
#[tokio::test]
async fn no_reference_leads_nowhere() {
    fn references<'d>(value: &'d Value, found: &mut BTreeSet<&'d str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|field| references(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    for document in [everything(), journal_only(), outbox_only()] {
        let document = described(document).await;
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        let there: BTreeSet<_> = ["schemas", "responses"]
            .into_iter()
            .flat_map(|kind| {
                let names = document["components"][kind].as_object().unwrap().keys();
                names.map(move |name| format!("#/components/{kind}/{name}"))
            })
            .collect();
        assert_eq!(found, there.iter().map(String::as_str).collect());
    }
}

fn journal_only() -> Admin {
    Admin::new(&Journal::new(MemoryJournal::new())).token(token())
}

fn outbox_only() -> Admin {
    Admin::outbox(DeadLetters::new(Arc::new(MemoryStore::new()))).token(token())
}

/// What is not there is neither served nor described.
#[tokio::test]
async fn an_outbox_a_journal_or_both_are_served() {
    for (admin, letters, publishers) in
        [(everything(), true, true), (journal_only(), false, true), (outbox_only(), true, false)]
    {
        let served = Served::by(admin).await;
        let document = served.client.send("GET", "/openapi.json", None).await.body;
        for (path, tag, is_there) in
            [("/events", "letters", letters), ("/publishers", "publishers", publishers)]
        {
            let answer = served.client.send("GET", path, None).await;
            assert_eq!(answer.status, if is_there { 200 } else { 404 }, "{path}");
            let described = document["paths"].get(format!("/api/outbox{path}")).is_some();
            assert_eq!(described, is_there, "{path}");
            let tags = document["tags"].as_array().unwrap();
            assert_eq!(tags.iter().any(|known| known["name"] == tag), is_there, "{tag}");
        }
        served.close().await;
    }
}

/// What a request may say is limited, and the document says how.
#[tokio::test]
async fn every_parameter_is_described_and_limited() {
    let document = document().await;
    for (path, method, operation) in operations(document) {
        let parameters = operation.get("parameters").and_then(Value::as_array);
        for parameter in parameters.into_iter().flatten() {
            let (schema, name) = (&parameter["schema"], &parameter["name"]);
            assert!(parameter["description"].is_string(), "{method} {path}: {name}");
            assert_eq!(parameter["required"], parameter["in"] == "path", "{method} {path}: {name}");
            let limited = match schema["type"].as_str().unwrap() {
                "string" => schema["pattern"].is_string() || schema["enum"].is_array(),
                "integer" => schema["minimum"].is_u64() && schema["maximum"].is_u64(),
                "boolean" => true,
                _ => false,
            };
            assert!(limited, "{method} {path}: {schema}");
        }
    }
}
