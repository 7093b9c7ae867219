//! Objects around a payload, which keep its bytes.

use std::str;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use sendoff_core::Delivery;
use serde::de::IgnoredAny;

use super::fields::fields;

/// Whether line breaks may be in what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// They may.
    Any,
    /// One line.
    One,
}

/// The payload as it can stand within an object: where its content type says JSON, it is JSON, and a reader that cuts it
/// out has the same bytes. None where it has to be base64.
pub fn splice<'d>(content_type: &str, payload: &'d [u8], lines: Lines) -> Option<&'d str> {
    if !is_json(content_type) {
        return None;
    }
    // The parser does not look at the encoding of what it ignores.
    let text = str::from_utf8(payload).ok()?;
    // Blanks around it would be the object's.
    let is_bare = !text.starts_with(is_blank) && !text.ends_with(is_blank);
    let fits = lines == Lines::Any || !text.contains(['\r', '\n']);
    (is_bare && fits && serde_json::from_str::<IgnoredAny>(text).is_ok()).then_some(text)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Whether a media type is JSON.
fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let Some((of, subtype)) = essence.split_once('/') else { return false };
    let is = |text: &str, other: &str| text.eq_ignore_ascii_case(other);
    let ends = subtype.len() > 5 && subtype.is_char_boundary(subtype.len() - 5);
    (is(of, "application") || is(of, "text")) && is(subtype, "json")
        || ends && is(&subtype[subtype.len() - 5..], "+json")
}

/// An object that is being written. Names are ours, or known to need no escape.
pub(super) struct Object(Vec<u8>);

impl Object {
    pub(super) fn new(payload_bytes: usize) -> Self {
        let mut bytes = Vec::with_capacity(512 + payload_bytes / 2 * 3);
        bytes.push(b'{');
        Self(bytes)
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.json(name);
        self.0.push(b':');
    }

    fn json(&mut self, text: &str) {
        // Writing a text into memory does not fail.
        let _ = serde_json::to_writer(&mut self.0, text);
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.json(value);
    }

    /// Ends with the payload.
    pub(super) fn with_data(mut self, delivery: &Delivery, lines: Lines) -> Vec<u8> {
        match splice(delivery.content_type(), delivery.payload(), lines) {
            Some(text) => {
                self.name("data");
                self.0.extend_from_slice(text.as_bytes());
            }
            None => self.text("data_base64", &BASE64_STANDARD.encode(delivery.payload())),
        }
        self.0.push(b'}');
        self.0
    }
}

/// An object of ours: the native names, the headers, and the payload.
pub(super) fn native_line(delivery: &Delivery) -> Vec<u8> {
    let mut object = Object::new(delivery.payload().len());
    for (field, value) in fields(delivery) {
        match field.native {
            // Already an array, and a number.
            "tags" | "position" => {
                object.name(field.native);
                object.0.extend_from_slice(value.as_bytes());
            }
            name => object.text(&name.replace('-', "_"), &value),
        }
    }
    if let Some(headers) = delivery.headers().to_json() {
        object.name("headers");
        object.0.extend_from_slice(headers.as_bytes());
    }
    object.text("content_type", delivery.content_type());
    object.with_data(delivery, Lines::One)
}
