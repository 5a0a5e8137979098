//! Why a file or a record cannot be read.
//!
//! INVARIANT: `Content` means that the bytes are wrong and will be wrong again; everything else may pass.

use std::error::Error as StdError;
use std::fmt;
use std::io;

/// The result of reading.
pub type Result<T> = std::result::Result<T, ReadError>;

/// Why reading a file stopped.
#[derive(Debug)]
pub enum ReadError {
    /// The file is not what its format says: another format, damaged, another header.
    Content(Unreadable),
    /// The bytes could not be read, or memory or a limit of this machine was exceeded. A retry may succeed.
    Input(io::Error),
    /// An error of the caller, such as an exception raised by a Python file; it is passed through unchanged.
    External(Box<dyn StdError + Send + Sync>),
    /// An invariant of the reader is violated: this is a bug.
    Internal(String),
}

/// A file that is not what its format says, from `line` on if that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The line, from 1 on, at which the file stops being valid.
    pub line: Option<u64>,
    /// The text says what was found and expected. It never holds control characters.
    pub reason: String,
    /// Advice for this file, if there is better advice than to correct it.
    pub hint: Option<String>,
}

impl Unreadable {
    /// Return the error for a whole file.
    pub fn file(reason: impl Into<String>) -> Self {
        Self { line: None, reason: reason.into(), hint: None }
    }

    /// Return the same error with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A record that is no row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    /// The number of the record in its file, from 0 on.
    pub row: i64,
    /// The line, from 1 on, on which the record begins.
    pub line: u64,
    /// The column that does not fit, by its place in the schema; `None` if the record has no columns.
    pub column: Option<usize>,
    /// The text says what was found and expected.
    pub reason: String,
    /// The record as it is in the file, without its line end.
    pub text: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Content(found) => found.fmt(f),
            Self::Input(error) => error.fmt(f),
            Self::External(error) => error.fmt(f),
            Self::Internal(text) => f.write_str(text),
        }
    }
}

impl StdError for ReadError {}

impl From<Unreadable> for ReadError {
    fn from(found: Unreadable) -> Self {
        Self::Content(found)
    }
}

impl From<io::Error> for ReadError {
    /// An error that an `External` was wrapped in comes out as it went in.
    fn from(error: io::Error) -> Self {
        match error.downcast::<External>() {
            Ok(inner) => match inner.0.downcast::<Self>() {
                Ok(error) => *error,
                Err(other) => Self::External(other),
            },
            Err(error) => Self::Input(error),
        }
    }
}

/// Carries an error of the caller through `std::io`.
#[derive(Debug)]
pub struct External(pub Box<dyn StdError + Send + Sync>);

impl fmt::Display for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for External {}
