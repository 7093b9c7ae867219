//! W3C trace context: which trace an event belongs to, read from its headers and passed on with it.
//!
//! Strict, as the [recommendation](https://www.w3.org/TR/trace-context/) asks of whoever passes it on: what is not
//! well formed is no trace context. Values are never told in errors; they came from outside.

use std::fmt;
use std::str::FromStr;

use crate::header::Headers;

/// The header that names the trace and the span.
pub const TRACEPARENT: &str = "traceparent";
/// The header in which tracing systems keep what is theirs.
pub const TRACESTATE: &str = "tracestate";

/// Characters of version 00: `00-`, 32, `-`, 16, `-`, 2.
const LENGTH: usize = 55;
/// The flags that have a meaning: sampled, and random trace id.
const KNOWN_FLAGS: u8 = 0b11;
/// Members of one `tracestate`.
const MEMBERS: usize = 32;

/// Trace, span and flags: the header `traceparent`.
///
/// ```
/// use sendoff_core::trace::TraceParent;
///
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let parent: TraceParent = text.parse()?;
/// assert!(parent.is_sampled());
/// assert_eq!(parent.to_string(), text);
/// # Ok::<(), sendoff_core::trace::InvalidTrace>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent {
    trace_id: [u8; 16],
    parent_id: [u8; 8],
    flags: u8,
}

impl TraceParent {
    /// Of these; none of both ids may be all zeros.
    pub fn new(trace_id: [u8; 16], parent_id: [u8; 8], flags: u8) -> Result<Self, InvalidTrace> {
        if trace_id == [0; 16] || parent_id == [0; 8] {
            return Err(InvalidTrace::Zeros);
        }
        Ok(Self { trace_id, parent_id, flags })
    }

    /// The trace.
    pub const fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// The span that it was written in.
    pub const fn parent_id(&self) -> [u8; 8] {
        self.parent_id
    }

    /// Its flags.
    pub const fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether whoever wrote it may have recorded it.
    pub const fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }
}

impl FromStr for TraceParent {
    type Err = InvalidTrace;

    /// Version 00 exactly; of later versions what version 00 knows, which is all that may be relied on.
    fn from_str(text: &str) -> Result<Self, InvalidTrace> {
        let bytes = text.as_bytes();
        if bytes.len() < LENGTH {
            return Err(InvalidTrace::Length);
        }
        let dashes = [2, 35, 52].iter().all(|at| bytes[*at] == b'-');
        let [version] = hex(&bytes[..2])?;
        if !dashes || version == 0xff {
            return Err(InvalidTrace::Grammar);
        }
        match (version, bytes.get(LENGTH)) {
            (0, Some(_)) => return Err(InvalidTrace::Length),
            (_, Some(next)) if *next != b'-' => return Err(InvalidTrace::Grammar),
            _ => {}
        }
        let [flags] = hex(&bytes[53..55])?;
        let flags = if version == 0 { flags } else { flags & KNOWN_FLAGS };
        Self::new(hex(&bytes[3..35])?, hex(&bytes[36..52])?, flags)
    }
}

impl fmt::Display for TraceParent {
    /// As version 00.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-")?;
        self.parent_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{:02x}", self.flags)
    }
}

/// Lower case only: upper case is not well formed.
fn hex<const N: usize>(text: &[u8]) -> Result<[u8; N], InvalidTrace> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(InvalidTrace::Grammar),
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(bytes)
}

/// What tracing systems keep for themselves: the header `tracestate`, kept as it was written.
#[derive(Clone, PartialEq, Eq)]
pub struct TraceState(String);

impl TraceState {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TraceState {
    type Err = InvalidTrace;

    fn from_str(text: &str) -> Result<Self, InvalidTrace> {
        let mut keys: Vec<&str> = Vec::new();
        for member in text.split(',').map(|member| member.trim_matches([' ', '\t'])) {
            if member.is_empty() {
                continue;
            }
            let (key, value) = member.split_once('=').ok_or(InvalidTrace::Grammar)?;
            if !is_key(key) || !is_value(value) || keys.contains(&key) {
                return Err(InvalidTrace::Grammar);
            }
            keys.push(key);
            if keys.len() > MEMBERS {
                return Err(InvalidTrace::Members);
            }
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for TraceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TraceState {
    /// Without the text, which is a header's value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceState").field("bytes", &self.0.len()).finish()
    }
}

/// A key by itself, or a tenant's at a system.
fn is_key(key: &str) -> bool {
    let rest = |text: &str| {
        text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/'))
    };
    let lower = |text: &str| text.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    match key.split_once('@') {
        None => lower(key) && key.len() <= 256 && rest(key),
        Some((tenant, system)) => {
            let digit = tenant.bytes().next().is_some_and(|b| b.is_ascii_digit());
            (digit || lower(tenant))
                && tenant.len() <= 241
                && rest(tenant)
                && lower(system)
                && system.len() <= 14
                && rest(system)
        }
    }
}

/// Printable ASCII without comma and equals sign, not ending with a space.
fn is_value(value: &str) -> bool {
    let fits = |b: u8| matches!(b, b' '..=b'~') && b != b',' && b != b'=';
    (1..=256).contains(&value.len()) && value.bytes().all(fits) && !value.ends_with(' ')
}

/// The trace that an event belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// Trace, span and flags.
    pub parent: TraceParent,
    /// What tracing systems keep, where it is well formed.
    pub state: Option<TraceState>,
}

impl TraceContext {
    /// Of an event's headers `traceparent` and `tracestate`. None where the first is missing or not well formed: then
    /// the second means nothing. A second that is not well formed is left out.
    pub fn of(headers: &Headers) -> Option<Self> {
        let parent = headers.get(TRACEPARENT)?.parse().ok()?;
        let state = headers.get(TRACESTATE).and_then(|state| state.parse().ok());
        Some(Self { parent, state })
    }

