//! Where an outbox lives, and how its names are put into our statements.

use sendoff_core::Ident;
use sendoff_engine::store::frame::put_names;

/// The name of PostgreSQL's schema for everybody.
const PUBLIC: &str = "public";
/// Bytes of a channel's name. One that is cut may be shared, and then rings once too often.
const CHANNEL_BYTES: usize = 63;

/// How names begin that stand without a schema: of indexes and constraints.
const PLAIN: [&str; 7] = [
    "outbox_event_",
    "outbox_tally_",
    "outbox_audit_",
    "outbox_pause_",
    "outbox_handled_",
    "outbox_key_",
    "inbox_event_",
];

/// The files are written for a schema called `sendoff`. Only checked names ever take its place.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    schema: String,
    prefix: String,
}

impl Names {
    pub(crate) fn new(schema: Option<&Ident>, prefix: Option<&Ident>) -> Self {
        let folded = |name: &Ident| name.as_str().to_ascii_lowercase();
        Self {
            schema: schema.map_or(PUBLIC.into(), folded),
            prefix: prefix.map_or_else(String::new, folded),
        }
    }

    /// The schema, to be compared with or quoted.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// Whether the schema is the one that is always there.
    pub(crate) fn is_public(&self) -> bool {
        self.schema == PUBLIC
    }

    /// A name of ours with its schema. Quoted: a checked name may still be a keyword.
    pub(crate) fn qualified(&self, name: &str) -> String {
        format!("\"{}\".{}{name}", self.schema, self.prefix)
    }

    /// A name of ours without its schema.
    pub(crate) fn plain(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// What writers notify and relays listen to.
    pub(crate) fn channel(&self) -> String {
        self.channel_of("outbox")
    }

    /// What appends notify and tails listen to.
    pub(crate) fn journal_channel(&self) -> String {
        self.channel_of("journal")
    }

    fn channel_of(&self, what: &str) -> String {
        let mut channel = format!("{}.{}{what}", self.schema, self.prefix);
        channel.truncate(CHANNEL_BYTES);
        channel
    }

    /// A file's text with the names of this outbox.
    pub(crate) fn put_into(&self, text: &str) -> String {
        let text = text.replace("sendoff_channel", &self.channel());
        let text = text.replace("sendoff_journal_channel", &self.journal_channel());
        put_names(&text, |name| self.qualified(name), &PLAIN, |name| self.plain(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds W6.
    #[test]
    fn names_go_where_the_files_have_theirs() {
        let names = |schema, prefix: Option<&str>| {
            let ident = |name: &str| Ident::new(name).unwrap();
            Names::new(Some(&ident(schema)), prefix.map(ident).as_ref())
        };
        let text = "create index outbox_event_due on sendoff.outbox_event (due_at)";
        assert_eq!(
            names("Select", Some("Billing_")).put_into(text),
            "create index billing_outbox_event_due on \"select\".billing_outbox_event (due_at)"
        );
        assert_eq!(
            names("shop", None).put_into(text),
            "create index outbox_event_due on \"shop\".outbox_event (due_at)"
        );
        let channels = "'sendoff_channel', 'sendoff_journal_channel'";
        assert_eq!(
            names("shop", Some("a_")).put_into(channels),
            "'shop.a_outbox', 'shop.a_journal'"
        );
    }

    #[test]
    fn a_channel_fits_whatever_the_names_are() {
        let long = Ident::new("a".repeat(40)).unwrap();
        assert_eq!(Names::new(Some(&long), Some(&long)).channel().len(), CHANNEL_BYTES);
    }
}
