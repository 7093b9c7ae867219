//! The file itself: opened, locked, mended, written and rotated. Everything here blocks.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tracing::warn;

use super::encode::{BEGINNINGS, LINE_BYTES};
use super::options::FileOptions;
use crate::class::{Class, Misconfigured, Trouble};

/// What is read at once when the beginning of a line is looked for.
const PIECE: usize = 64 * 1024;

/// Where lines are written.
#[derive(Debug)]
pub(super) enum Writer {
    Stdout {
        /// The last line was cut short: the next one begins on a line of its own.
        torn: bool,
    },
    File(Lines),
}

impl Writer {
    pub(super) const fn stdout() -> Self {
        Self::Stdout { torn: false }
    }

    pub(super) fn open(path: &Path, options: &FileOptions) -> Result<Self, Trouble> {
        Ok(Self::File(Lines::open(path, options)?))
    }

    /// Writes lines, and says how many of them, from the first on, are durable.
    pub(super) fn append(&mut self, lines: &[Vec<u8>]) -> (usize, Result<(), Trouble>) {
        match self {
            Self::Stdout { torn } => match to_stdout(lines, torn) {
                Ok(()) => (lines.len(), Ok(())),
                // A pipe tells nothing of how far its reader is.
                Err(error) => (0, Err(trouble("cannot be written", error))),
            },
            Self::File(file) => file.append(lines),
        }
    }
}

fn to_stdout(lines: &[Vec<u8>], torn: &mut bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if std::mem::replace(torn, true) {
        out.write_all(b"\n")?;
    }
    for line in lines {
        out.write_all(line)?;
    }
    out.flush()?;
    *torn = false;
    Ok(())
}

/// A file that is open and locked.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    file: File,
    /// Held while this is here, and given back by the system when it or the process ends.
    _lock: File,
    /// Bytes that are durable, which are whole lines.
    len: u64,
    rotate_bytes: u64,
    keep_files: usize,
    /// What was written last failed: nothing more is written before the file was opened, and so mended, anew.
    is_spoiled: bool,
}

impl Lines {
    fn open(path: &Path, options: &FileOptions) -> Result<Self, Trouble> {
        let lock = lock(path)?;
        let (file, len) = open_mended(path)?;
        let FileOptions { rotate_bytes, keep_files, .. } = *options;
        let path = path.to_owned();
        Ok(Self { path, file, _lock: lock, len, rotate_bytes, keep_files, is_spoiled: false })
    }

    fn append(&mut self, lines: &[Vec<u8>]) -> (usize, Result<(), Trouble>) {
        if self.is_spoiled {
            return (0, Err(Trouble::unavailable(Spoiled)));
        }
        let mut durable = 0;
        while durable < lines.len() {
            match self.append_some(&lines[durable..]) {
                Ok(written) => durable += written,
                Err(trouble) => {
                    self.is_spoiled = true;
                    return (durable, Err(trouble));
                }
            }
        }
        (durable, Ok(()))
    }

    /// As many as fit into this file, at least one, and how many.
    fn append_some(&mut self, lines: &[Vec<u8>]) -> Result<usize, Trouble> {
        if !self.is_still_there() {
            (self.file, self.len) = open_mended(&self.path)?;
        }
        let first = lines.first().map_or(0, Vec::len) as u64;
        if self.len > 0 && self.len.saturating_add(first) > self.rotate_bytes {
            self.rotate().map_err(|error| trouble("cannot be rotated", error))?;
        }
        let mut bytes = Vec::new();
        let mut count = 0;
        for line in lines {
            let after = self.len.saturating_add((bytes.len() + line.len()) as u64);
            if count > 0 && after > self.rotate_bytes {
                break;
            }
            bytes.extend_from_slice(line);
            count += 1;
        }
        // A sync that failed says nothing of what is on the disk, and a second one may say that all is well: what was not
        // confirmed goes.
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => self.len += bytes.len() as u64,
            Err(error) => {
                // Where this fails too, opening the file mends it.
                let _ = self.file.set_len(self.len).and_then(|()| self.file.sync_data());
                return Err(trouble("cannot be written", error));
            }
        }
        Ok(count)
    }

    /// Whether the path still names the file that is open.
    fn is_still_there(&self) -> bool {
        match (self.file.metadata(), fs::metadata(&self.path)) {
            (Ok(ours), Ok(named)) => is_same(&ours, &named) && named.len() == self.len,
            _ => false,
        }
    }

    /// Makes room: each file takes the number of the next older one, up to the first number that is free.
    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |number: usize| with_suffix(&self.path, &format!(".{number}"));
        let free = (1..self.keep_files).find(|number| !numbered(*number).exists());
        for number in (1..free.unwrap_or(self.keep_files)).rev() {
            fs::rename(numbered(number), numbered(number + 1))?;
        }
        fs::rename(&self.path, numbered(1))?;
        self.file = open(&self.path)?;
        sync_folder(&self.path)?;
        self.len = 0;
        Ok(())
    }
}

