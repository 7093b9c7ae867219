//! What differs between wires.

use std::borrow::Cow;
use std::fmt::Write;

use super::Unfit;

/// How one wire carries attributes. The constants are the ones that sinks use.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// The wire's name, in errors.
    pub wire: &'static str,
    /// In front of native names.
    pub native: &'static str,
    /// In front of attributes of CloudEvents in binary mode.
    pub cloud_events: &'static str,
    /// In front of the event's own headers.
    pub own: &'static str,
    /// The name under which the content type of the body stands among the attributes. None where the wire has a place of
    /// its own for it, which the sink fills from [`Message::content_type`](super::Message).
    pub content_type: Option<&'static str>,
    /// The same in the binary mode of CloudEvents.
    pub data_content_type: Option<&'static str>,
    /// Names that the wire or the sink uses for itself, in lower case: headers of these names are left out.
    pub reserved: &'static [&'static str],
    /// Whether it can carry a name.
    pub name: fn(&str) -> bool,
    /// What a name takes, in words.
    pub names: &'static str,
    /// Whether it can carry a value.
    pub value: fn(&str) -> bool,
    /// What a value takes, in words.
    pub values: &'static str,
    /// Whether values of ours are percent-encoded, as CloudEvents over HTTP asks for.
    pub percent: bool,
}

const ANYTHING: Binding = Binding {
    wire: "this wire",
    native: "sendoff-",
    cloud_events: "ce-",
    own: "",
    content_type: Some("content-type"),
    data_content_type: Some("content-type"),
    reserved: &[],
    name: |name| !name.is_empty(),
    names: "any text",
    value: |_| true,
    values: "any text",
    percent: false,
};

impl Binding {
    /// HTTP. Attributes of ours are percent-encoded; the event's own headers are sent as they are, in UTF-8.
    pub const HTTP: Self = Self {
        wire: "HTTP",
        // What a client and a server agree on by themselves.
        reserved: &[
            "connection",
            "content-length",
            "expect",
            "host",
            "keep-alive",
            "proxy-authorization",
            "proxy-connection",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ],
        name: is_token,
        names: "letters, digits and !#$%&'*+-.^_`|~",
        value: |value| {
            !value.chars().any(|c| c.is_ascii_control() && c != '\t')
                && value.trim_matches([' ', '\t']) == value
        },
        values: "text without control characters, and without blanks at its ends",
        percent: true,
        ..ANYTHING
    };
    /// Kafka: `ce_`, and `content-type` as a header.
    pub const KAFKA: Self = Self { wire: "Kafka", cloud_events: "ce_", ..ANYTHING };
    /// NATS: `ce-`, and `ce-datacontenttype` in binary mode.
    pub const NATS: Self = Self {
        wire: "NATS",
        data_content_type: Some("ce-datacontenttype"),
        name: |name| !name.is_empty() && name.bytes().all(|b| (33..=126).contains(&b) && b != b':'),
        names: "printable ASCII without blanks and colons",
        value: |value| !value.contains(['\r', '\n', '\0']),
        values: "text without line breaks and NUL",
        ..ANYTHING
    };
    /// AMQP 0-9-1, which has no binding of CloudEvents: the prefix is that of AMQP 1.0. The content type is a property.
    pub const AMQP: Self = Self {
        wire: "AMQP 0-9-1",
        cloud_events: "cloudEvents_",
        content_type: None,
        data_content_type: None,
        // RabbitMQ routes by these.
        reserved: &["cc", "bcc"],
        name: |name| (1..=255).contains(&name.len()),
        names: "up to 255 bytes",
        ..ANYTHING
    };
    /// MQTT 5: user properties, without a prefix in CloudEvents. The content type is a property.
    pub const MQTT: Self = Self {
        wire: "MQTT 5",
        cloud_events: "",
        content_type: None,
        data_content_type: None,
        name: is_mqtt,
        names: "up to 65,535 bytes without control characters and what is no character",
        value: is_mqtt,
        values: "up to 65,535 bytes without control characters and what is no character",
        ..ANYTHING
    };
    /// A Redis stream, which has no binding of CloudEvents: each attribute is a field of the entry, beside `data`.
    pub const REDIS: Self =
        Self { wire: "a Redis stream", own: "header.", reserved: &["data"], ..ANYTHING };

    /// Whether a header of the event's own has a name that is ours on this wire.
    pub(super) fn is_ours(&self, name: &str) -> bool {
        let begins = |prefix: &str| {
            !prefix.is_empty()
                && name.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
        };
        let is = |ours: &str| name.eq_ignore_ascii_case(ours);
        begins(self.native)
            || begins(self.cloud_events)
            || is("content-type")
            || self.reserved.iter().any(|reserved| is(reserved))
    }

    pub(super) fn check(&self, name: &str, value: &str) -> Result<(), Unfit> {
        let Self { wire, names, values, .. } = *self;
        if !(self.name)(name) {
            return Err(Unfit::Name { wire, name: name.to_owned(), expected: names });
        }
        if !(self.value)(value) {
            return Err(Unfit::Value { wire, name: name.to_owned(), expected: values });
        }
        Ok(())
    }

    /// A value of ours as this wire has it.
    pub(super) fn encode(&self, value: &mut Cow<'_, str>) {
        if self.percent && value.bytes().any(is_encoded) {
            *value = Cow::Owned(percent(value, is_encoded));
        }
    }
}

/// What CloudEvents over HTTP encodes: blanks, double quotes, percent signs, and whatever is not printable ASCII.
fn is_encoded(byte: u8) -> bool {
    !matches!(byte, 0x21..=0x7e) || matches!(byte, b'"' | b'%')
}

/// A value within a URI, percent-encoded: letters, digits and `-._~` are as they are.
pub fn percent_encode(value: &str) -> String {
    percent(value, |b| !b.is_ascii_alphanumeric() && !b"-._~".contains(&b))
}

fn percent(value: &str, is_encoded: fn(u8) -> bool) -> String {
    value.bytes().fold(String::with_capacity(value.len() * 2), |mut text, byte| {
        match is_encoded(byte) {
            // Writing into a text does not fail.
            true => drop(write!(text, "%{byte:02X}")),
            false => text.push(char::from(byte)),
        }
        text
    })
}

fn is_token(name: &str) -> bool {
    let is = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.bytes().all(is)
}

fn is_mqtt(text: &str) -> bool {
    text.len() <= usize::from(u16::MAX) && text.chars().all(is_mqtt_character)
}

/// What a text of MQTT may have. A broker can end the connection of a client that sends one of the others.
pub(crate) fn is_mqtt_character(c: char) -> bool {
    let code = u32::from(c);
    let is_nobodys = (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe;
    !c.is_control() && !is_nobodys
}
