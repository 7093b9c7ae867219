//! An event as an entry.

use redis::Cmd;
use sendoff_core::{BoxError, Delivery};

use crate::envelope::{Binding, Envelope};
use crate::template::{Shape, Template};

/// The key of a stream.
pub static STREAM: Shape = Shape { what: "stream", bytes: 1_024, ..Shape::TEXT };

/// How entries are made.
#[derive(Debug)]
pub(super) struct Encode {
    pub(super) stream: Template,
    pub(super) envelope: Envelope,
    pub(super) max_entries: Option<u64>,
}

impl Encode {
    /// The command that adds an event.
    pub(super) fn command(&self, delivery: &Delivery) -> Result<Cmd, BoxError> {
        let stream = self.stream.render(delivery)?;
        let message = self.envelope.wrap(delivery, &Binding::REDIS)?;
        let mut add = redis::cmd("XADD");
        add.arg(stream);
        if let Some(most) = self.max_entries {
            add.arg("MAXLEN").arg("~").arg(most);
        }
        add.arg("*");
        for (name, value) in &message.attributes {
            add.arg(&**name).arg(&**value);
        }
        add.arg("data").arg(&message.body[..]);
        Ok(add)
    }
}
