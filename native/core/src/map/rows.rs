//! Rows that enter and leave a state map, column by column.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, TimestampMillisecondArray, UInt32Array};
use arrow_select::take::take;

use crate::error::Result;
use crate::schema::MapSchema;

/// Rows to put, or to remove if `deleted`, in any order. Of equal keys the last row wins.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Key columns; none for the empty key.
    pub keys: Vec<ArrayRef>,
    /// Sub-key columns.
    pub sub_keys: Vec<ArrayRef>,
    /// Value columns, with the types of the map's schema. The values of deleted rows do not matter.
    pub values: Vec<ArrayRef>,
    /// When each row was updated, ms since the epoch. The length is the number of rows.
    pub updated_at: Vec<i64>,
    /// The first ms at which the row is due.
    pub deadline: Vec<Option<i64>>,
    /// Whether to remove the row.
    pub deleted: Vec<bool>,
}

/// Live rows, sorted by (hash of the key, key bytes, sub-key bytes).
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Key columns.
    pub keys: Vec<ArrayRef>,
    /// Sub-key columns.
    pub sub_keys: Vec<ArrayRef>,
    /// Value columns.
    pub values: Vec<ArrayRef>,
    /// When each row was updated, ms since the epoch. The length is the number of rows.
    pub updated_at: Vec<i64>,
    /// The first ms at which the row is due.
    pub deadline: Vec<Option<i64>>,
}

impl Rows {
    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.updated_at.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.updated_at.is_empty()
    }

    /// Return the rows at `places`, in that order.
    pub fn take(&self, places: &[u32]) -> Result<Self> {
        Ok(Self {
            keys: take_rows(&self.keys, places)?,
            sub_keys: take_rows(&self.sub_keys, places)?,
            values: take_rows(&self.values, places)?,
            updated_at: places.iter().map(|&place| self.updated_at[place as usize]).collect(),
            deadline: places.iter().map(|&place| self.deadline[place as usize]).collect(),
        })
    }

    /// Return changes that put these rows again.
    #[must_use]
    pub fn put(self) -> Changes {
        let deleted = vec![false; self.len()];
        let Self { keys, sub_keys, values, updated_at, deadline } = self;
        Changes { keys, sub_keys, values, updated_at, deadline, deleted }
    }

    /// Return changes that remove these rows: tombstones with `now_ms` as their time.
    #[must_use]
    pub fn removed(&self, now_ms: i64) -> Changes {
        let rows = self.len();
        Changes {
            keys: self.keys.clone(),
            sub_keys: self.sub_keys.clone(),
            values: self.values.clone(),
            updated_at: vec![now_ms; rows],
            deadline: vec![None; rows],
            deleted: vec![true; rows],
        }
    }

    /// Return the rows in [`MapSchema::live_columns`].
    pub fn into_batch(self, schema: &MapSchema) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.updated_at.len()));
        let mut columns = self.keys;
        columns.extend(self.sub_keys);
        columns.extend(self.values);
        columns.push(Arc::new(TimestampMillisecondArray::from(self.updated_at).with_timezone("UTC")));
        columns.push(Arc::new(TimestampMillisecondArray::from(self.deadline).with_timezone("UTC")));
        Ok(RecordBatch::try_new_with_options(schema.live_columns(), columns, &options)?)
    }
}

/// Return these columns at `places`, in that order.
pub(crate) fn take_rows(columns: &[ArrayRef], places: &[u32]) -> Result<Vec<ArrayRef>> {
    let places = UInt32Array::from(places.to_vec());
    columns.iter().map(|column| Ok(take(column, &places, None)?)).collect()
}

/// The answer to a look-up: one entry for each key, in the order of the keys.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Whether there is a live row.
    pub found: Vec<bool>,
    /// Value columns, null for keys that were not found.
    pub values: Vec<ArrayRef>,
    /// ms since the epoch, 0 for keys that were not found.
    pub updated_at: Vec<i64>,
    /// The first ms at which the row is due, if it has a deadline.
    pub deadline: Vec<Option<i64>>,
}
