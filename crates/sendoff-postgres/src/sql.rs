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
    (
        $(#[$doc:meta])* $all:ident in $folder:ident, slots $slots:ident after $first:expr
        $(, with $inner:ident: $kind:ident)?;
        $($name:ident $(in $file:ident $(/ $shared:ident)?)?: [$($parameter:ident),*]),* $(,)?
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $all {
            $(pub(crate) $inner: $kind,)?
            $(pub(crate) $name: Statement,)*
        }

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum $slots { $($name,)* Count }

        impl $all {
            /// How many slots there are, up to its last.
            pub(crate) const COUNT: usize = $first + $slots::Count as usize;

            /// Puts the checked names in. Nothing else is ever spliced.
            pub(crate) fn load(names: &Names, writes: Writes) -> Self {
                let statement = |file: &str, name: &str| {
                    statement(file, &[name, stringify!($folder)], names, writes)
                };
                Self {
                    $($inner: $kind::load(names, writes),)?
                    $($name: Statement {
                        text: statement(
                            sql_file!($folder/$name $(in $file $(/ $shared)?)?),
                            stringify!($name),
                        ),
                        types: const { &[$(Type::$parameter),*] },
                        slot: $first + $slots::$name as usize,
                    },)*
                }
            }

            #[cfg(test)]
            fn all(&self) -> Vec<&Statement> {
                [$(&self.$name),*].into_iter()$(.chain(self.$inner.all()))?.collect()
            }
        }
    };
}

