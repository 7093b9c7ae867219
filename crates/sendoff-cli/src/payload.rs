use serde_json::Value;

/// A payload for whoever reads lines of JSON: JSON where it is, text where it is that, and hexadecimal
/// digits otherwise.
pub(crate) fn payload(content_type: &str, bytes: &[u8]) -> Value {
    if content_type.contains("json")
        && let Ok(value) = serde_json::from_slice(bytes)
    {
        return value;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
    }
}
