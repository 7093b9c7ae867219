//! Tags of facts, written `key=value`, with their limits.

use std::fmt;
use std::str::FromStr;

use super::invalid::{Invalid, at_most};
use crate::limits;
use crate::name;

/// What a fact is about, written `key=value`: `wallet_id=4711`.
///
/// ```
/// use sendoff_core::journal::Tag;
///
/// let tag = Tag::new("wallet_id", "4711")?;
/// assert_eq!((tag.key(), tag.value(), tag.as_str()), ("wallet_id", "4711", "wallet_id=4711"));
/// assert_eq!("wallet_id=4711".parse::<Tag>()?, tag);
/// # Ok::<(), sendoff_core::journal::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    text: String,
    key_bytes: usize,
}

impl Tag {
    /// Checks both parts.
    pub fn new(key: impl Into<String>, value: impl AsRef<str>) -> Result<Self, Invalid> {
        let (mut text, value) = (key.into(), value.as_ref());
        check_key(&text)?;
        check_value(value)?;
        let key_bytes = text.len();
        text.push('=');
        text.push_str(value);
        Ok(Self { text, key_bytes })
    }

    /// `key=value`, as it is stored.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What kind of thing it names.
    pub fn key(&self) -> &str {
        &self.text[..self.key_bytes]
    }

    /// Which one.
    pub fn value(&self) -> &str {
        &self.text[self.key_bytes + 1..]
    }
}

/// Whether `key` can be that of a tag.
pub(super) fn check_key(key: &str) -> Result<(), Invalid> {
    if key.is_empty() {
        return Err(Invalid::EmptyTag { part: "key" });
    }
    if key.contains('=') {
        return Err(Invalid::KeyWithEquals);
    }
    Ok(name::check("tag key", key, limits::TAG_KEY_CHARS)?)
}

fn check_value(value: &str) -> Result<(), Invalid> {
    if value.is_empty() {
        return Err(Invalid::EmptyTag { part: "value" });
    }
    Ok(name::check("tag value", value, limits::TAG_VALUE_CHARS)?)
}

impl FromStr for Tag {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        check_key(key)?;
        check_value(value)?;
        // Every fact that is read brings some: they are copied once.
        Ok(Self { text: text.to_owned(), key_bytes: key.len() })
    }
}

impl<K: Into<String>, V: AsRef<str>> TryFrom<(K, V)> for Tag {
    type Error = Invalid;

    fn try_from((key, value): (K, V)) -> Result<Self, Invalid> {
        Self::new(key, value)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

/// Tags in order, each once. A key may be there with several values.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Tags(Vec<Tag>);

impl Tags {
    /// Sorts them, and leaves out what is there twice.
    pub fn new(tags: impl IntoIterator<Item = Tag>) -> Result<Self, Invalid> {
        let mut tags: Vec<_> = tags.into_iter().collect();
        tags.sort_unstable();
        tags.dedup();
        at_most("tags", tags.len(), limits::TAGS)?;
        Ok(Self(tags))
    }

    /// In order.
    pub fn iter(&self) -> std::slice::Iter<'_, Tag> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this one is among them.
    pub fn contains(&self, tag: &Tag) -> bool {
        self.0.binary_search(tag).is_ok()
    }

    /// Whether all of `others` are among them.
    pub fn contain_all(&self, others: &Self) -> bool {
        others.iter().all(|tag| self.contains(tag))
    }

    /// Whether a tag of this key is among them.
    pub fn have_key(&self, key: &str) -> bool {
        self.iter().any(|tag| tag.key() == key)
    }

    /// The value of the first tag of this key.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.iter().find(|tag| tag.key() == key).map(Tag::value)
    }
}

impl<'a> IntoIterator for &'a Tags {
    type Item = &'a Tag;
    type IntoIter = std::slice::Iter<'a, Tag>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}
