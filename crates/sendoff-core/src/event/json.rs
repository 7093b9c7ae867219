/// The payload is not the JSON that was expected.
///
/// Says where and in which way, and nothing more: the parser's own words may quote the payload, and
/// a handler's error ends up in the table and in logs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("payload is not the expected JSON ({category} error at line {line}, column {column})")]
pub struct UnreadableJson {
    /// `syntax`, `data` (well formed, but not of the type asked for), or `end` (cut short).
    pub category: &'static str,
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
}

impl From<&serde_json::Error> for UnreadableJson {
    fn from(error: &serde_json::Error) -> Self {
        let category = match error.classify() {
            serde_json::error::Category::Data => "data",
            serde_json::error::Category::Eof => "end",
            serde_json::error::Category::Syntax | serde_json::error::Category::Io => "syntax",
        };
        Self { category, line: error.line(), column: error.column() }
    }
}
