//! An event time among the key columns: a key is over when the watermark reaches it, as a window is at its end.
//!
//! INVARIANT: a null is never late, and its key is never over.

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use arrow_schema::Schema;

use super::columns::InputColumn;
use super::event_time::{event_time_column, expiry_ms, late_rows, without};
use super::window::Ends;
use crate::error::{Error, Result};
use crate::key::Keys;

/// The event time among the key columns, as declared.
#[derive(Clone, Debug)]
pub struct KeyTimeSpec {
    /// Which of the key columns.
    pub column: String,
    /// What the end of a key is.
    pub ends: Ends,
}

/// The event time of keys at work.
#[derive(Debug)]
pub(super) struct KeyTime {
    column: InputColumn,
    place: usize,
    ends: Ends,
}

impl KeyTime {
    /// `InvalidInput` for a column that is no time, or none of the key columns, called `key` (those of windows: `None`).
    pub(super) fn new(operator: &str, input: &Schema, key: &[Option<&str>], spec: &KeyTimeSpec) -> Result<Self> {
        let column = event_time_column(operator, input, &spec.column)?;
        match key.iter().position(|name| *name == Some(spec.column.as_str())) {
            Some(place) => Ok(Self { column, place, ends: spec.ends }),
            None => Err(Error::InvalidInput(format!(
                "operator `{operator}` has keys that end by column `{}`, which is no key column",
                spec.column
            ))),
        }
    }

    pub(super) fn ends(&self) -> Ends {
        self.ends
    }

    /// The rows whose keys are not over at `late_ms`, and which of those given were.
    pub(super) fn open(
        &self,
        operator: &str,
        rows: &RecordBatch,
        late_ms: Option<i64>,
    ) -> Result<(RecordBatch, Option<BooleanBuffer>)> {
        let Some(late_ms) = late_ms else { return Ok((rows.clone(), None)) };
        let late = late_rows(self.column.of(operator, rows)?.as_ref(), late_ms)?;
        Ok((without(rows.clone(), late.as_ref())?, late))
    }

    /// The first ms of the watermark at which each key is over.
    pub(super) fn deadlines(&self, keys: &Keys) -> Result<Vec<Option<i64>>> {
        Ok(expiry_ms(keys.columns()[self.place].as_ref(), 0)?.iter().collect())
    }
}
