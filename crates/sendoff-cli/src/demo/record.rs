//! The handler's own record of what it received.
//!
//! The handler plays another system, so what it received must not be forgotten when this process
//! is killed: each successful delivery is one line, appended with a single write.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};

use anyhow::Context;
use sendoff::EventId;
use sendoff_testkit::history::Digest;

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
}

#[derive(Debug)]
pub(crate) struct Record(File);

impl Record {
    /// `file` is open to append.
    pub(crate) fn new(file: File) -> Self {
        Self(file)
    }

    /// Everything so far. The beginning of a line that was never finished is cut off.
    pub(crate) fn load(&mut self) -> anyhow::Result<Vec<Received>> {
        self.0.seek(SeekFrom::Start(0))?;
        let mut reader = BufReader::new(&self.0);
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
        self.0.set_len(whole)?;
        Ok(all)
    }

    /// Adds a delivery. Once this returned, killing the process does not undo it.
    pub(crate) fn add(&self, received: Received) -> io::Result<()> {
        let line = format!("{received}\n");
        let written = (&self.0).write(line.as_bytes())?;
        // A second write could land after another thread's line.
        if written == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.0.set_len(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(run: u32) -> Received {
        Received { id: EventId::generate(), run, attempt: 2, digest: Digest::from_u64(77) }
    }

    fn record() -> Record {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deliveries");
        Record(File::options().read(true).append(true).create(true).open(path).unwrap())
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
        record.0.write_all(b"0190aaaa").unwrap();
        assert_eq!(record.load().unwrap(), [first]);
        record.add(second).unwrap();
        assert_eq!(record.load().unwrap(), [first, second]);
    }

    #[test]
    fn a_line_that_is_no_delivery_is_named() {
        let mut record = record();
        record.add(received(1)).unwrap();
        record.0.write_all(b"hello\n").unwrap();
        assert!(record.load().unwrap_err().to_string().contains("line 2"));
    }
}
