//! How files of JSON are read.

use super::tape::Allow;
use crate::block::Limits;
use crate::text::bytes::Form;
use crate::time::Times;

/// How a file of JSON is read.
#[derive(Clone)]
pub struct JsonOptions {
    /// Whether a file is JSON values over any number of lines, and not one value a line.
    pub multi_line: bool,
    /// The options that allow more than strict JSON.
    pub allow: Allow,
    /// How deep values may be nested.
    pub max_depth: usize,
    /// What ends a line; `None` means a line feed, a carriage return, or both.
    pub line_end: Option<Vec<u8>>,
    /// The encoding, and how much is read at once.
    pub form: Form,
    /// When a block is complete.
    pub limits: Limits,
    /// How dates and times are written.
    pub times: Times,
}
