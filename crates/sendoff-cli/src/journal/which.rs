//! Which pairs a command is about.

use anyhow::bail;
use clap::Args;
use sendoff::journal::publish::Which;

use crate::database::Database;

/// Pairs by their names, as filters.
#[derive(Debug, Args)]
pub(super) struct Filter {
    /// Only pairs of this topic
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
    /// Only pairs of this publisher
    #[arg(long, value_name = "NAME")]
    publisher: Option<String>,
}

impl From<Filter> for Which {
    fn from(filter: Filter) -> Self {
        Self { topic: filter.topic, publisher: filter.publisher }
    }
}

/// What every change of pairs is told.
#[derive(Debug, Args)]
pub(super) struct Order {
    #[command(flatten)]
    pub(super) database: Database,
    #[command(flatten)]
    pub(super) pairs: Chosen,
    /// Report as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Pairs to be changed: all of them only where that is said.
#[derive(Debug, Args)]
pub(super) struct Chosen {
    #[command(flatten)]
    filter: Filter,
    /// All pairs
    #[arg(long, conflicts_with_all = ["topic", "publisher"])]
    all: bool,
}

impl Chosen {
    pub(super) fn which(self) -> anyhow::Result<Which> {
        let which = Which::from(self.filter);
        if which == Which::all() && !self.all {
            bail!("which pairs? Give --topic, --publisher or both, or --all");
        }
        Ok(which)
    }
}
