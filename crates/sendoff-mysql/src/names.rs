//! Where an outbox lives, and how its names are put into our statements.

use sendoff_core::Ident;
use sendoff_engine::store::frame::put_names;

/// How names begin that stand without a database: of indexes and constraints.
const PLAIN: [&str; 5] =
    ["outbox_event_", "outbox_audit_", "outbox_pause_", "outbox_key_", "inbox_event_"];

/// The files are written for a database called `sendoff`. Only checked or quoted names ever take its
/// place.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// In backquotes, with a dot after. Empty in a script that is run where one is.
    database: String,
    prefix: String,
}

impl Names {
    pub(crate) fn new(database: Option<&str>, prefix: Option<&Ident>) -> Self {
        let quoted = |name: &str| format!("`{}`.", name.replace('`', "``"));
        Self {
            database: database.map_or_else(String::new, quoted),
            prefix: prefix.map_or_else(String::new, |name| name.as_str().to_ascii_lowercase()),
        }
    }

    /// A name of ours with its database: an application's connection may have another one in use.
    pub(crate) fn qualified(&self, name: &str) -> String {
        format!("{}{}", self.database, self.plain(name))
    }

    /// A name of ours without its database.
    pub(crate) fn plain(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A file's text with the names of this outbox.
    pub(crate) fn put_into(&self, text: &str) -> String {
        put_names(text, |name| self.qualified(name), &PLAIN, |name| self.plain(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds W6.
    #[test]
    fn names_go_where_the_files_have_theirs() {
        let text = "select 1 from sendoff.outbox_event e force index (outbox_event_due)";
        let prefix = Ident::new("Billing_").unwrap();
        assert_eq!(
            Names::new(Some("my `shop"), Some(&prefix)).put_into(text),
            "select 1 from `my ``shop`.billing_outbox_event e force index (billing_outbox_event_due)"
        );
        assert_eq!(
            Names::new(None, None).put_into(text),
            "select 1 from outbox_event e force index (outbox_event_due)"
        );
    }
}
