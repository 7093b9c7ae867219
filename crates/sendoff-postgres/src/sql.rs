//! The statements: text, and the types of their parameters.
//!
//! Types are told, never asked for: the server's answer would cost a round trip, and on a pipeline
//! COMMIT would overtake.

use tokio_postgres::types::Type;

use crate::names::Names;

/// One statement. Its slot is where a session keeps it prepared.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) types: &'static [Type],
    pub(crate) slot: usize,
}

macro_rules! statements {
    ($($name:ident: [$($parameter:ident),*]),* $(,)?) => {
        /// Every statement, with the names of one outbox put in.
        #[derive(Debug)]
        pub(crate) struct Sql {
            $(pub(crate) $name: Statement,)*
        }

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Slot { $($name,)* Count }

        impl Sql {
            /// How many there are.
            pub(crate) const COUNT: usize = Slot::Count as usize;

            /// Puts the checked names in. Nothing else is ever spliced.
            pub(crate) fn load(names: &Names) -> Self {
                Self {
                    $($name: Statement {
                        text: statement(
                            include_str!(concat!("../sql/", stringify!($name), ".sql")), names),
                        types: const { &[$(Type::$parameter),*] },
                        slot: Slot::$name as usize,
                    },)*
                }
            }

            #[cfg(test)]
            fn all(&self) -> Vec<&Statement> {
                vec![$(&self.$name),*]
            }
        }
    };
}

statements!(
    arm: [],
    claim: [TEXT, INT8, INTERVAL, INTERVAL, INTERVAL],
    claim_suspects: [TEXT, INT8, INTERVAL, INTERVAL, INTERVAL],
    confirm: [UUID_ARRAY, TIMESTAMPTZ_ARRAY],
    counts: [],
    disarm: [],
    extend: [UUID_ARRAY, TIMESTAMPTZ_ARRAY, INTERVAL],
    find: [UUID],
    in_transaction: [],
    insert: [
        UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY,
        TEXT_ARRAY, TIMESTAMPTZ_ARRAY, INTERVAL_ARRAY, TEXT_ARRAY, JSONB_ARRAY, BYTEA_ARRAY, BOOL
    ],
    insert_one: [
        UUID, TEXT, TEXT, TEXT, TEXT, TEXT, INT2, TEXT, TIMESTAMPTZ, JSONB, BYTEA, INTERVAL, TEXT
    ],
    insert_one_due: [
        UUID, TEXT, TEXT, TEXT, TEXT, TEXT, INT2, TEXT, TIMESTAMPTZ, JSONB, BYTEA
    ],
    is_in_transaction: [],
    journal_advance: [
        TEXT, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, BOOL_ARRAY, INT4_ARRAY,
        TEXT_ARRAY, BOOL_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT4_ARRAY, INTERVAL_ARRAY,
        TEXT_ARRAY
    ],
    journal_append: [
        INT4_ARRAY, BOOL_ARRAY, INT4, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
        TIMESTAMPTZ_ARRAY, JSONB_ARRAY, BYTEA_ARRAY, UUID_ARRAY, UUID_ARRAY, INT2_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, INT8
    ],
    journal_append_in: [
        INT4_ARRAY, BOOL_ARRAY, INT4, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
        TIMESTAMPTZ_ARRAY, JSONB_ARRAY, BYTEA_ARRAY, UUID_ARRAY, UUID_ARRAY, INT2_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, INT8
    ],
    journal_append_one: [
        INT4_ARRAY, INT4, UUID, TEXT, TEXT_ARRAY, TEXT, TIMESTAMPTZ, JSONB, BYTEA, UUID, UUID
    ],
    journal_beat: [TEXT],
    journal_change: [TEXT, TEXT, TEXT, INT8],
    journal_cursors: [],
    journal_decide: [INT4_ARRAY, BOOL_ARRAY, INT4],
    journal_doing: [INT4],
    journal_due: [TEXT, INT8],
    journal_followers: [],
    journal_give: [TEXT, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY],
    journal_head: [],
    journal_holders: [],
    journal_join: [TEXT, INT4, INTERVAL, INTERVAL, INT8_ARRAY],
    journal_keeper_lock: [],
    journal_keeper_unlock: [],
    journal_layout: [],
    journal_leave: [TEXT],
    journal_leaving: [],
    journal_node_lock: [INT4],
    journal_nodes: [],
    journal_parked_discard: [TEXT, TEXT, INT8],
    journal_parked_list: [TEXT, TEXT, TEXT, TEXT, INT8, INT8],
    journal_parked_retry: [TEXT, TEXT, INT8],
    journal_purge: [INT8, INT8, TIMESTAMPTZ, INT8],
    journal_purgeable: [INT8, INT8, TIMESTAMPTZ, INT8],
    journal_ranges: [BOOL],
    journal_read: [INT2_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8, INT8, INT8],
    journal_register: [TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY],
    journal_schema_known: [],
    journal_schema_version: [],
    journal_settle_parked: [TEXT, TEXT, TEXT, INT8, INT8, INT4, INTERVAL, TEXT],
    journal_take: [TEXT, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY],
    journal_tail: [INT8, INT8],
    journal_vitals: [],
    journal_who: [],
    lock: [INT8, INTERVAL, INTERVAL],
    oldest_lag: [],
    partition_layout: [],
    partition_list: [],
    partition_lock: [],
    partition_tail: [TIMESTAMPTZ, TIMESTAMPTZ, INT8],
    partition_unlock: [],
    present: [UUID_ARRAY],
    purge: [INTERVAL, INT8, BOOL],
    purgeable: [INTERVAL, INT8, BOOL],
    rescue: [INTERVAL],
    schema_known: [],
    schema_version: [],
    settle_delete: [
        UUID_ARRAY, TIMESTAMPTZ_ARRAY, INT2_ARRAY, INTERVAL_ARRAY, INT4_ARRAY, TEXT_ARRAY,
        TIMESTAMPTZ_ARRAY
    ],
    settle_keep: [
        UUID_ARRAY, TIMESTAMPTZ_ARRAY, INT2_ARRAY, INTERVAL_ARRAY, INT4_ARRAY, TEXT_ARRAY,
        TIMESTAMPTZ_ARRAY
    ],
    settle_locked_delete: [
        UUID_ARRAY, INT2_ARRAY, INTERVAL_ARRAY, INT4_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY
    ],
    settle_locked_keep: [
        UUID_ARRAY, INT2_ARRAY, INTERVAL_ARRAY, INT4_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY
    ],
    topics: [],
    transaction_status: [XID8],
);

/// A file's statement, without its comments.
fn statement(file: &str, names: &Names) -> String {
    let lines: Vec<_> = file.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    names.put_into(lines.join("\n").trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds W6.
    #[test]
    fn every_statement_names_as_many_parameters_as_it_has_types() {
        let sql = Sql::load(&Names::new(None, None));
        assert_eq!(sql.all().len(), Sql::COUNT);
        for statement in sql.all() {
            let named = (1..20).take_while(|n| statement.text.contains(&format!("${n}"))).count();
            assert_eq!(named, statement.types.len(), "{}", statement.text);
            assert!(!statement.text.contains("sendoff."), "{}", statement.text);
        }
    }
}
