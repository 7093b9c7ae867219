//! What the document says about an answer, and whether it is so.

use serde_json::Value;

fn document() -> Value {
    serde_json::from_str(include_str!("../../src/openapi.json")).unwrap()
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
pub(crate) fn check(method: &str, path: &str, status: u16, kind: &str, body: &Value) {
    let document = document();
    let path = path.split('?').next().unwrap();
    let operation = path_of(&document, path).map(|item| &item[method.to_lowercase()]);
    let Some(operation) = operation.filter(|operation| !operation.is_null()) else {
        // What is not in the document is not answered.
        assert!(matches!(status, 401 | 403 | 404 | 405), "{method} {path}: {status}");
        assert_eq!(kind, "application/problem+json");
        return conforms(&document, &document["components"]["schemas"]["Problem"], body, path);
    };
    let response = &operation["responses"][status.to_string()];
    assert!(!response.is_null(), "{method} {path}: {status} is not in the document");
    let content = &resolve(&document, response)["content"][kind];
    assert!(!content.is_null(), "{method} {path}: {status} is not {kind}");
    conforms(&document, &content["schema"], body, path);
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
