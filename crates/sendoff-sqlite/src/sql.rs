//! The statements, as text.

use sendoff_core::Ident;
use sendoff_engine::sql_file;
use sendoff_engine::store::frame::text;

/// The names the files know; the first also begins the names of the indexes and of the view.
const TABLE: &str = "outbox_event";
const OTHERS: [&str; 6] =
    ["outbox_tally", "outbox_audit", "outbox_pause", "outbox_handled", "outbox_key", "inbox_event"];

const MIGRATIONS: [&str; 7] = [
    include_str!("../migrations/0001_outbox.sql"),
    include_str!("../migrations/0002_tally_and_ends.sql"),
    include_str!("../migrations/0003_bad_nights.sql"),
    include_str!("../migrations/0004_who_handles.sql"),
    include_str!("../migrations/0005_forgotten_types.sql"),
    include_str!("../migrations/0006_order.sql"),
    include_str!("../migrations/0007_exactly_once.sql"),
];

/// What makes the index for fair claims, where it is asked for.
const TENANT_INDEX: &str = include_str!("../migrations/tenant_index.sql");

macro_rules! statements {
    ($($name:ident $(in $file:ident)?),* $(,)?; fair: $($fair:ident in $fair_file:ident),* $(,)?) => {
        /// Every statement, with the table's name put in.
        #[derive(Debug)]
        #[cfg_attr(not(feature = "sqlx"), allow(dead_code, reason = "only sqlx inserts many"))]
        pub(crate) struct Sql {
            /// The table's name.
            pub(crate) table: String,
            /// Every migration, the oldest first. What a published one does never changes.
            pub(crate) migrations: [String; 7],
            /// What makes the index for fair claims.
            pub(crate) tenant_index: String,
            insert_head: String,
            insert_row: String,
            $(pub(crate) $name: String,)*
            $(pub(crate) $fair: String,)*
        }

        impl Sql {
            /// Puts the checked prefix before the table's name. Nothing else is ever spliced.
            pub(crate) fn load(prefix: Option<&Ident>) -> Self {
                let prefix = prefix.map_or("", Ident::as_str);
                let table = format!("{prefix}{TABLE}");
                let insert = named(sql_file!(outbox / insert), "insert", prefix);
                let (head, row) = insert.rsplit_once('\n').unwrap_or((&insert, ""));
                Self {
                    migrations: MIGRATIONS.map(|file| named(file, "", prefix)),
                    tenant_index: named(TENANT_INDEX, "", prefix),
                    insert_head: head.to_owned(),
                    insert_row: row.to_owned(),
                    $($name: named(sql_file!(outbox / $name $(in $file)?), stringify!($name), prefix),)*
                    $($fair: named(
                        sql_file!(outbox / $fair in $fair_file),
                        stringify!($fair),
                        prefix,
                    ),)*
                    table,
                }
            }

            /// All that is asked of tables that are there, but inserts, whose rows are not counted yet.
            pub(crate) fn all(&self) -> Vec<&str> {
                vec![$(&self.$name),*]
            }

            /// What fair claims ask, of an index that not everybody has.
            pub(crate) fn fair(&self) -> Vec<&str> {
                vec![$(&self.$fair),*]
            }
        }
    };
}

statements!(
    audit,
    audit_event in audit,
    audit_key in park,
    audit_pause in pause,
    claim,
    claim_except in claim,
    claim_suspects in claim,
    claim_suspects_except in claim,
    confirm,
    confirm_below in confirm_key,
    confirm_parked in confirm_key,
    confirm_row in confirm_key,
    counts,
    extend,
    find,
    forget_audit in forget,
    forget_seen in forget,
    hold,
    horizon,
    insert_many,
    key_blame in take_keys,
    key_extend in end_key,
    key_free in end_key,
    key_go_on in end_key,
    key_gone in take_keys,
    key_head in take_keys,
    key_held in end_key,
    key_last in take_keys,
    key_later in take_keys,
    key_list in take_keys,
    key_park in end_key,
    key_parked in park,
    key_standing in park,
    key_take in take_keys,
    key_unpark in end_key,
    key_unreadable in take_keys,
    key_wake in end_key,
    key_walk in take_keys,
    keys_due in take_keys,
    keys_rescue in end_key,
    keys_suspect in take_keys,
    lag,
    letter_audit in letter_change,
    letter_discard in letter_change,
    letter_requeue in letter_change,
    letter_standing in letter_change,
    letters,
    letters_count in letters,
    letters_newest in letters,
    letters_step in letters,
    letters_step_newest in letters,
    lock in claim,
    look,
    lock_except in claim,
    next_due in look,
    oldest_due,
    once,
    peek in find,
    parked_count in park,
    parked_keys in park,
    pause,
    paused in pause,
    pauses,
    pending_within in horizon,
    purge_dead,
    purge_delete,
    purge_walk,
    record,
    replay,
    replay_count in replay,
    replay_step in replay,
    rescue,
    register,
    registered in register,
    resume in pause,
    run,
    schema_known,
    schema_set,
    schema_table,
    schema_version,
    set_aside,
    settle_dead in settle,
    settle_delete in settle,
    settle_done in settle,
    settle_release in settle,
    settle_restore in settle,
    settle_retry in settle,
    settle_wait in settle,
    shelve,
    shelve_key in shelve,
    shelve_row in shelve,
    standing in horizon,
    tally,
    tally_forget,
    tally_over in tally_forget,
    topics;
    fair:
    claim_fair in claim,
    claim_fair_except in claim,
    tenant_first in tenants,
    tenant_next in tenants,
    tenant_waits in tenants,
);

impl Sql {
    /// The insert of that many rows.
    pub(crate) fn insert(&self, rows: usize) -> String {
        let mut text = self.insert_head.clone();
        for row in 0..rows {
            text.push_str(if row == 0 { "\n" } else { ",\n" });
            text.push_str(&self.insert_row);
        }
        text
    }
}

/// A file's statement, without its comments: statements are cached by their text.
fn named(file: &str, name: &str, prefix: &str) -> String {
    let put = |text: &str, name: &str| text.replace(name, &format!("{prefix}{name}"));
    OTHERS.iter().fold(put(&text(file, &[name]), TABLE), |text, other| put(&text, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds W6.
    #[test]
    fn the_prefix_goes_before_the_table_and_all_that_is_named_after_it() {
        let sql = Sql::load(Some(&Ident::new("billing_").unwrap()));
        assert_eq!(sql.table, "billing_outbox_event");
        assert!(
            sql.claim.contains("from billing_outbox_event indexed by billing_outbox_event_due")
        );
        assert!(sql.migrations[0].contains("create view billing_outbox_event_json"));
        assert!(sql.tally.contains("into billing_outbox_tally "));
        assert!(sql.schema_version.contains("from outbox_schema "), "one for all outboxes");
    }

    /// Holds W5: many rows, one statement.
    #[test]
    fn an_insert_has_one_row_of_values_for_each_event() {
        let sql = Sql::load(None);
        let columns = sql.insert(1).matches('?').count();
        assert_eq!(columns, 15);
        assert_eq!(sql.insert(3).matches('?').count(), 3 * columns);
        assert_eq!(sql.insert(3).matches("values").count(), 1);
    }
}
