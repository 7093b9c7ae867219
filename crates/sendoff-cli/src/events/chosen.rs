//! Which letters are meant.

use anyhow::bail;
use clap::Args;
use sendoff::letters::LetterFilter;
use sendoff::{EventId, Timestamp};

/// Events by what they are about.
#[derive(Debug, Clone, Args)]
pub(super) struct About {
    /// Only events of this type
    #[arg(long = "type", value_name = "NAME")]
    pub(super) event_type: Option<String>,
    /// Only events about this kind of aggregate
    #[arg(long, value_name = "NAME")]
    pub(super) aggregate_type: Option<String>,
    /// Only events about this aggregate
    #[arg(long, value_name = "ID")]
    pub(super) aggregate_id: Option<String>,
    /// Only events of this tenant
    #[arg(long, value_name = "ID")]
    pub(super) tenant: Option<String>,
}

/// Letters by what is true of all of them.
#[derive(Debug, Clone, Args)]
pub(super) struct Filter {
    #[command(flatten)]
    about: About,
    /// Only those that died at this time or later, such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "TIME")]
    died_from: Option<Timestamp>,
    /// Only those that died before this time
    #[arg(long, value_name = "TIME")]
    died_to: Option<Timestamp>,
    /// Only those with this in their last error, letter by letter
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only those with so many attempts or more
    #[arg(long, value_name = "COUNT")]
    min_attempts: Option<u32>,
    /// Only those with so many attempts or fewer
    #[arg(long, value_name = "COUNT")]
    max_attempts: Option<u32>,
}

impl From<Filter> for LetterFilter {
    fn from(filter: Filter) -> Self {
        Self {
            event_type: filter.about.event_type,
            aggregate_type: filter.about.aggregate_type,
            aggregate_id: filter.about.aggregate_id,
            tenant_id: filter.about.tenant,
            died_from: filter.died_from,
            died_to: filter.died_to,
            error: filter.error,
            attempts_least: filter.min_attempts,
            attempts_most: filter.max_attempts,
        }
    }
}

/// Letters to be changed: all of them only where that is said.
#[derive(Debug, Clone, Args)]
pub(super) struct Selection {
    /// The events, by their ids
    #[arg(value_name = "ID")]
    ids: Vec<EventId>,
    #[command(flatten)]
    filter: Filter,
    /// All dead letters
    #[arg(long)]
    all: bool,
}

/// Which letters are to be changed.
pub(super) enum Chosen {
    These(Vec<EventId>),
    Every(LetterFilter),
}

impl Selection {
    pub(super) fn chosen(self) -> anyhow::Result<Chosen> {
        let filter = LetterFilter::from(self.filter);
        match (self.ids.is_empty(), filter.is_everything(), self.all) {
            (false, true, false) => Ok(Chosen::These(self.ids)),
            (true, false, false) | (true, true, true) => Ok(Chosen::Every(filter)),
            (true, true, false) => {
                bail!("which letters? Give their ids, or what is true of them, or --all")
            }
            _ => bail!("give ids, or what is true of the letters, or --all: one of the three"),
        }
    }
}
