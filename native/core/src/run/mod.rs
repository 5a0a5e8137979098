//! Sorted runs: immutable rows sorted by (hash of the key, key bytes, sub-key bytes), one row for each (key, sub-key).
//!
//! A run knows nothing of versions or files. Deltas, bases and changes in memory are all runs.
//! INVARIANT: the keys of a run ascend strictly; a tombstone has no value and no deadline.
//! INVARIANT: `due_from` of a view is valid only under the newer runs for which it was computed.

mod build;
mod due;
mod filter;
mod find;
mod merge;
mod prefix;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use once_cell::race::OnceBox;

use crate::error::Result;
use crate::key::Keys;
use crate::range::KeyRange;
use crate::schema::MapSchema;
use due::DueOrder;
use filter::Filter;
use prefix::PrefixTable;

#[cfg(test)]
pub(crate) use due::looks;

pub use due::DuePlace;
pub use merge::{Tombstones, fit, merge, merge_in_parts};

pub(crate) use build::Unsorted;
pub(crate) use merge::newest;

/// A shared, immutable sorted run, or the part of it within a range of hashes.
#[derive(Clone, Debug)]
pub struct SortedRun {
    body: Arc<Body>,
    start: usize,
    end: usize,
    /// No visible row has a deadline before this position.
    due_from: DuePlace,
}

/// The run that all its views share.
#[derive(Debug)]
struct Body {
    schema: Arc<MapSchema>,
    keys: Keys,
    columns: Vec<ArrayRef>,
    /// Bytes of the columns, computed on first use.
    column_bytes: OnceBox<usize>,
    updated_at: ScalarBuffer<i64>,
    deadline: ScalarBuffer<i64>,
    deadline_nulls: Option<NullBuffer>,
    deleted: BooleanBuffer,
    tombstones: usize,
    prefixes: PrefixTable,
    filter: Filter,
    due: DueOrder,
}

/// The index of a whole run: where hashes and deadlines are. It is derived from the rows.
#[derive(Debug)]
pub(crate) struct RunIndex {
    prefixes: PrefixTable,
    due: DueOrder,
}

impl RunIndex {
    /// Build the index from its parts: three numbers and the starts of the prefix table, and the rows by deadline.
    pub(crate) fn of_parts(numbers: [u64; 3], starts: ScalarBuffer<u32>, by_deadline: ScalarBuffer<u32>) -> Self {
        Self { prefixes: PrefixTable::of_parts(numbers, starts), due: DueOrder::of_rows(by_deadline) }
    }
}

/// A run whose columns, hashes and index belong to exactly the rows that it shows.
pub(crate) struct Whole<'a>(Cow<'a, SortedRun>);

impl Whole<'_> {
    pub(crate) fn run(&self) -> &SortedRun {
        &self.0
    }

    /// Return the parts from which `RunIndex::of_parts` rebuilds the index.
    pub(crate) fn index_parts(&self) -> ([u64; 3], &ScalarBuffer<u32>, &ScalarBuffer<u32>) {
        let (numbers, starts) = self.0.body.prefixes.parts();
        (numbers, starts, self.0.body.due_order())
    }
}

impl SortedRun {
    /// How many rows there are, including tombstones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes of memory that its columns, hashes and tables use, in proportion to the rows that it shows.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        let whole = self.body.keys.len();
        if whole == 0 {
            return 0;
        }
        // Count slices, because each buffer in a mapped file would count as the whole file.
        let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0);
        let columns = *self.body.column_bytes.get_or_init(|| Box::new(self.body.columns.iter().map(bytes).sum()));
        let tables = self.body.prefixes.nbytes() + self.body.filter.nbytes() + self.body.due.nbytes();
        (columns + whole * size_of::<u64>() + tables) * self.len() / whole
    }

    /// The columns of its rows.
    #[must_use]
    pub fn schema(&self) -> &Arc<MapSchema> {
        &self.body.schema
    }

    /// Return a view of the rows with a hash in `range`. It shares all memory with this run.
    #[must_use]
    pub fn within(&self, range: KeyRange) -> Self {
        let hashes = &self.body.keys.hashes()[self.start..self.end];
        let start = self.start + hashes.partition_point(|&hash| hash < range.lo);
        let end = self.start + hashes.partition_point(|&hash| hash <= range.hi);
        Self { body: Arc::clone(&self.body), start, end, due_from: self.due_from }
    }

    /// Return all its rows, including tombstones, in [`MapSchema::columns`].
    pub fn batch(&self) -> Result<RecordBatch> {
        let columns = self.body.columns.iter().map(|column| column.slice(self.start, self.len())).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.len()));
        Ok(RecordBatch::try_new_with_options(self.body.schema.columns(), columns, &options)?)
    }

    /// The hashes of its rows.
    #[must_use]
    pub fn hashes(&self) -> &[u64] {
        &self.body.keys.hashes()[self.start..self.end]
    }

    /// Return a run of exactly the rows that this view shows, with columns and an index of its own.
    pub(crate) fn whole(&self) -> Result<Whole<'_>> {
        if self.len() == self.body.keys.len() {
            return Ok(Whole(Cow::Borrowed(self)));
        }
        let columns = self.body.columns.iter().map(|column| column.slice(self.start, self.len())).collect::<Vec<_>>();
        let (schema, keys) = (&self.body.schema, &self.body.keys);
        let hashes = keys.all_hashes().slice(self.start, self.len());
        let keys = Keys::of_canonical(columns[..schema.key_width()].to_vec(), keys.hashed_columns(), hashes)?;
        Self::from_sorted(schema, keys, columns).map(|run| Whole(Cow::Owned(run)))
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.body.keys
    }

    /// The columns of the whole run, in [`MapSchema::columns`], indexed by row number.
    pub(crate) fn columns(&self) -> &[ArrayRef] {
        &self.body.columns
    }

    pub(crate) fn is_tombstone(&self, row: usize) -> bool {
        self.body.tombstones > 0 && self.body.deleted.value(row)
    }

    /// Whether the whole run has no tombstones, not only the part that this view shows.
    pub(crate) fn has_no_tombstones(&self) -> bool {
        self.body.tombstones == 0
    }

    pub(crate) fn updated_at(&self, row: usize) -> i64 {
        self.body.updated_at[row]
    }

    pub(crate) fn deadline(&self, row: usize) -> Option<i64> {
        self.body.deadline_of(row)
    }
}
