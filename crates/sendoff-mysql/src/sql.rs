//! The statements: texts with gaps for values.

use sendoff_engine::sql_file;
use sendoff_engine::store::frame::text;

use crate::names::Names;
use crate::wire::Literal;

/// One file: a statement, or several that are sent together.
#[derive(Debug)]
pub(crate) struct Statement {
    /// What stands before the first gap.
    start: String,
    /// Each gap, and what stands after it.
    gaps: Vec<(String, String)>,
}

impl Statement {
    fn new(file: &str, name: &str, names: &Names) -> Self {
        let text = text(file, &[name]);
        // Gaps first: the name of a database may hold anything.
        let mut parts = text.split(':');
        let start = names.put_into(parts.next().unwrap_or_default());
        let gaps = parts.map(|part| {
            let end = part.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            let (gap, rest) = part.split_at(end.unwrap_or(part.len()));
            (gap.to_owned(), names.put_into(rest))
        });
        Self { start, gaps: gaps.collect() }
    }

    /// The text with a value in each of its gaps, `:name`.
    pub(crate) fn with(&self, values: &[(&str, &Literal)]) -> String {
        let room: usize = values.iter().map(|(_, value)| value.as_str().len()).sum();
        let mut filled = String::with_capacity(self.start.len() + room + 1_024);
        filled.push_str(&self.start);
        for (gap, rest) in &self.gaps {
            let value = values.iter().find(|(name, _)| name == gap);
            filled.push_str(value.map_or("null", |(_, value)| value.as_str()));
            filled.push_str(rest);
        }
        filled
    }

    /// A statement without gaps.
    pub(crate) fn text(&self) -> &str {
        &self.start
    }
}

macro_rules! statements {
    (
        $(#[$doc:meta])* $all:ident in $folder:ident $(, with $inner:ident: $kind:ident)?;
        $($(#[$note:meta])* $name:ident $(in $file:ident $(/ $shared:ident)?)?),* $(,)?
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $all {
            $(pub(crate) $inner: $kind,)?
            $($(#[$note])* pub(crate) $name: Statement,)*
        }

        impl $all {
            /// Puts the checked names in.
            pub(crate) fn load(names: &Names) -> Self {
                Self {
                    $($inner: $kind::load(names),)?
                    $($name: Statement::new(
                        sql_file!($folder/$name $(in $file $(/ $shared)?)?),
                        stringify!($name),
                        names,
                    ),)*
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
    Sql in outbox, with journal: JournalSql;
    ahead,
    at,
    audit,
    audit_event in audit,
    begun,
    claim,
    claim_except in claim,
    claim_fair in claim,
    claim_suspects in claim,
    claim_suspects_except in claim,
    claimed,
    clock,
    confirm,
    confirm_keys in runs,
    counts,
    delete_in_line in settle_delete,
    durable,
    #[cfg_attr(
        not(any(feature = "sea-orm", feature = "_sqlx")),
        expect(dead_code, reason = "only these drivers need it")
    )]
    end_session,
    end_runs in settle_runs,
    ended_runs in settle_runs,
    extend,
    extend_keys,
    fair_tenant in claim,
    find,
    first_due,
    first_visible in claim,
    first_visible_except in claim,
    fold,
    forget_audit in forget,
    forget_seen in forget,
    forgetful in shared/forgetful,
    found,
    held_keys in extend_keys,
    hold,
    horizon,
    in_transaction,
    insert,
    inserted,
    key_standing in park,
    lag,
    letters,
    letters_count in letters,
    letters_discard in letters_change,
    letters_newest in letters,
    letters_requeue in letters_change,
    letters_standing,
    lock,
    lock_entry,
    lock_keyed in lock,
    lock_runs in settle_runs,
    look,
    lock_visible in claim,
    lock_visible_except in claim,
    locked,
    no_duplicates,
    note,
    park in end_keyed,
    park_locked in end_keyed,
    park_runs in settle_runs,
    parked_count in park,
    parked_keys in park,
    once,
    once_durable in once,
    partition_create,
    partition_dead,
    partition_drop,
    partition_end,
    partition_list,
    partition_moving,
    partition_pending,
    partition_tail,
    peek in find,
    pause,
    pauses,
    pending_within in horizon,
    present,
    purge,
    purge_dead in purge,
    purgeable in purge,
    purgeable_dead in purge,
    ready,
    record,
    replay,
    replay_count in replay,
    replay_step in replay,
    rescue,
    register,
    registered in register,
    resume in pause,
    resume_key in park,
    routines in shared/routines,
    runs,
    schema_known in shared/schema_known,
    schema_version,
    set_aside,
    settle,
    settle_delete,
    settle_in,
    settle_in_delete in settle_in,
    settle_in_line in settle,
    settled,
    shelve,
    some_keys in take_keys,
    some_suspect_keys in take_keys,
    some_suspects in look,
    some_visible in look,
    standing,
    still_begun,
    take_keys,
    take_suspect_keys in take_keys,
    taken_keys in take_keys,
    tally,
    tally_in_line in tally,
    tenants,
    tenants_ready in tenants,
    topics,
    turn,
    wake_keys in end_keyed,
    walk_keys in take_keys,
    was_settled_in in settle_in,
);

statements!(
    /// Every statement of a journal.
    JournalSql in journal;
    advance,
    anchor,
    anchors,
    appended,
    asleep,
    awake,
    beat,
    block,
    change,
    clash,
    clash_in,
    closed,
    cursors,
    doing,
    due,
    durable,
    first,
    floor,
    floor_up,
    followers,
    free,
    gate,
    give in take,
    held_cursors,
    history,
    hold,
    hold_cursors,
    holders,
    hole,
    hole_close,
    hole_open,
    hole_taken,
    insert,
    isolated,
    join,
    known,
    last,
    last_by_tag,
    least,
    leave,
    lock,
    mark,
    move_in,
    node_lock,
    nodes,
    nodes_free,
    now,
    numbered,
    others,
    park,
    parked_discard,
    parked_list,
    parked_retry,
    passed,
    patience,
    patience_over,
    purge,
    purge_find,
    purge_hold,
    purge_tags,
    purgeable,
    rarest,
    read,
    ready,
    register,
    savepoint,
    schema_version,
    search_all,
    search_tag,
    search_type,
    settle_parked,
    state,
    tags,
    tail in read,
    take,
    taken,
    vitals,
    void,
    walk,
    was_moved_in in move_in,
    why,
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds W6.
    #[test]
    fn every_gap_is_filled_and_nothing_else_is_changed() {
        let sql = Sql::load(&Names::new(None, None));
        let (limit, age) = (Literal::count(1), Literal::count(2));
        let text = sql.purgeable.with(&[("limit", &limit), ("cutoff", &age)]);
        assert!(text.contains("aside_at < 2") && text.contains("limit 1)"), "{text}");
        for statement in sql.all() {
            let text = statement.with(&[]);
            assert!(!text.contains("sendoff.") && !text.contains("--"), "{text}");
            assert!(!text.is_empty() && !text.ends_with([';', '\n']), "{text}");
        }
    }
}
