//! The statements: text, and the types of their parameters.
//!
//! Types are told, never asked for: the server's answer would cost a round trip, and on a pipeline
//! COMMIT would overtake.

use sendoff_engine::sql_file;
use sendoff_engine::store::frame::text;
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
    ($($name:ident $(in $file:ident)?: [$($parameter:ident),*]),* $(,)?) => {
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
            pub(crate) fn load(names: &Names, writes: Writes) -> Self {
                Self {
                    $($name: Statement {
                        text: statement(
                            sql_file!($name $($file)?),
                            stringify!($name),
                            names,
                            writes,
                        ),
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
    claim: [INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT8, INT8, TEXT, INTERVAL],
    claim_except in claim: [
        INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT8, INT8, TEXT, INTERVAL, TEXT_ARRAY,
        TEXT_ARRAY
    ],
    claim_suspects in claim: [
        INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT8, INT8, TEXT, INTERVAL
    ],
    claim_suspects_except in claim: [
        INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT8, INT8, TEXT, INTERVAL, TEXT_ARRAY,
        TEXT_ARRAY
    ],
    confirm: [UUID_ARRAY, TIMESTAMPTZ_ARRAY],
    counts: [],
    disarm: [],
    extend in settle: [UUID_ARRAY, TIMESTAMPTZ_ARRAY, INTERVAL],
    find: [UUID],
    first_visible in claim: [INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT2, TEXT],
    first_visible_except in claim: [
        INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT2, TEXT, TEXT_ARRAY, TEXT_ARRAY
    ],
    fold: [INT8, INTERVAL],
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
        TEXT_ARRAY, TEXT_ARRAY, INT8, TIMESTAMPTZ
    ],
    journal_append_held: [
        INT4_ARRAY, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, JSONB_ARRAY,
        BYTEA_ARRAY, UUID_ARRAY, UUID_ARRAY
    ],
    journal_append_in: [
        INT4_ARRAY, BOOL_ARRAY, INT4, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
        TIMESTAMPTZ_ARRAY, JSONB_ARRAY, BYTEA_ARRAY, UUID_ARRAY, UUID_ARRAY, INT2_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, INT8, TIMESTAMPTZ
    ],
    journal_append_one: [
        INT4_ARRAY, INT4, UUID, TEXT, TEXT_ARRAY, TEXT, TIMESTAMPTZ, JSONB, BYTEA, UUID, UUID
    ],
    journal_append_session in journal_append_tagged: [
        INT4, UUID, TEXT, TEXT, TEXT, TIMESTAMPTZ, JSONB, BYTEA, UUID, UUID, INT4, INT4, TEXT
    ],
    journal_append_tagged: [
        INT4, UUID, TEXT, TEXT, TEXT, TIMESTAMPTZ, JSONB, BYTEA, UUID, UUID
    ],
    journal_beat: [TEXT],
    journal_change: [TEXT, TEXT, TEXT, INT8],
    journal_cursors: [],
    journal_decide: [INT4_ARRAY, BOOL_ARRAY, INT4],
    journal_doing: [INT4],
    journal_due: [TEXT, INT8],
    journal_followers: [],
    journal_give in journal_take: [TEXT, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY],
    journal_head: [],
    journal_hold: [INT4_ARRAY, BOOL_ARRAY, INT4, INT4],
    journal_hold_session: [INT4, BOOL, INT4, BOOL, INT4, INT4],
    journal_hold_two: [INT4, BOOL, INT4, BOOL, INT4, INT4],
    journal_holders: [],
    journal_join: [TEXT, INT4, INTERVAL, INTERVAL, INT8_ARRAY],
    journal_keeper_lock: [],
    journal_keeper_unlock: [],
    journal_layout in layout: [],
    journal_leave: [TEXT],
    journal_leaving: [],
    journal_node_lock: [INT4],
    journal_nodes: [],
    journal_nodes_free: [TEXT_ARRAY],
    journal_parked_discard: [TEXT, TEXT, INT8],
    journal_parked_list: [TEXT, TEXT, TEXT, TEXT, INT8, INT8],
    journal_parked_retry: [TEXT, TEXT, INT8],
    journal_purge: [INT8, INT8, TIMESTAMPTZ, INT8],
    journal_purgeable: [INT8, INT8, TIMESTAMPTZ, INT8],
    journal_ranges in partition_list: [BOOL],
    journal_ready in ready: [],
    journal_read: [INT2_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8, INT8, INT8, INT8],
    journal_read_book: [TEXT, TEXT_ARRAY, INT8, INT8, INT8, INT8, TEXT_ARRAY],
    journal_read_from_last in journal_read: [INT2_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8, INT8, INT8, INT8, INT2_ARRAY, TEXT_ARRAY, TEXT_ARRAY],
    journal_read_tag: [TEXT, TEXT_ARRAY, INT8, INT8, INT8, INT8],
    journal_register: [TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY],
    journal_release_session: [TEXT],
    journal_schema_known: [],
    journal_schema_version: [],
    journal_session_limit: [],
    journal_settle_parked: [TEXT, TEXT, TEXT, INT8, INT8, INT4, INTERVAL, TEXT],
    journal_take: [TEXT, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY],
    journal_tail: [INT8, INT8, INT8, INT8],
    journal_tail_large in journal_tail: [INT8, INT8, INT8, INT8],
    journal_vitals: [],
    journal_who: [],
    lock in claim: [INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT8, INT8],
    lock_tables: [],
    oldest_lag: [],
    partition_layout in layout: [],
    partition_list: [],
    partition_idle: [TEXT],
    partition_lock: [],
    partition_unlock: [],
    present: [UUID_ARRAY],
    purge: [INTERVAL, INT8, BOOL],
    purgeable: [INTERVAL, INT8, BOOL],
    ready: [BOOL],
    rescue: [INTERVAL, INTERVAL, INTERVAL, INT8],
    schema_known: [],
    schema_version: [],
    set_aside: [UUID, TIMESTAMPTZ, TEXT],
    settle_delete in settle: [
        UUID_ARRAY, TIMESTAMPTZ_ARRAY, INT2_ARRAY, INTERVAL_ARRAY, INT4_ARRAY, TEXT_ARRAY,
        TIMESTAMPTZ_ARRAY
    ],
    settle_keep in settle: [
        UUID_ARRAY, TIMESTAMPTZ_ARRAY, INT2_ARRAY, INTERVAL_ARRAY, INT4_ARRAY, TEXT_ARRAY,
        TIMESTAMPTZ_ARRAY
    ],
    settle_locked_delete in settle: [
        UUID_ARRAY, INT2_ARRAY, INTERVAL_ARRAY, INT4_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY
    ],
    settle_locked_keep in settle: [
        UUID_ARRAY, INT2_ARRAY, INTERVAL_ARRAY, INT4_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY
    ],
    topics: [],
    transaction_status: [XID8],
);

/// Whether a transaction that carries an event is made durable where its session is not (I13).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    Durable,
    AsTheSessionHasIt,
}

impl Writes {
    pub(crate) const fn durable(durable: bool) -> Self {
        if durable { Self::Durable } else { Self::AsTheSessionHasIt }
    }
}

/// The name by which a text is had with the lines that make a transaction durable.
const DURABLE: &str = "durable";

/// A statement of a file.
fn statement(file: &str, name: &str, names: &Names, writes: Writes) -> String {
    let asked = [name, DURABLE];
    let asked = if writes == Writes::Durable { &asked } else { &asked[..1] };
    names.put_into(&text(file, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds W6.
    #[test]
    fn every_statement_names_as_many_parameters_as_it_has_types() {
        let load = |writes| Sql::load(&Names::new(None, None), writes);
        let (sql, relaxed) = (load(Writes::Durable), load(Writes::AsTheSessionHasIt));
        assert_eq!(sql.all().len(), Sql::COUNT);
        for statement in sql.all().into_iter().chain(relaxed.all()) {
            assert!(!statement.text.is_empty() && !statement.text.contains("--"), "{statement:?}");
            let named = (1..20).take_while(|n| statement.text.contains(&format!("${n}"))).count();
            assert_eq!(named, statement.types.len(), "{}", statement.text);
            assert!(!statement.text.contains("sendoff."), "{}", statement.text);
        }
    }

    #[test]
    fn an_insert_leaves_the_session_s_durability_alone_when_told_to() {
        let touches = |writes| {
            let sql = Sql::load(&Names::new(None, None), writes);
            [&sql.insert, &sql.insert_one, &sql.insert_one_due]
                .map(|insert| insert.text.contains("synchronous_commit"))
        };
        assert_eq!(touches(Writes::Durable), [true; 3]);
        assert_eq!(touches(Writes::AsTheSessionHasIt), [false; 3]);
    }
}
