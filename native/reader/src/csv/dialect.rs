//! How CSV is written: separators, quotes, escapes, comments. The names are those of Spark's options.
//!
//! Where a field ends is certain only if the characters differ. `check_dialect` of `sources/options.py` refuses any other
//! dialect when a source is declared.

/// The format of a CSV file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    /// What separates fields: one or more characters.
    pub separator: Vec<u8>,
    /// The quote, if there is one.
    pub quote: Option<u8>,
    /// The character that makes a quote in a quoted field literal: a backslash, or the quote itself.
    pub escape: Option<u8>,
    /// The character that makes the escape literal.
    pub escape_escape: Option<u8>,
    /// A line that begins with it is no record.
    pub comment: Option<u8>,
    /// The text that is null.
    pub null_value: Vec<u8>,
    /// The text of a quoted field without characters.
    pub empty_value: Vec<u8>,
    /// Whether white space before a field is dropped.
    pub trim_leading: bool,
    /// Whether white space after a field is dropped.
    pub trim_trailing: bool,
    /// What ends a record; `None` means a line feed, a carriage return, or both.
    pub line_end: Option<Vec<u8>>,
}

impl Default for Dialect {
    /// Spark's defaults.
    fn default() -> Self {
        Self {
            separator: b",".to_vec(),
            quote: Some(b'"'),
            escape: Some(b'\\'),
            escape_escape: Some(b'\\'),
            comment: None,
            null_value: Vec::new(),
            empty_value: Vec::new(),
            trim_leading: false,
            trim_trailing: false,
            line_end: None,
        }
    }
}

impl Dialect {
    /// Return the length of the line end that `data` begins with; `None` if more bytes are needed to know it.
    pub(super) fn line_end(&self, data: &[u8], is_last: bool) -> Option<usize> {
        match &self.line_end {
            None => match data {
                [b'\n', ..] => Some(1),
                [b'\r', b'\n', ..] => Some(2),
                [b'\r'] if !is_last => None,
                [b'\r', ..] => Some(1),
                _ => Some(0),
            },
            Some(end) => matched(data, end, is_last),
        }
    }

    /// Return the length of the separator if `data` begins with it, else 0; `None` if more bytes are needed.
    pub(super) fn separator(&self, data: &[u8], is_last: bool) -> Option<usize> {
        matched(data, &self.separator, is_last)
    }
}

fn matched(data: &[u8], wanted: &[u8], is_last: bool) -> Option<usize> {
    if data.len() < wanted.len() && !is_last && wanted.starts_with(data) {
        return None;
    }
    Some(if data.starts_with(wanted) { wanted.len() } else { 0 })
}
