//! Headers of an event, with their limits.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::event::{UnreadableJson, json};
use crate::invalid::InvalidEvent;
use crate::limits;

/// An event's headers: names and values, ordered by name so that they always encode alike.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// The value under `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value under `name`, read as JSON; nothing where there is none. Written by
    /// [`header_json`](crate::EventBuilder::header_json), or by anybody as JSON text.
    ///
    /// ```
    /// use sendoff_core::Event;
    ///
    /// let hops = Event::builder("e").header_json("hops", &["shop", "till"]).bytes("").build()?;
    /// assert_eq!(hops.headers().get("hops"), Some(r#"["shop","till"]"#));
    /// assert_eq!(hops.headers().read_json("hops")?, Some(vec!["shop".to_owned(), "till".to_owned()]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The header's name and where its text is not what was expected, without the text. In a handler, by
    /// `?`, that is a dead letter, as with a payload.
    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, UnreadableJson> {
        let read = |text: &str| json::read(text.as_bytes());
        self.get(name).map(read).transpose().map_err(|error| error.in_header(name))
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The stored form: a JSON object, or nothing where there are no headers.
    pub fn to_json(&self) -> Option<String> {
        // A map of strings always serialises.
        (!self.is_empty()).then(|| serde_json::to_string(&self.0).unwrap_or_default())
    }

    /// Reads the stored form.
    pub fn from_json(text: Option<&str>) -> Result<Self, serde_json::Error> {
        match text {
            None => Ok(Self::default()),
            Some(text) => serde_json::from_str(text).map(Self),
        }
    }

    pub(crate) fn insert(&mut self, name: String, value: String) {
        self.0.insert(name, value);
    }

    /// Sizes are always held; [`characters`](Self::check_characters) can be switched off.
    pub(crate) fn check_sizes(&self) -> Result<(), InvalidEvent> {
        if self.len() > limits::HEADERS {
            return Err(InvalidEvent::TooManyHeaders { count: self.len(), limit: limits::HEADERS });
        }
        let bytes: usize = self.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > limits::HEADER_BYTES {
            return Err(InvalidEvent::HeadersTooLarge { bytes, limit: limits::HEADER_BYTES });
        }
        for name in self.0.keys() {
            let chars = name.chars().count();
            if chars == 0 {
                return Err(InvalidEvent::Empty { field: "header name" });
            }
            if chars > limits::HEADER_NAME_CHARS {
                let limit = limits::HEADER_NAME_CHARS;
                return Err(InvalidEvent::TooLong { field: "header name", chars, limit });
            }
        }
        Ok(())
    }

    pub(crate) fn check_characters(&self) -> Result<(), InvalidEvent> {
        for (name, value) in self.iter() {
            crate::name::check_characters("header name", name)?;
            crate::name::check_characters("header value", value)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Headers {
    /// Names only: values may be secrets, and `Debug` ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}
