//! The only place that writes to stdout.

use std::io::{self, Write};

/// Data: what a script would read.
pub(crate) fn data(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        // Whoever read us has heard enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// For the person who is watching.
pub(crate) fn note(text: &str) {
    // Without a stderr there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub(crate) fn complain(error: &anyhow::Error) {
    note(&format!("error: {error:#}"));
}