    /// Puts both headers, in place of what was there.
    pub(crate) fn write(&self, headers: &mut Headers) {
        headers.insert(TRACEPARENT.to_owned(), self.parent.to_string());
        if let Some(state) = &self.state {
            headers.insert(TRACESTATE.to_owned(), state.to_string());
        }
    }
}

/// No trace context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTrace {
    /// Too short, or too long for version 00.
    #[error("a traceparent of version 00 has 55 characters")]
    Length,
    /// A character is where it may not be.
    #[error("not the grammar of W3C trace context")]
    Grammar,
    /// An id is all zeros.
    #[error("the ids of a traceparent are not all zeros")]
    Zeros,
    /// Too many members.
    #[error("a tracestate has at most 32 members")]
    Members,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn parent(text: &str) -> Result<TraceParent, InvalidTrace> {
        text.parse()
    }

    #[test]
    fn a_traceparent_is_printed_as_it_was_read() {
        for flags in ["00", "01", "02", "ff"] {
            let text = format!("00-{TRACE}-{SPAN}-{flags}");
            assert_eq!(parent(&text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_later_version_is_read_as_far_as_ours_goes() {
        for rest in ["", "-what-the-future-will-be-like"] {
            let read = parent(&format!("cc-{TRACE}-{SPAN}-09{rest}")).unwrap();
            assert_eq!(read.to_string(), format!("00-{TRACE}-{SPAN}-01"));
        }
        assert_eq!(parent(&format!("cc-{TRACE}-{SPAN}-01.what")), Err(InvalidTrace::Grammar));
    }

    #[test]
    fn what_is_not_well_formed_is_no_traceparent() {
        let upper = TRACE.to_uppercase();
        let (no_trace, no_span) = ("0".repeat(32), "0".repeat(16));
        for (text, wrong) in [
            (String::new(), InvalidTrace::Length),
            (format!("00-{TRACE}-{SPAN}"), InvalidTrace::Length),
            (format!("00-{TRACE}-{SPAN}-1"), InvalidTrace::Length),
            (format!("00-{TRACE}-{SPAN}-01-"), InvalidTrace::Length),
            (format!("00-{TRACE}-{SPAN}-01 "), InvalidTrace::Length),
            (format!("00-{upper}-{SPAN}-01"), InvalidTrace::Grammar),
            (format!("ff-{TRACE}-{SPAN}-01"), InvalidTrace::Grammar),
            (format!("0x-{TRACE}-{SPAN}-01"), InvalidTrace::Grammar),
            (format!("00-{TRACE}-{SPAN}-0x"), InvalidTrace::Grammar),
            (format!("00_{TRACE}_{SPAN}_01"), InvalidTrace::Grammar),
            (format!("00-{no_trace}-{SPAN}-01"), InvalidTrace::Zeros),
            (format!("00-{TRACE}-{no_span}-01"), InvalidTrace::Zeros),
            ("é".repeat(28), InvalidTrace::Grammar),
        ] {
            assert_eq!(parent(&text), Err(wrong), "{text}");
        }
    }

    #[test]
    fn a_tracestate_is_kept_as_it_was_written() {
        let many = (0..32).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        let long = format!("a{}={}", "b".repeat(255), "c".repeat(256));
        let tenant = format!("0{}@a{}=1", "b".repeat(240), "c".repeat(13));
        for text in [
            "",
            "a=1",
            "rojo=00f067aa,congo=t61 rc",
            "a=1, \t,b=2,",
            "fw529a3039@dt=x",
            "a/b*-_=!~",
        ]
        .into_iter()
        .chain([&*many, &*long, &*tenant])
        {
            assert_eq!(text.parse::<TraceState>().unwrap().as_str(), text);
        }
    }

    #[test]
    fn what_is_not_well_formed_is_no_tracestate() {
        let many = (0..33).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        assert_eq!(many.parse::<TraceState>(), Err(InvalidTrace::Members));
        let (long_key, long_value) = ("b".repeat(257), format!("a={}", "c".repeat(257)));
        for text in [
            "a", "a=", "=1", "A=1", "1a=1", "a=1,a=2", "a=b=c", "a@=1", "@a=1", "a@1b=1",
            "a@b@c=1", "a=é", "a b=1", "a=\u{1}",
        ]
        .into_iter()
        .chain([&*format!("{long_key}=1"), &*long_value])
        {
            assert_eq!(text.parse::<TraceState>(), Err(InvalidTrace::Grammar), "{text}");
        }
    }

    #[test]
    fn an_event_without_a_well_formed_traceparent_belongs_to_no_trace() {
        let of = |parent: Option<&str>, state: &str| {
            let event = Event::builder("e").header(TRACESTATE, state).bytes("");
            let event = match parent {
                Some(parent) => event.header(TRACEPARENT, parent),
                None => event,
            };
            TraceContext::of(event.build().unwrap().headers())
        };
        let good = format!("00-{TRACE}-{SPAN}-01");
        assert_eq!(of(None, "a=1"), None);
        assert_eq!(of(Some("00-1-2-3"), "a=1"), None);
        assert_eq!(of(Some(&good), "a=1").unwrap().state.unwrap().as_str(), "a=1");
        assert_eq!(of(Some(&good), "A=1").unwrap().state, None);
    }
}
