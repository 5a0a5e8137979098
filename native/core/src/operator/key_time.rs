//! An event time among the key columns. A key ends when the watermark reaches this time, as a window does at its end.
//!
//! INVARIANT: a null event time is never late, and a key with a null never ends.

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use arrow_schema::Schema;

use super::columns::InputColumn;
use super::event_time::{event_time_column, expiry_ms, late_rows, without};
use super::window::Ends;
use crate::error::{Error, Result};
use crate::key::Keys;

/// The declaration of an event time among the key columns.
#[derive(Clone, Debug)]
pub struct KeyTimeSpec {
    /// The key column that is the event time.
    pub column: String,
    /// What happens at the end of a key.
    pub ends: Ends,
}

/// The event time of the keys of an operator.
#[derive(Debug)]
pub(super) struct KeyTime {
    column: InputColumn,
    place: usize,
    ends: Ends,
}

impl KeyTime {
    /// Find the event time; `InvalidInput` if the column is not a time or not one of the columns `key`. Columns of
    /// windows are `None` in `key`.
    pub(super) fn new(operator: &str, input: &Schema, key: &[Option<&str>], spec: &KeyTimeSpec) -> Result<Self> {
        let column = event_time_column(operator, input, &spec.column)?;
        match key.iter().position(|name| *name == Some(spec.column.as_str())) {
            Some(place) => Ok(Self { column, place, ends: spec.ends }),
            None => Err(Error::InvalidInput(format!(
                "operator `{operator}` ends its keys by column `{}`, which is not a key column",
                spec.column
            ))),
        }
    }

    pub(super) fn ends(&self) -> Ends {
        self.ends
    }

    /// Return the rows whose keys have not ended at `late_ms`, and which of the given rows have.
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

    /// Return the first ms of the watermark at which each key ends.
    pub(super) fn deadlines(&self, keys: &Keys) -> Result<Vec<Option<i64>>> {
        Ok(expiry_ms(keys.columns()[self.place].as_ref(), 0)?.iter().collect())
    }
}
