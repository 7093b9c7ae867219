//! The statements: texts with gaps for values.

use crate::names::Names;
use crate::wire::Literal;

/// One file: a statement, or several that are sent together.
#[derive(Debug)]
pub(crate) struct Statement {
    /// What stands before the first gap.
    start: String,
    /// Each gap, and what stands behind it.
    gaps: Vec<(&'static str, String)>,
}

impl Statement {
    fn new(file: &'static str, names: &Names) -> Self {
        // Gaps first: the name of a database may hold anything.
        let mut parts = file.split(':');
        let start = names.put_into(parts.next().unwrap_or_default().trim_start());
        let gaps = parts.map(|part| {
            let end = part.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            let (gap, rest) = part.split_at(end.unwrap_or(part.len()));
            (gap, names.put_into(rest))
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
    ($($(#[$note:meta])* $name:ident),* $(,)?) => {
        /// Every statement, with the names of one outbox put in.
        #[derive(Debug)]
        pub(crate) struct Sql {
            $($(#[$note])* pub(crate) $name: Statement,)*
        }

        impl Sql {
            /// Puts the checked names in.
            pub(crate) fn load(names: &Names) -> Self {
                Self {
                    $($name: Statement::new(
                        const { body(include_str!(concat!("../sql/", stringify!($name), ".sql"))) },
                        names,
                    ),)*
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
    at,
    begun,
    claim,
    claim_suspects,
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
    first_visible,
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
    journal_give,
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
    journal_register,
    journal_savepoint,
    journal_schema_version,
    journal_settle_parked,
    journal_state,
    journal_tags,
    journal_tail,
    journal_take,
    journal_taken,
    journal_vitals,
    journal_void,
    journal_walk,
    journal_why,
    lock,
    lock_entry,
    lock_visible,
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

/// A file's text without the comment it begins with, and without its last line break.
const fn body(file: &'static str) -> &'static str {
    let mut rest = file.as_bytes();
    while let [b'-', b'-', line @ ..] = rest {
        rest = line;
        while let [letter, after @ ..] = rest {
            rest = after;
            if *letter == b'\n' {
                break;
            }
        }
    }
    while let [before @ .., b'\n'] = rest {
        rest = before;
    }
    match std::str::from_utf8(rest) {
        Ok(text) => text,
        Err(_) => panic!("a file of text"),
    }
}

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
