//! Labels of metrics, of which there are only so many.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::lock::lock;

/// What everything is called that came after the bound was reached.
pub(super) const OTHER: &str = "other";

/// Event types that are told apart: the first 200. They come from whoever writes events, so nothing else
/// bounds them.
pub(super) type EventTypes = Labels<String, 200>;

/// Handlers and sinks that are told apart: a program may register them by any name while it runs.
pub(super) type Handlers = Labels<String, 200>;

/// The first so many names, which are told apart.
#[derive(Debug)]
pub(super) struct Labels<K, const MOST: usize>(Mutex<BTreeSet<K>>);

impl<K: Ord, const MOST: usize> Labels<K, MOST> {
    /// Whether a name is one of them, or becomes one now.
    pub(super) fn has<Q>(&self, name: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        let mut known = lock(&self.0);
        known.contains(name) || (known.len() < MOST && known.insert(name.to_owned()))
    }
}

impl<const MOST: usize> Labels<String, MOST> {
    /// A name, or [`OTHER`].
    pub(super) fn name<'n>(&self, name: &'n str) -> &'n str {
        if self.has(name) { name } else { OTHER }
    }
}

impl<K, const MOST: usize> Default for Labels<K, MOST> {
    fn default() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_bound_are_one() {
        let labels = Labels::<String, 2>::default();
        let told = ["a", "b", "c", "a", "d"].map(|name| labels.name(name));
        assert_eq!(told, ["a", "b", OTHER, "a", OTHER]);
    }
}
