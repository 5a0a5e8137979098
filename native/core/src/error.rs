//! The kinds of error. Each kind tells the caller what to do; the binding maps it to a class of `tidemill.errors`.
//!
//! `Fenced` has no counterpart here, because only the protocol, which is Python, can detect it.
//! The first line of a message must stand alone.

use std::error::Error as StdError;
use std::fmt;

use arrow_schema::ArrowError;

/// The result of a call to the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed.
#[derive(Debug)]
pub enum Error {
    /// The call, a schema or the data is invalid: fix it.
    InvalidInput(String),
    /// A store did not respond: retry later.
    StoreUnavailable(String),
    /// Stored bytes differ from what was written: restore them.
    CorruptState(String),
    /// An invariant of the engine is violated: this is a bug.
    InternalError(String),
    /// An error raised by a user function, passed through unchanged.
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
    /// Return the error for a column that would exceed its 32-bit offsets.
    pub(crate) fn column_too_large() -> Self {
        Self::InvalidInput(format!(
            "a column would hold more than {} bytes of text or binary, or list items\n\
             hint: run with more tasks so that each key range holds fewer rows, lower `tidemill.block_rows`, or store \
             less in each row; in a StateMap or StateStore, change fewer rows per version",
            i32::MAX
        ))
    }
}

impl From<ArrowError> for Error {
    /// Arrays are checked when they enter the engine, so an Arrow error is a bug in Tidemill or a limit of Arrow's
    /// formats.
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::OffsetOverflowError(_) => Self::column_too_large(),
            ArrowError::InvalidArgumentError(text) if text.starts_with("offset overflow") => Self::column_too_large(),
            other => Self::InternalError(format!("Arrow rejected an array that the engine built: {other}")),
        }
    }
}
