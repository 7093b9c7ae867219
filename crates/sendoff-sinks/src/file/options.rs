//! What configures the sink.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::class::Misconfigured;
use crate::envelope::{Envelope, EnvelopeOptions, Mode};
use crate::link::LinkOptions;

const MIB: u64 = 1024 * 1024;

/// Where lines go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileTarget {
    /// To this process' stdout.
    #[default]
    Stdout,
    /// Into this file; its folder exists.
    Path(PathBuf),
}

/// Options of a [`FileSink`](super::FileSink).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileOptions {
    /// The sink's name. `file`.
    pub name: String,
    /// Where lines go. Stdout.
    pub to: FileTarget,
    /// What a line is. Native; CloudEvents are structured, because a line has nothing beside it.
    pub envelope: EnvelopeOptions,
    /// Bytes at which a file is followed by another. 64 MiB.
    pub rotate_bytes: u64,
    /// How many files are kept beside the one that is written: `PATH.1` is the youngest. The oldest goes. 10.
    pub keep_files: usize,
    /// Deadlines and back-off.
    pub link: LinkOptions,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            name: "file".to_owned(),
            to: FileTarget::Stdout,
            envelope: EnvelopeOptions::default(),
            rotate_bytes: 64 * MIB,
            keep_files: 10,
            link: LinkOptions::default(),
        }
    }
}

impl FileOptions {
    /// To stdout.
    pub fn stdout() -> Self {
        Self::default()
    }

    /// Into this file.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        Self { to: FileTarget::Path(path.into()), ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<Envelope, Misconfigured> {
        if let FileTarget::Path(path) = &self.to
            && path.file_name().is_none()
        {
            return Err(Misconfigured::new("file.to.path", "names no file"));
        }
        Misconfigured::unless_from_to("file.rotate_bytes", self.rotate_bytes, 1, u64::MAX)?;
        Misconfigured::unless_from_to("file.keep_files", self.keep_files as u64, 1, 1_000)?;
        self.link.check("file.link")?;
        let envelope = self.envelope.check("file.envelope")?;
        if envelope.cloud_events() == Some(Mode::Binary) {
            let reason = "a line has nothing beside it; say structured";
            return Err(Misconfigured::new("file.envelope.cloud_events.mode", reason));
        }
        Ok(envelope)
    }
}