statements!(
    /// Every statement of an outbox, with its names put in.
    #[cfg_attr(
        not(any(feature = "diesel-async", feature = "sea-orm", feature = "_sqlx")),
        allow(dead_code, reason = "`write_one` is for drivers that send one statement at a time")
    )]
    Sql in outbox, slots OutboxSlot after JournalSql::COUNT, with journal: JournalSql;
    arm: [],
    audit: [INT8, INT8],
    audit_event in audit: [INT8, INT8, UUID],
    claim: [INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT8, INT8, TEXT, INTERVAL],
    claim_except in claim: [
        INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT8, INT8, TEXT, INTERVAL, TEXT_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY
    ],
    claim_fair in claim: [
        INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT8, INT8, TEXT, INTERVAL, TEXT_ARRAY, INT8_ARRAY
    ],
    claim_fair_except in claim: [
        INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT8, INT8, TEXT, INTERVAL, TEXT_ARRAY, INT8_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY
    ],
    claim_suspects in claim: [
        INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT8, INT8, TEXT, INTERVAL
    ],
    claim_suspects_except in claim: [
        INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT8, INT8, TEXT, INTERVAL, TEXT_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY
    ],
    clock: [],
    confirm: [UUID_ARRAY, TIMESTAMPTZ_ARRAY],
    confirm_keys in confirm: [UUID_ARRAY, TIMESTAMPTZ_ARRAY, INT8],
    counts: [],
    disarm: [],
    extend in settle: [UUID_ARRAY, TIMESTAMPTZ_ARRAY, INTERVAL],
    extend_in_turn in settle: [UUID_ARRAY, TIMESTAMPTZ_ARRAY, INTERVAL, INT4],
    extend_keys in keys: [TEXT, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, INTERVAL],
    find: [UUID],
    first_due: [],
    first_visible in claim: [INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT2, TEXT],
    first_visible_except in claim: [
        INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT2, TEXT, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY
    ],
    fold: [INT8, INTERVAL],
    forget_audit in forget: [INTERVAL, INT8, TIMESTAMPTZ],
    forget_seen in forget: [INTERVAL, INT8, TIMESTAMPTZ],
    horizon: [],
    in_transaction in shared/in_transaction: [],
    insert: [
        UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY,
        TEXT_ARRAY, TIMESTAMPTZ_ARRAY, INTERVAL_ARRAY, TEXT_ARRAY, JSONB_ARRAY, BYTEA_ARRAY, BOOL
    ],
    insert_one: [
        UUID, TEXT, TEXT, TEXT, TEXT, TEXT, INT2, TEXT, TIMESTAMPTZ, JSONB, BYTEA, INTERVAL, TEXT
    ],
    insert_one_due in insert_one: [
        UUID, TEXT, TEXT, TEXT, TEXT, TEXT, INT2, TEXT, TIMESTAMPTZ, JSONB, BYTEA
    ],
    is_in_transaction: [],
    key_standings in park: [TEXT_ARRAY, INT8],
    lag: [INT8],
    letters: [
        TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, INT8, TEXT, TEXT, TEXT, TEXT, TEXT, INT8, INT8, INT8
    ],
    letters_count in letters: [
        TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, INT8, TEXT, TEXT, TEXT, TEXT, TEXT, INT8, INT8, INT8
    ],
    letters_discard in letters_change: [UUID_ARRAY, TIMESTAMPTZ_ARRAY, TEXT, TEXT],
    letters_newest in letters: [
        TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, INT8, TEXT, TEXT, TEXT, TEXT, TEXT, INT8, INT8, INT8
    ],
    letters_requeue in letters_change: [UUID_ARRAY, TIMESTAMPTZ_ARRAY, TEXT, TEXT],
    lock in claim: [INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT8, INT8],
    lock_except in claim: [
        INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY, INT8, INT8, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY
    ],
    lock_tables: [],
    once in join: [TEXT, TEXT],
    parked_count in park: [INT8],
    parked_keys in park: [TEXT, INT8],
    partition_layout in shared/layout: [],
    partition_list in shared/partition_list: [],
    partition_idle in shared/partition_idle: [TEXT],
    partition_lock: [],
    partition_unlock: [],
    peek in find: [INT8],
    pause: [INT2, TEXT, TEXT, TEXT, TEXT, INT8],
    pauses: [INT8],
    pending_within in horizon: [INT8, TIMESTAMPTZ, INT8],
    present: [UUID_ARRAY],
    purge: [INTERVAL, INT8, BOOL, TIMESTAMPTZ],
    purgeable in purge: [INTERVAL, INT8, BOOL, TIMESTAMPTZ],
    ready in shared/ready: [BOOL],
    record: [UUID, BOOL],
    register: [TEXT_ARRAY, TEXT_ARRAY, INTERVAL, INT8],
    replay: [
        TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, INT8, TIMESTAMPTZ, INT8, TEXT, TEXT, TEXT, TEXT, TEXT,
        INT8, INT8
    ],
    replay_count in replay: [
        TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, INT8, TIMESTAMPTZ, INT8, TEXT, TEXT, TEXT, TEXT, TEXT
    ],
    replay_step in replay: [TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, INT8, INT8],
    rescue: [INTERVAL, INTERVAL, INTERVAL, INT8],
    resume in pause: [INT2, TEXT, TEXT, TEXT, TEXT],
    resume_key in park: [TEXT, UUID, TEXT, TEXT, TEXT],
    runs in keys: [TEXT_ARRAY, INT8_ARRAY, INT8],
    schema_known: [],
    schema_version: [],
    set_aside: [UUID, TIMESTAMPTZ, TEXT],
    settle_delete in settle: [
        UUID_ARRAY, TIMESTAMPTZ_ARRAY, INT2_ARRAY, INTERVAL_ARRAY, INT4_ARRAY, TEXT_ARRAY,
        TIMESTAMPTZ_ARRAY
    ],
    settle_in in join: [TEXT, TEXT, TEXT],
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
    settle_runs_delete in settle: [
        TEXT, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, INT2_ARRAY, INTERVAL_ARRAY, INT4_ARRAY, UUID_ARRAY, INT2_ARRAY,
        INT4_ARRAY, TEXT_ARRAY
    ],
    settle_runs_keep in settle: [
        TEXT, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, INT2_ARRAY, INTERVAL_ARRAY, INT4_ARRAY, UUID_ARRAY, INT2_ARRAY,
        INT4_ARRAY, TEXT_ARRAY
    ],
    shelve in keys: [INT8, INT8, INTERVAL, INT8],
    some_visible in claim: [INTERVAL, INTERVAL, TIMESTAMPTZ, UUID_ARRAY],
    standing: [UUID_ARRAY],
    tables_to_index: [TEXT_ARRAY],
    take_keys in keys: [
        TEXT, INT8, INT2, INTERVAL, BOOL, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8, INT8
    ],
    tenants: [TEXT, INT8, INT8],
    topics: [],
    transaction_status: [XID8],
    write_one in insert_one: [
        UUID, TEXT, TEXT, TEXT, TEXT, TEXT, INT2, TEXT, TIMESTAMPTZ, JSONB, BYTEA, INTERVAL, TEXT
    ],
    write_one_due in insert_one: [
        UUID, TEXT, TEXT, TEXT, TEXT, TEXT, INT2, TEXT, TIMESTAMPTZ, JSONB, BYTEA
    ],
    write_one_plain in insert_one: [UUID, TEXT, INT2, TEXT, TIMESTAMPTZ, BYTEA],
);