#[cfg(unix)]
fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_same(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).open(path)
}

/// So that a file that was made or renamed is found after a crash.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Without waiting: whoever has it may have it for days.
fn lock(path: &Path) -> Result<File, Trouble> {
    let path = with_suffix(path, ".lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = file.map_err(|error| trouble("cannot be locked", error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Trouble::unavailable(Locked)),
        Err(TryLockError::Error(error)) => Err(trouble("cannot be locked", error)),
    }
}

/// The file, of whole lines, and its length.
fn open_mended(path: &Path) -> Result<(File, u64), Trouble> {
    let failed = |error| trouble("cannot be opened", error);
    let mut file = open(path).map_err(failed)?;
    sync_folder(path).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    let whole = match unfinished(&mut file, len).map_err(failed)? {
        Tail::Whole => return Ok((file, len)),
        Tail::Ours { begins } => begins,
        Tail::Foreign => {
            let reason = "ends with an unfinished line that this sink did not write";
            return Err(Misconfigured::new("file.to.path", reason).into());
        }
    };
    file.set_len(whole).and_then(|()| file.sync_data()).map_err(failed)?;
    warn!(file = %path.display(), bytes = len - whole, "a line that was cut short is cut off");
    Ok((file, whole))
}

/// How a file ends.
enum Tail {
    /// With a line's end, or it is empty.
    Whole,
    /// With a line of ours that was cut short.
    Ours { begins: u64 },
    /// With something else.
    Foreign,
}

fn unfinished(file: &mut File, len: u64) -> io::Result<Tail> {
    let mut begins = len;
    let mut tail: Vec<u8> = Vec::new();
    while begins > 0 {
        let piece = begins.min(PIECE as u64);
        let mut bytes = vec![0; piece as usize];
        file.seek(SeekFrom::Start(begins - piece))?;
        file.read_exact(&mut bytes)?;
        if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
            begins = begins - piece + end as u64 + 1;
            bytes.drain(..=end);
            bytes.extend_from_slice(&tail);
            tail = bytes;
            break;
        }
        begins -= piece;
        // Its beginning is all that is looked at.
        bytes.truncate(PIECE);
        tail = bytes;
        if len - begins > LINE_BYTES as u64 {
            return Ok(Tail::Foreign);
        }
    }
    if begins == len {
        return Ok(Tail::Whole);
    }
    let is_beginning = |begin: &[u8]| {
        let both = begin.len().min(tail.len());
        begin[..both] == tail[..both]
    };
    // Some file systems leave zeros where a crash came before the bytes.
    let is_ours = BEGINNINGS.into_iter().any(is_beginning) || tail.iter().all(|byte| *byte == 0);
    Ok(if is_ours { Tail::Ours { begins } } else { Tail::Foreign })
}

fn trouble(what: &'static str, error: io::Error) -> Trouble {
    match class(error.kind()) {
        Class::Misconfigured => Misconfigured::new("file.to.path", what).because(error).into(),
        _ => Trouble::unavailable(Failed { what, source: error }),
    }
}

