//! Sorted runs: immutable rows sorted by (hash of the key, key bytes, sub-key bytes), one row a (key, sub-key).
//!
//! A run knows nothing of versions or files. Deltas, bases and the changes in memory are all runs.

use std::sync::Arc;

use arrow_array::RecordBatch;

use crate::error::{Error, Result};
use crate::range::KeyRange;
use crate::schema::MapSchema;

/// What a merge does with tombstones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tombstones {
    /// Keep them: something older may lie below.
    Keep,
    /// Drop them: the oldest run is among the merged ones.
    Drop,
}

/// A shared, immutable sorted run, or the part of one that a range of hashes shows.
#[derive(Clone, Debug)]
pub struct SortedRun {
    schema: Arc<MapSchema>,
}

impl SortedRun {
    /// Rows, tombstones included.
    #[must_use]
    pub fn len(&self) -> usize {
        0
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that its columns take in memory.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        0
    }

    /// The least deadline of a row.
    #[must_use]
    pub fn min_deadline(&self) -> Option<i64> {
        None
    }

    /// The columns of its rows.
    #[must_use]
    pub fn schema(&self) -> &Arc<MapSchema> {
        &self.schema
    }

    /// The rows with a hash in `range`; shares everything with this run.
    #[must_use]
    pub fn within(&self, _range: KeyRange) -> Self {
        self.clone()
    }

    /// All its rows, tombstones too, in [`MapSchema::columns`].
    pub fn batch(&self) -> Result<RecordBatch> {
        Err(Error::InternalError("not yet".into()))
    }
}

/// One run of the rows of `runs`, oldest first, with a hash in `range`; the newest row of a key wins.
pub fn merge(_runs: &[SortedRun], _range: KeyRange, _tombstones: Tombstones) -> Result<SortedRun> {
    Err(Error::InternalError("not yet".into()))
}