statements!(
    /// Every statement of a journal.
    JournalSql in journal, slots JournalSlot after 0;
    advance: [
        TEXT, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT8_ARRAY, INT8_ARRAY, BOOL_ARRAY, INT4_ARRAY,
        TEXT_ARRAY, INT8_ARRAY, BOOL_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, INT4_ARRAY,
        INTERVAL_ARRAY, TEXT_ARRAY
    ],
    append: [
        INT4_ARRAY, BOOL_ARRAY, INT4, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
        TIMESTAMPTZ_ARRAY, JSONB_ARRAY, BYTEA_ARRAY, UUID_ARRAY, UUID_ARRAY, INT2_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, INT8, TIMESTAMPTZ
    ],
    append_at_once in append_tagged: [
        INT4, UUID, TEXT, TEXT, TEXT, TIMESTAMPTZ, JSONB, BYTEA, UUID, UUID, INT4, INT4, TEXT,
        TIMESTAMPTZ, TEXT, INT8, TEXT_ARRAY
    ],
    append_held: [
        INT4_ARRAY, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, JSONB_ARRAY,
        BYTEA_ARRAY, UUID_ARRAY, UUID_ARRAY
    ],
    append_in: [
        INT4_ARRAY, BOOL_ARRAY, INT4, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
        TIMESTAMPTZ_ARRAY, JSONB_ARRAY, BYTEA_ARRAY, UUID_ARRAY, UUID_ARRAY, INT2_ARRAY,
        TEXT_ARRAY, TEXT_ARRAY, INT8, TIMESTAMPTZ
    ],
    append_one: [
        INT4_ARRAY, INT4, UUID, TEXT, TEXT_ARRAY, TEXT, TIMESTAMPTZ, JSONB, BYTEA, UUID, UUID
    ],
    append_session in append_tagged: [
        INT4, UUID, TEXT, TEXT, TEXT, TIMESTAMPTZ, JSONB, BYTEA, UUID, UUID, INT4, INT4, TEXT
    ],
    append_tagged: [
        INT4, UUID, TEXT, TEXT, TEXT, TIMESTAMPTZ, JSONB, BYTEA, UUID, UUID
    ],
    arm: [],
    beat: [TEXT],
    change: [TEXT, TEXT, TEXT, INT8],
    cursors: [],
    decide: [INT4_ARRAY, BOOL_ARRAY, INT4],
    disarm: [],
    doing: [INT4],
    due: [TEXT, INT8],
    followers: [],
    give in take: [TEXT, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY],
    head: [],
    hold: [INT4_ARRAY, BOOL_ARRAY, INT4, INT4],
    hold_append in hold_session: [INT4, BOOL, INT4, BOOL, INT4, INT4, BOOL],
    hold_session: [INT4, BOOL, INT4, BOOL, INT4],
    hold_two: [INT4, BOOL, INT4, BOOL, INT4, INT4],
    holders: [],
    join: [TEXT, INT4, INTERVAL, INTERVAL, INT8_ARRAY],
    keeper_lock: [],
    keeper_unlock: [],
    layout in shared/layout: [],
    leave: [TEXT],
    leaving: [],
    limit_session: [INT4],
    move_in: [TEXT, TEXT, TEXT, TEXT, TEXT, TEXT],
    node_lock: [INT4],
    nodes: [],
    nodes_free: [TEXT_ARRAY],
    parked_discard: [TEXT, TEXT, INT8],
    parked_list: [TEXT, TEXT, TEXT, TEXT, INT8, INT8],
    parked_retry: [TEXT, TEXT, INT8],
    purge: [INT8, INT8, TIMESTAMPTZ, INT8],
    purgeable: [INT8, INT8, TIMESTAMPTZ, INT8],
    ranges in shared/partition_list: [BOOL],
    ready in shared/ready: [BOOL],
    read: [INT2_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8, INT8, INT8, INT8],
    read_book: [TEXT, TEXT_ARRAY, INT8, INT8, INT8, INT8, TEXT_ARRAY],
    read_from_last in read: [INT2_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8, INT8, INT8, INT8, INT2_ARRAY, TEXT_ARRAY, TEXT_ARRAY],
    read_tag: [TEXT, TEXT_ARRAY, INT8, INT8, INT8, INT8],
    register: [TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY],
    release_session: [TEXT],
    schema_known: [],
    schema_version: [],
    session_limit: [],
    settle_parked: [TEXT, TEXT, TEXT, INT8, INT8, INT4, INTERVAL, TEXT],
    take: [TEXT, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY],
    tail: [INT8, INT8, INT8, INT8],
    tail_large in tail: [INT8, INT8, INT8, INT8],
    vitals: [],
    who: [],
);

