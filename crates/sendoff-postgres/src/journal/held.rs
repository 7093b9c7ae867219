//! An append by whoever has a condition's locks: only keys that are missing are taken. Where it was decided
//! under them nothing is checked, since the locks are its condition.

use sendoff_core::journal::{Append, Condition, Fact};
use sendoff_engine::journal::{AppendError, MemoryKey};

use super::append::{Param, Params, started_at};
use super::reading::Tagged;
use super::session::SessionLocks;
use super::store::PostgresJournal;
use crate::sql::{Sql, Statement};
use crate::wire::At;

pub(super) struct Held<'a> {
    params: Params<'a>,
    manner: Manner<'a>,
    session: Option<&'a SessionLocks>,
    check: Option<&'a Check>,
}

/// A condition about one tag, to be checked by the statement that appends.
pub(super) struct Check {
    tagged: Tagged,
    after: i64,
    run: At,
}

impl Check {
    /// None where there is no condition, or one about more than a tag, or more than one fact.
    pub(super) fn of(append: &Append) -> Option<Self> {
        tag(append.facts())?;
        let Condition { query, after, run } = append.condition()?;
        Some(Self { tagged: Tagged::of(query)?, after: (*after).into(), run: started_at((*run)?) })
    }

    pub(super) fn key(&self) -> MemoryKey {
        MemoryKey::of((&self.tagged.tag, &self.tagged.types))
    }
}

/// What it takes.
enum Manner<'a> {
    /// One fact with one tag, and at most one key.
    Tagged { tag: &'a str, key: Option<i32> },
    /// Facts, and keys.
    Facts { keys: Vec<i32> },
    /// The journal alone, which the function takes.
    Alone,
}

impl<'a> Held<'a> {
    /// By whoever has the locks of the keys `held`: a transaction, or a session.
    pub(super) fn new(
        journal: &PostgresJournal,
        facts: &'a [Fact],
        held: &[i32],
        session: Option<&'a SessionLocks>,
    ) -> Result<Self, AppendError> {
        let params = Params::under(journal, facts, None)?;
        let manner = if params.alone.contains(&true) {
            Manner::Alone
        } else {
            let keys: Vec<_> =
                params.keys.iter().copied().filter(|key| !held.contains(key)).collect();
            match (tag(facts), &keys[..]) {
                (Some(tag), []) => Manner::Tagged { tag, key: None },
                (Some(tag), [key]) => Manner::Tagged { tag, key: Some(*key) },
                _ => Manner::Facts { keys },
            }
        };
        Ok(Self { params, manner, session, check: None })
    }

    /// The same under a condition; none where a function has to look whether it holds.
    pub(super) fn checking(self, check: &'a Check) -> Option<Self> {
        self.releases().then_some(Self { check: Some(check), ..self })
    }

    /// Whether the session has no locks any more once the statement has answered with a row.
    pub(super) fn releases(&self) -> bool {
        matches!((&self.manner, self.session), (Manner::Tagged { .. }, Some(_)))
    }

    pub(super) fn statement<'s>(&self, sql: &'s Sql) -> &'s Statement {
        match self.manner {
            Manner::Tagged { .. } if self.check.is_some() => &sql.journal.append_at_once,
            Manner::Tagged { .. } if self.session.is_some() => &sql.journal.append_session,
            Manner::Tagged { .. } => &sql.journal.append_tagged,
            Manner::Facts { .. } => &sql.journal.append_held,
            Manner::Alone => &sql.journal.append,
        }
    }

    /// As the statement numbers them.
    pub(super) fn in_order(&self) -> Vec<Param<'_>> {
        let params = &self.params;
        let (keys, facts): (Param<'_>, _) = match &self.manner {
            Manner::Tagged { tag, key } => (key, params.first(tag)),
            Manner::Facts { keys } => (keys, params.columns()),
            Manner::Alone => return params.in_order(),
        };
        let mut all = Vec::with_capacity(17);
        all.push(keys);
        all.extend(facts);
        if self.releases()
            && let Some(SessionLocks { shared, alone, silence }) = self.session
        {
            all.extend([shared as Param<'_>, alone, silence]);
        }
        if let Some(Check { tagged: Tagged { tag, types }, after, run }) = self.check {
            all.extend([run as Param<'_>, tag, after, types]);
        }
        all
    }
}

/// The one tag of one fact.
fn tag(facts: &[Fact]) -> Option<&str> {
    let [fact] = facts else { return None };
    let mut tags = fact.tags().iter();
    let (Some(tag), None) = (tags.next(), tags.next()) else { return None };
    Some(tag.as_str())
}