/// What an error of the system means. Whatever passes by itself, or when somebody makes room, is no fault of the options.
fn class(kind: io::ErrorKind) -> Class {
    use io::ErrorKind::{
        InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
        ReadOnlyFilesystem, Unsupported,
    };
    match kind {
        InvalidFilename | InvalidInput | IsADirectory | NotADirectory | NotFound
        | PermissionDenied | ReadOnlyFilesystem | Unsupported => Class::Misconfigured,
        _ => Class::Unavailable,
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the file {what}")]
struct Failed {
    what: &'static str,
    source: io::Error,
}

#[derive(Debug, thiserror::Error)]
#[error("another sink has the file open")]
struct Locked;

#[derive(Debug, thiserror::Error)]
#[error("the file is to be opened anew")]
struct Spoiled;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Vec<u8> {
        format!("{{\"id\":\"{text}\"}}\n").into_bytes()
    }

    fn options(path: &Path) -> FileOptions {
        FileOptions { rotate_bytes: 30, keep_files: 3, ..FileOptions::path(path) }
    }

    fn append(writer: &mut Writer, text: &str) {
        let (durable, ended) = writer.append(&[line(text)]);
        assert!(durable == 1 && ended.is_ok(), "{ended:?}");
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        (folder, path)
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn files_rotate_at_their_bound_and_the_oldest_goes() {
        let (_folder, path) = folder();
        let mut writer = Writer::open(&path, &options(&path)).unwrap();
        // 11 bytes each: two fit.
        let all: Vec<_> = (0..9).map(|n| line(&format!("{n}"))).collect();
        let (durable, ended) = writer.append(&all);
        assert!(durable == 9 && ended.is_ok());
        let lines = |name: &str| text(&with_suffix(&path, name)).replace('\n', "");
        assert_eq!(lines(""), r#"{"id":"8"}"#);
        assert_eq!(lines(".1"), r#"{"id":"6"}{"id":"7"}"#);
        assert_eq!(lines(".2"), r#"{"id":"4"}{"id":"5"}"#);
        assert_eq!(lines(".3"), r#"{"id":"2"}{"id":"3"}"#);
        assert!(!with_suffix(&path, ".4").exists());
        // A line that is larger than a file may be has one of its own.
        append(&mut writer, &"x".repeat(50));
        append(&mut writer, "9");
        assert_eq!(lines(".1").len(), 59);
        assert_eq!(lines(""), r#"{"id":"9"}"#);
    }

    #[test]
    fn a_number_that_is_free_is_taken_and_none_is_lost() {
        let (_folder, path) = folder();
        let mut writer = Writer::open(&path, &options(&path)).unwrap();
        for number in 0..5 {
            append(&mut writer, &format!("{number}{number}"));
            append(&mut writer, &format!("{number}"));
        }
        fs::remove_file(with_suffix(&path, ".1")).unwrap();
        let (second, third) = (text(&with_suffix(&path, ".2")), text(&with_suffix(&path, ".3")));
        append(&mut writer, "next");
        assert_eq!(text(&with_suffix(&path, ".2")), second);
        assert_eq!(text(&with_suffix(&path, ".3")), third);
        assert!(with_suffix(&path, ".1").exists());
    }

    #[test]
    fn a_line_that_was_cut_short_is_cut_off_when_the_file_is_opened() {
        for half in [r#"{"#, r#"{"id":"half"#, r#"{"specversion":"1.0""#, "\0\0\0\0"] {
            for whole in ["", "{\"id\":\"1\"}\n"] {
                let (_folder, path) = folder();
                fs::write(&path, format!("{whole}{half}")).unwrap();
                let mut writer = Writer::open(&path, &options(&path)).unwrap();
                assert_eq!(text(&path), whole);
                append(&mut writer, "2");
                assert_eq!(text(&path), format!("{whole}{{\"id\":\"2\"}}\n"));
            }
        }
        let (_folder, path) = folder();
        let long = format!("{{\"id\":\"1\"}}\n{{\"id\":\"{}", "x".repeat(3 * PIECE));
        fs::write(&path, long).unwrap();
        drop(Writer::open(&path, &options(&path)).unwrap());
        assert_eq!(text(&path), "{\"id\":\"1\"}\n");
    }

    #[test]
    fn what_this_sink_did_not_write_is_never_cut() {
        let none = "x".repeat(LINE_BYTES + PIECE);
        for foreign in ["notes", "{\"id\":\"1\"}\nnotes", &*none] {
            let (_folder, path) = folder();
            fs::write(&path, foreign).unwrap();
            let Err(Trouble::Misconfigured(wrong)) = Writer::open(&path, &options(&path)) else {
                panic!("it was opened");
            };
            assert_eq!(wrong.path(), "file.to.path");
            assert_eq!(text(&path), foreign);
        }
    }

    #[test]
    fn a_file_belongs_to_one_sink_until_that_is_gone() {
        let (_folder, path) = folder();
        let first = Writer::open(&path, &options(&path)).unwrap();
        let second = Writer::open(&path, &options(&path)).unwrap_err();
        assert_eq!(second.class(), Class::Unavailable);
        assert_eq!(second.to_string(), "another sink has the file open");
        drop(first);
        assert!(Writer::open(&path, &options(&path)).is_ok());
    }

    #[test]
    fn a_file_that_was_moved_away_is_left_alone() {
        let (_folder, path) = folder();
        let mut writer = Writer::open(&path, &options(&path)).unwrap();
        append(&mut writer, "1");
        let away = with_suffix(&path, ".away");
        fs::rename(&path, &away).unwrap();
        append(&mut writer, "2");
        assert_eq!(
            (text(&away), text(&path)),
            ("{\"id\":\"1\"}\n".into(), "{\"id\":\"2\"}\n".into())
        );
        fs::remove_file(&path).unwrap();
        append(&mut writer, "3");
        assert_eq!(text(&path), "{\"id\":\"3\"}\n");
    }

    #[test]
    fn a_place_that_is_not_there_is_misconfigured() {
        let (folder, path) = folder();
        for wrong in [folder.path().join("none/events"), folder.path().to_owned()] {
            assert_eq!(
                Writer::open(&wrong, &options(&wrong)).unwrap_err().class(),
                Class::Misconfigured
            );
        }
        assert_eq!(class(io::ErrorKind::StorageFull), Class::Unavailable);
        assert!(!path.exists());
    }
}