/// What a transaction that carries an event or a fact does besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Writes {
    /// It is made durable where its session is not (I13).
    pub(crate) durable: bool,
    /// It rings for tails that sleep.
    pub(crate) rings: bool,
}

impl Writes {
    /// The names by which a text is had with the lines for it.
    fn lines<'n>(self) -> impl Iterator<Item = &'n str> {
        let lines = [(self.durable, "durable"), (self.rings, "rings")];
        lines.into_iter().filter_map(|(wanted, name)| wanted.then_some(name))
    }
}

/// A statement of a file: the one of this name, as this folder has it.
fn statement(file: &str, asked: &[&str], names: &Names, writes: Writes) -> String {
    let asked: Vec<&str> = asked.iter().map(|name| &**name).chain(writes.lines()).collect();
    names.put_into(&text(file, &asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Writes = Writes { durable: true, rings: true };
    const NOTHING: Writes = Writes { durable: false, rings: false };

    /// Holds W6.
    #[test]
    fn every_statement_names_as_many_parameters_as_it_has_types() {
        let load = |writes| Sql::load(&Names::new(None, None), writes);
        let (sql, relaxed) = (load(ALL), load(NOTHING));
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
            let Sql { insert, insert_one, insert_one_due, .. } = &sql;
            let Sql { write_one, write_one_due, write_one_plain, .. } = &sql;
            [insert, insert_one, insert_one_due, write_one, write_one_due, write_one_plain]
                .map(|insert| insert.text.contains("synchronous_commit"))
        };
        assert_eq!(touches(ALL), [true; 6]);
        assert_eq!(touches(NOTHING), [false; 6]);
    }

    /// Behind a transaction pooler nobody rings, and what is prepared must not.
    #[test]
    fn without_the_doorbell_no_append_rings() {
        let rings = |writes| {
            let JournalSql { append_at_once, append_held, append_one, .. } =
                JournalSql::load(&Names::new(None, None), writes);
            let JournalSql { append_session, append_tagged, .. } =
                JournalSql::load(&Names::new(None, None), writes);
            [append_at_once, append_held, append_one, append_session, append_tagged]
                .map(|append| append.text.contains("journal_ring(true)"))
        };
        assert_eq!(rings(ALL), [true; 5]);
        assert_eq!(rings(NOTHING), [false; 5]);
        let silent = |writes| {
            let JournalSql { append, append_in, .. } =
                JournalSql::load(&Names::new(None, None), writes);
            [append, append_in].map(|append| append.text.contains("'sendoff_journal.ring', 'off'"))
        };
        assert_eq!((silent(ALL), silent(NOTHING)), ([false; 2], [true; 2]));
    }
}
