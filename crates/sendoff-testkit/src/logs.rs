//! What the code under test writes to its log, line by line.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::DefaultGuard;
use tracing::{Level, Subscriber};
use tracing_subscriber::fmt::MakeWriter;

/// Lines of a log, as JSON. Cheap to clone; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Keeps what is written on this thread at this level and above, until the guard is dropped. A test whose
    /// runtime has one thread hears everything.
    pub fn keep(level: Level) -> (Self, DefaultGuard) {
        let (lines, subscriber) = Self::at(level);
        (lines, tracing::subscriber::set_default(subscriber))
    }

    /// Keeps what is written on any thread of this process at this level and above, from now on. Once in a process.
    ///
    /// # Panics
    ///
    /// Where somebody else does.
    pub fn everywhere(level: Level) -> Self {
        let (lines, subscriber) = Self::at(level);
        let set = tracing::subscriber::set_global_default(subscriber);
        set.expect("nobody else listens to the whole process");
        lines
    }

    fn at(level: Level) -> (Self, impl Subscriber + Send + Sync) {
        let lines = Self::default();
        let format = tracing_subscriber::fmt().json().with_max_level(level);
        let subscriber = format.with_writer(lines.clone()).finish();
        (lines, subscriber)
    }

    /// All of it.
    pub fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The lines with this in them.
    pub fn with(&self, needle: &str) -> Vec<String> {
        let text = self.text();
        text.lines().filter(|line| line.contains(needle)).map(str::to_owned).collect()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
