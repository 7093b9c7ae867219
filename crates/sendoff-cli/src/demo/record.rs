//! The handler's own record of what it received.
//!
//! The handler plays another system, so what it received must not be forgotten when this process
//! is killed: each successful delivery is one line of a file, appended with a single write, or a row
//! of a table, committed.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::PathBuf;

use anyhow::Context;
use sendoff::{EventId, HandlerResult};
use sendoff_testkit::history::Digest;

use super::place::{MysqlRecord, PostgresRecord};

/// A delivery that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) id: EventId,
    /// Which run of the demo received it, from 1.
    pub(crate) run: u32,
    pub(crate) attempt: u32,
    pub(crate) digest: Digest,
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, run, attempt, digest } = self;
        write!(f, "{id} {run} {attempt} {:016x}", digest.as_u64())
    }
}

impl Received {
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split(' ');
        let received = Self {
            id: parts.next()?.parse().ok()?,
            run: parts.next()?.parse().ok()?,
            attempt: parts.next()?.parse().ok()?,
            digest: Digest::from_u64(u64::from_str_radix(parts.next()?, 16).ok()?),
        };
        parts.next().is_none().then_some(received)
    }

    /// A row of a table.
    pub(crate) fn read(id: [u8; 16], run: i64, attempt: i64, digest: i64) -> anyhow::Result<Self> {
        let (id, digest) = (EventId::from_bytes(id), Digest::from_u64(digest.cast_unsigned()));
        Ok(Self { id, run: run.try_into()?, attempt: attempt.try_into()?, digest })
    }

    /// The same row, to be written.
    pub(crate) fn columns(&self) -> ([u8; 16], i64, i64, i64) {
        let Self { id, run, attempt, digest } = *self;
        (*id.as_bytes(), run.into(), attempt.into(), digest.as_u64().cast_signed())
    }
}

/// Where the handler writes down what it received.
#[derive(Debug)]
pub(crate) enum Record {
    File(FileRecord),
    Postgres(PostgresRecord),
    Mysql(MysqlRecord),
}

impl Record {
    /// Everything so far.
    pub(crate) async fn load(&mut self) -> anyhow::Result<Vec<Received>> {
        match self {
            Self::File(file) => file.load().with_context(|| file.path.display().to_string()),
            Self::Postgres(record) => record.load().await,
            Self::Mysql(record) => record.load().await,
        }
    }

    /// Adds a delivery. Once this returned, killing the process does not undo it.
    pub(crate) async fn add(&self, received: Received) -> HandlerResult {
        match self {
            // A few bytes to the system's cache: quicker than asking another thread to write them.
            Self::File(file) => Ok(file.add(received)?),
            Self::Postgres(record) => record.add(received).await,
            Self::Mysql(record) => record.add(received).await,
        }
    }
}

#[derive(Debug)]
pub(crate) struct FileRecord {
    file: File,
    path: PathBuf,
}

impl FileRecord {
    /// `file` is open to append.
    pub(crate) fn new(file: File, path: PathBuf) -> Self {
        Self { file, path }
    }

    /// Everything so far. The beginning of a line that was never finished is cut off.
    fn load(&mut self) -> anyhow::Result<Vec<Received>> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::new(&self.file);
        let (mut all, mut line, mut whole) = (Vec::new(), String::new(), 0);
        while reader.read_line(&mut line)? > 0 {
            let Some(text) = line.strip_suffix('\n') else { break };
            let number = all.len() + 1;
            let received = Received::parse(text)
                .with_context(|| format!("line {number} of the deliveries is not a delivery"))?;
            all.push(received);
            whole += line.len() as u64;
            line.clear();
        }
        self.file.set_len(whole)?;
        Ok(all)
    }

    fn add(&self, received: Received) -> io::Result<()> {
        let line = format!("{received}\n");
        let written = (&self.file).write(line.as_bytes())?;
        // A second write could land after another thread's line.
        if written == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.file.set_len(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(run: u32) -> Received {
        Received { id: EventId::generate(), run, attempt: 2, digest: Digest::from_u64(77) }
    }

    fn record() -> FileRecord {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deliveries");
        let file = File::options().read(true).append(true).create(true).open(&path).unwrap();
        FileRecord::new(file, path)
    }

    #[test]
    fn what_was_added_is_loaded_in_order() {
        let mut record = record();
        let all = [received(1), received(1), received(2)];
        all.iter().for_each(|&received| record.add(received).unwrap());
        assert_eq!(record.load().unwrap(), all);
    }

    #[test]
    fn the_beginning_of_a_line_is_cut_off_and_the_next_one_stands_alone() {
        let mut record = record();
        let (first, second) = (received(1), received(2));
        record.add(first).unwrap();
        record.file.write_all(b"0190aaaa").unwrap();
        assert_eq!(record.load().unwrap(), [first]);
        record.add(second).unwrap();
        assert_eq!(record.load().unwrap(), [first, second]);
    }

    #[test]
    fn a_line_that_is_no_delivery_is_named() {
        let mut record = record();
        record.add(received(1)).unwrap();
        record.file.write_all(b"hello\n").unwrap();
        assert!(record.load().unwrap_err().to_string().contains("line 2"));
    }
}
