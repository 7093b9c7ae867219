//! Sendoff on PostgreSQL: joins with the store.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::ground::postgres::Ground;
use crate::load::{Trace, Writers};
use crate::work::{Drain, Hot, Way};

const NOT_YET: &str = "the PostgreSQL store is not measured yet";

pub(super) async fn writers(_: &Ground, _: Way, _: usize) -> Result<Writers> {
    bail!(NOT_YET)
}

pub(super) async fn hot(_: &Ground, _: usize, _: Trace) -> Result<Hot> {
    bail!(NOT_YET)
}

pub(super) async fn drain(_: &Ground, _: &Drain) -> Result<Duration> {
    bail!(NOT_YET)
}
