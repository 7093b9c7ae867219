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
    ($($(#[$note:meta])* $name:ident $(in $file:ident)?),* $(,)?) => {
        /// Every statement, with the names of one outbox put in.
        #[derive(Debug)]
        pub(crate) struct Sql {
            $($(#[$note])* pub(crate) $name: Statement,)*
        }

        impl Sql {
            /// Puts the checked names in.
            pub(crate) fn load(names: &Names) -> Self {
                Self {
                    $($name: Statement::new(sql_file!($name $($file)?), stringify!($name), names),)*
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
    ahead,
    at,
    begun,
    claim,
    claim_except in claim,
    claim_suspects in claim,
    claim_suspects_except in claim,
    claimed,
    confirm,
    counts,
    durable,
    #[cfg_attr(
        not(any(feature = "sea-orm", feature = "sqlx")),
        expect(dead_code, reason = "only these drivers need it")
    )]
    end_session,
    extend,
    find,
    first_visible in claim,
    first_visible_except in claim,
    fold,
    found,
    hold,
    in_transaction,
    insert,
    inserted,
    journal_advance,
    journal_all,
    journal_anchor,
    journal_anchors,
    journal_appended,
    journal_asleep,
    journal_awake,
    journal_beat,
    journal_block,
    journal_by_tag,
    journal_by_type,
    journal_change,
    journal_clash,
    journal_clash_in,
    journal_closed,
    journal_cursors,
    journal_doing,
    journal_due,
    journal_durable,
    journal_first,
    journal_floor,
    journal_floor_up,
    journal_followers,
    journal_free,
    journal_gate,
    journal_give in journal_take,
    journal_held_cursors,
    journal_hold_cursors,
    journal_holders,
    journal_hole,
    journal_history,
    journal_hold,
    journal_hole_close,
    journal_hole_open,
    journal_hole_taken,
    journal_insert,
    journal_isolated,
    journal_join,
    journal_known,
    journal_last,
    journal_last_by_tag,
    journal_least,
    journal_leave,
    journal_lock,
    journal_mark,
    journal_node_lock,
    journal_nodes,
    journal_nodes_free,
    journal_now,
    journal_numbered,
    journal_others,
    journal_park,
    journal_parked_discard,
    journal_parked_list,
    journal_parked_retry,
    journal_passed,
    journal_patience,
    journal_patience_over,
    journal_purge,
    journal_purge_find,
    journal_purge_hold,
    journal_purge_tags,
    journal_purgeable,
    journal_rarest,
    journal_read,
    journal_ready,
    journal_register,
    journal_savepoint,
    journal_schema_version,
    journal_settle_parked,
    journal_state,
    journal_tags,
    journal_tail in journal_read,
    journal_take,
    journal_taken,
    journal_vitals,
    journal_void,
    journal_walk,
    journal_why,
    lock,
    lock_entry,
    lock_visible in claim,
    locked,
    no_duplicates,
    note,
    oldest_lag,
    partition_create,
    partition_dead,
    partition_drop,
    partition_end,
    partition_list,
    partition_moving,
    partition_pending,
    partition_tail,
    present,
    purge,
    purgeable,
    ready,
    rescue,
    schema_known,
    schema_version,
    set_aside,
    settle,
    settle_delete,
    settled,
    still_begun,
    tally,
    topics,
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds W6.
    #[test]
    fn every_gap_is_filled_and_nothing_else_is_changed() {
        let sql = Sql::load(&Names::new(None, None));
        let (limit, age) = (Literal::count(1), Literal::count(2));
        let text = sql.purgeable.with(&[("limit", &limit), ("older_than", &age)]);
        assert!(text.contains("interval 2 microsecond") && text.contains("limit 1)"), "{text}");
        for statement in sql.all() {
            let text = statement.with(&[]);
            assert!(!text.contains("sendoff.") && !text.contains("--"), "{text}");
            assert!(!text.is_empty() && !text.ends_with([';', '\n']), "{text}");
        }
    }
}
