use std::sync::Arc;

/// Characters the incarnation adds to a name.
pub(crate) const SUFFIX_CHARS: usize = 17;

/// The name a node holds rows under: its own, and an incarnation that is new at every start.
///
/// Without the incarnation a node that crashed and came back under the same name would take its old
/// rows for its own, and an event that kills the process would do so for ever.
pub(crate) fn owner(name: Option<&str>, incarnation: u64) -> Arc<str> {
    let name = name.unwrap_or("node");
    format!("{name}#{incarnation:016x}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds P4.
    #[test]
    fn a_restarted_node_is_somebody_else() {
        assert_eq!(&*owner(Some("billing-1"), 7), "billing-1#0000000000000007");
        assert_ne!(owner(Some("a"), 1), owner(Some("a"), 2));
        assert_eq!(owner(Some(""), u64::MAX).chars().count(), SUFFIX_CHARS);
    }
}
