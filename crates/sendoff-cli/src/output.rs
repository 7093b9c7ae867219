//! The only place that writes to stdout.

use std::io::{self, Write};

/// Data: what a script would read.
pub(crate) fn data(text: &str) -> io::Result<()> {
    stream(text).map(drop)
}

/// Data of which there may be more; false once whoever read us has heard enough.
pub(crate) fn stream(text: &str) -> io::Result<bool> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true),
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
