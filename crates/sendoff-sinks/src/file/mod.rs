//! JSON lines, to stdout or to a file that rotates.
//!
//! Each event is a line: in the native envelope an object of ours, else a CloudEvent in its structured form.
//!
//! ```json
//! {"id":"0198…","type":"order.placed","occurred_at":"2026-01-31T08:00:00.000000Z","content_type":"application/json","data":{"total":990}}
//! ```
//!
//! The payload is `data`, to the byte, where it is JSON in one line, and `data_base64` where it is not.
//!
//! Promise: an event is done when its line is on the disk, line break included (`fdatasync`, and the folder's where a file
//! was made). A line that is cut short by a crash or a full disk was never done; it is cut off, and written again
//! when its event comes again. Nothing that this sink did not write is ever cut. Files hold whole lines and are at most as large as
//! they may be, unless one line alone is larger.
//!
//! One process at a time: `PATH.lock` is locked while the file is open, and another sink on it waits, unavailable, until
//! that one is closed or dead. A file that somebody moves away is left alone, and a new one begun.
//!
//! On stdout done means that the whole line was taken by whoever reads it; what that one does with it is theirs.
//!
//! Not here: order between sinks, reading the file again, and compressing it.

mod encode;
mod options;
mod sink;
mod writer;

pub use encode::LINE_BYTES;
pub use options::{FileOptions, FileTarget};
pub use sink::FileSink;
