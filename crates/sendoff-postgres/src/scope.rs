//! Which rows a claim or a lock is about, and how many of them, as parameters.

use std::time::Duration;

use sendoff_core::{EventId, Timestamp};
use sendoff_engine::store::{Claim, Except, Lock};
use tokio_postgres::types::ToSql;

use crate::claim::kinds;
use crate::sift::wired;
use crate::wire::{At, Id, Span};

type Param<'p> = &'p (dyn ToSql + Sync);

/// The parameters that statements of claims and locks have in common.
pub(crate) struct Scope<'a> {
    skip_recent: Span,
    window: Option<Span>,
    from: Option<At>,
    passed: Vec<Id>,
    limit: i64,
    bytes: i64,
    aggregates: Vec<&'a str>,
    kinds: Vec<&'a str>,
    except: Except<'a>,
}

/// How many of these are the first ones: which rows can be seen at all.
pub(crate) const VISIBLE: usize = 4;

impl<'a> Scope<'a> {
    pub(crate) fn of_claim(claim: &Claim<'a>, limit: usize, passed: &[EventId]) -> Self {
        let rows = (claim.skip_recent, claim.window, claim.from);
        Self::new(rows, claim.bytes, claim.except, limit, passed)
    }

    pub(crate) fn of_lock(lock: &Lock<'a>, limit: usize, passed: &[EventId]) -> Self {
        let rows = (lock.skip_recent, lock.window, lock.from);
        Self::new(rows, lock.bytes, lock.except, limit, passed)
    }

    fn new(
        (skip_recent, window, from): (Duration, Option<Duration>, Option<Timestamp>),
        bytes: usize,
        except: Except<'a>,
        limit: usize,
        passed: &[EventId],
    ) -> Self {
        let (aggregates, kinds) = kinds(except.kinds);
        Self {
            skip_recent: Span(skip_recent),
            window: window.map(Span),
            from: from.map(At),
            passed: wired(passed),
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
            aggregates,
            kinds,
            except,
        }
    }

    /// As the statements number them: what is common, then the `own` ones, and where something is left out, what.
    pub(crate) fn params<'p>(&'p self, own: &[Param<'p>]) -> Vec<Param<'p>> {
        let Self { skip_recent, window, from, passed, limit, bytes, .. } = self;
        let mut params: Vec<Param<'p>> = vec![skip_recent, window, from, passed, limit, bytes];
        params.extend_from_slice(own);
        if !self.except.is_empty() {
            params.extend([&self.aggregates as Param<'p>, &self.kinds, &self.except.types]);
        }
        params
    }
}
