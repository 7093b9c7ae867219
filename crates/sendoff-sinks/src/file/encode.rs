//! An event as a line.

use sendoff_core::{BoxError, Delivery};

use crate::envelope::Envelope;

/// Bytes of a line: far more than an event within its limits becomes, and little enough to look for the beginning of
/// one that was cut short.
pub const LINE_BYTES: usize = 16 * 1024 * 1024;

/// How every line of ours begins, whichever envelope it has.
pub(super) const BEGINNINGS: [&[u8]; 2] = [br#"{"id":""#, br#"{"specversion":""#];

/// The line, with its end.
pub(super) fn line(envelope: &Envelope, delivery: &Delivery) -> Result<Vec<u8>, BoxError> {
    let mut line = envelope.line(delivery)?;
    line.push(b'\n');
    match line.len() {
        ..=LINE_BYTES => Ok(line),
        bytes => Err(TooLarge { bytes }.into()),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the event is a line of {bytes} bytes; the most is {LINE_BYTES}")]
struct TooLarge {
    bytes: usize,
}
