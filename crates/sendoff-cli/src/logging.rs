use std::io::{self, Write};

use anyhow::Context;
use indicatif::MultiProgress;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::cli::LogFormat;

const FILTER: &str = "SENDOFF_LOG";

/// Sends log lines to stderr, past whatever `screen` draws there.
pub(crate) fn start(
    format: LogFormat,
    default_filter: &str,
    screen: MultiProgress,
) -> anyhow::Result<()> {
    let wanted = std::env::var(FILTER).unwrap_or_else(|_| default_filter.to_owned());
    let filter = EnvFilter::try_new(&wanted).with_context(|| {
        format!("{FILTER}={wanted:?} is no filter; write a level such as `warn`, or `target=level`")
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Screen(screen));
    match format {
        LogFormat::Text => lines.with_ansi(false).init(),
        LogFormat::Json => lines.json().init(),
    }
    Ok(())
}

/// Stderr, with the live view out of the way while a line is written.
#[derive(Clone)]
struct Screen(MultiProgress);

impl<'a> MakeWriter<'a> for Screen {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
