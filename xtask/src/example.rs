//! The examples: which there are, and what each needs.

use std::fmt::Write;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::plan::Step;
use crate::run::{self, Workspace};
use crate::services::Kind;
use crate::services::for_tests::Servers;
use crate::services::programs::install_for_build;

/// Every example: its name, its features, the server it is about, and what it shows.
const EXAMPLES: [(&str, &str, Option<Kind>, &str); 16] = [
    ("axum_service", "postgres-sqlx", PG, "an HTTP service on PostgreSQL, through axum and sqlx"),
    ("deadpool", "postgres", PG, "PostgreSQL through deadpool"),
    ("sea_orm", "postgres-sea-orm", PG, "PostgreSQL through sea-orm"),
    ("diesel_async", "postgres-diesel-async", PG, "PostgreSQL through diesel-async"),
    ("writer_and_worker", "postgres-sqlx", PG, "two processes, ended by SIGTERM"),
    ("mysql", "mysql", Some(Kind::Mariadb), "MySQL or MariaDB through mysql_async"),
    ("quick_start", "sqlite", None, "the embedded store"),
    ("retries_and_dead_letters", "sqlite", None, "what follows a failure"),
    ("your_own_transaction", "sqlite-sqlx", None, "transactions that you hold"),
    ("two_databases", "sqlite", None, "effects that happen once, in another database"),
    ("inbox", "sqlite-sqlx", None, "effects that are made exactly once, by both ways"),
    ("batch_relay", "sqlite", None, "events in batches"),
    ("to_nats", "sqlite,sink-nats", Some(Kind::Nats), "from a transaction to NATS JetStream"),
    ("to_kafka", "sqlite,sink-kafka", None, "from a transaction to Kafka, a mock cluster"),
    ("webhooks", "sqlite,sink-webhook", None, "signed requests, and a receiver that checks them"),
    ("wallets", "admin,sqlite", None, "a journal with publishers, operated over HTTP"),
];
const PG: Option<Kind> = Some(Kind::Postgres);

/// Run an example, with the server that it needs while it lasts.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub(crate) struct Example {
    /// Which one.
    #[arg(value_parser = PossibleValuesParser::new(EXAMPLES.map(|(name, ..)| name)))]
    name: String,
    /// Arguments for the example itself.
    #[arg(last = true)]
    extra: Vec<String>,
}

fn help() -> String {
    let mut help = "Examples:\n".to_owned();
    for (name, _, _, about) in EXAMPLES {
        let _ = writeln!(help, "  cargo xtask example {name:26} {about}");
    }
    help.push_str("\nDATABASE_URL leads one to a server of yours, and NATS_URL to a broker; then none is started.");
    help
}

impl Example {
    pub(crate) fn run(&self, workspace: &Workspace) -> Result<(), run::Error> {
        let Some((name, features, needs, _)) =
            EXAMPLES.into_iter().find(|(name, ..)| *name == self.name)
        else {
            return Ok(());
        };
        if features.contains("sink-kafka") {
            install_for_build()?;
        }
        let variable = if needs == Some(Kind::Nats) { "NATS_URL" } else { "DATABASE_URL" };
        let servers = match needs {
            Some(kind) if std::env::var_os(variable).is_none() => {
                Servers::only(&workspace.services_folder(), kind)?
            }
            _ => Servers::default(),
        };
        let url = servers.exports().first().map(|(_, url)| (variable.to_owned(), url.clone()));
        let step = step(name, features, &self.extra);
        workspace.run(&[step], url.as_slice())
    }
}

fn step(name: &str, features: &str, extra: &[String]) -> Step {
    let line = format!("run --quiet --package sendoff --example {name} --features {features} --");
    let mut step = Step::new("example", &line);
    step.arguments.extend_from_slice(extra);
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_run_with_what_it_needs() {
        let step = step("axum_service", "postgres-sqlx", &["--self-test".into()]);
        let line = "run --quiet --package sendoff --example axum_service --features postgres-sqlx -- --self-test";
        assert_eq!(step.arguments.join(" "), line);
    }

    /// Every example of the crate is here, with the features that it says it requires.
    #[test]
    fn every_example_is_listed() {
        let manifest = include_str!("../../crates/sendoff/Cargo.toml");
        let mut there: Vec<_> = manifest
            .split("[[example]]")
            .skip(1)
            .filter_map(|part| part.split('"').nth(1).map(str::to_owned))
            .collect();
        there.sort_unstable();
        let mut listed: Vec<_> = EXAMPLES.iter().map(|(name, ..)| (*name).to_owned()).collect();
        listed.sort_unstable();
        assert_eq!(listed, there);
    }
}
