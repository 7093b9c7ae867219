//! What a template is to become, and what may be in that.

use std::borrow::Cow;

/// What a target takes as a destination or a key. Each sink has a constant of it for each template.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// What it is called in errors: `subject`.
    pub what: &'static str,
    /// Bytes at most.
    pub bytes: usize,
    /// Whether it may be empty.
    pub empty: bool,
    /// The characters that it takes.
    pub takes: fn(char) -> bool,
    /// What these are, in words: `letters, digits and dashes`.
    pub expected: &'static str,
    /// What a whole text is held to beyond its characters; the error goes on after "the subject": `has an empty token`.
    pub whole: fn(&str) -> Result<(), &'static str>,
    /// How a field's value is written into it, such as percent-encoded into a URL. None where it is as it is.
    pub encode: Option<fn(&str) -> String>,
}

impl Shape {
    /// Any text without control characters; what others begin with.
    pub const TEXT: Self = Self {
        what: "text",
        bytes: 4_096,
        empty: false,
        takes: |c| !c.is_control(),
        expected: "anything but control characters",
        whole: |_| Ok(()),
        encode: None,
    };

    /// What is wrong with a whole text.
    pub(super) fn check_whole(&self, text: &str) -> Result<(), Cow<'static, str>> {
        if text.is_empty() && !self.empty {
            return Err("is empty".into());
        }
        if text.len() > self.bytes {
            return Err(format!("has {} bytes; the most is {}", text.len(), self.bytes).into());
        }
        (self.whole)(text).map_err(Cow::Borrowed)
    }
}
