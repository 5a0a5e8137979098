//! The kinds of error, by what the caller must do. The binding raises the classes of `tidemill.errors` for them.
//!
//! `Fenced` is missing: only the protocol, which is Python, can find it. A message's first line stands alone.

use std::error::Error as StdError;
use std::fmt;

use arrow_schema::ArrowError;

/// What a call of the engine answers.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed.
#[derive(Debug)]
pub enum Error {
    /// The call, a schema or the data is wrong: fix it.
    InvalidInput(String),
    /// A store did not answer: retry later.
    StoreUnavailable(String),
    /// Bytes are not what was written: restore them.
    CorruptState(String),
    /// An invariant of the engine does not hold: a bug.
    InternalError(String),
    /// An error of a user function on its way through, untouched.
    External(Box<dyn StdError + Send + Sync>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidInput(text)
            | Self::StoreUnavailable(text)
            | Self::CorruptState(text)
            | Self::InternalError(text) => f.write_str(text),
            Self::External(error) => error.fmt(f),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::External(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

impl Error {
    /// A column would hold more than its 32-bit offsets can count.
    pub(crate) fn column_too_large() -> Self {
        Self::InvalidInput(format!(
            "a column would hold more than {} bytes of text or binary, or items of lists, at once\n\
             hint: run with more tasks, so that a key range holds fewer rows, with fewer `tidemill.block_rows`, or keep \
             less in each row; change less in one version of a StateMap or a StateStore",
            i32::MAX
        ))
    }
}

impl From<ArrowError> for Error {
    /// Arrays are checked where they come in, so a complaint of arrow's is a bug of ours, or a limit of its formats.
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::OffsetOverflowError(_) => Self::column_too_large(),
            ArrowError::InvalidArgumentError(text) if text.starts_with("offset overflow") => Self::column_too_large(),
            other => Self::InternalError(format!("arrow refused arrays that the engine made: {other}")),
        }
    }
}
