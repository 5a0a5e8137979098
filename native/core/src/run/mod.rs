//! Sorted runs: immutable rows sorted by (hash of the key, key bytes, sub-key bytes), one row a (key, sub-key).
//!
//! A run knows nothing of versions or files. Deltas, bases and the changes in memory are all runs.
//! INVARIANT: the keys of a run ascend strictly; a tombstone has no value and no deadline.
//! INVARIANT: what a view says of deadlines (`due_from`) holds where it lies under the runs that it was found under.

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

/// A shared, immutable sorted run, or the part of one that a range of hashes shows.
#[derive(Clone, Debug)]
pub struct SortedRun {
    body: Arc<Body>,
    start: usize,
    end: usize,
    /// Of the rows that count none has a deadline before this place.
    due_from: DuePlace,
}

/// The whole run that views share.
#[derive(Debug)]
struct Body {
    schema: Arc<MapSchema>,
    keys: Keys,
    columns: Vec<ArrayRef>,
    /// Bytes of the columns, once somebody has asked.
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

/// What leads to the rows of a whole run: where hashes and deadlines lie. It follows from the rows.
#[derive(Debug)]
pub(crate) struct RunIndex {
    prefixes: PrefixTable,
    due: DueOrder,
}

impl RunIndex {
    /// The index of these parts: three numbers and the starts of the prefix table, and the rows by deadline.
    pub(crate) fn of_parts(numbers: [u64; 3], starts: ScalarBuffer<u32>, by_deadline: ScalarBuffer<u32>) -> Self {
        Self { prefixes: PrefixTable::of_parts(numbers, starts), due: DueOrder::of_rows(by_deadline) }
    }
}

/// A run that is no part of another: its columns, hashes and index are those of its rows.
pub(crate) struct Whole<'a>(Cow<'a, SortedRun>);

impl Whole<'_> {
    pub(crate) fn run(&self) -> &SortedRun {
        &self.0
    }

    /// What `RunIndex::of_parts` makes the same index of.
    pub(crate) fn index_parts(&self) -> ([u64; 3], &ScalarBuffer<u32>, &ScalarBuffer<u32>) {
        let (numbers, starts) = self.0.body.prefixes.parts();
        (numbers, starts, self.0.body.due_order())
    }
}

impl SortedRun {
    /// Rows, tombstones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes that its columns, hashes and tables take in memory, in proportion to the rows that it shows.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        let whole = self.body.keys.len();
        if whole == 0 {
            return 0;
        }
        // Of buffers that lie in one mapped file each would count as all of it.
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

    /// The rows with a hash in `range`; shares everything with this run.
    #[must_use]
    pub fn within(&self, range: KeyRange) -> Self {
        let hashes = &self.body.keys.hashes()[self.start..self.end];
        let start = self.start + hashes.partition_point(|&hash| hash < range.lo);
        let end = self.start + hashes.partition_point(|&hash| hash <= range.hi);
        Self { body: Arc::clone(&self.body), start, end, due_from: self.due_from }
    }

    /// All its rows, tombstones too, in [`MapSchema::columns`].
    pub fn batch(&self) -> Result<RecordBatch> {
        let columns = self.body.columns.iter().map(|column| column.slice(self.start, self.len())).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.len()));
        Ok(RecordBatch::try_new_with_options(self.body.schema.columns(), columns, &options)?)
    }

    /// The hashes of its rows, from the first that it shows to the last.
    #[must_use]
    pub fn hashes(&self) -> &[u64] {
        &self.body.keys.hashes()[self.start..self.end]
    }

    /// All that there is of a run which has the rows that this one shows, and no others.
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

    /// Its columns, in [`MapSchema::columns`], indexed by row number.
    pub(crate) fn columns(&self) -> &[ArrayRef] {
        &self.body.columns
    }

    pub(crate) fn is_tombstone(&self, row: usize) -> bool {
        self.body.tombstones > 0 && self.body.deleted.value(row)
    }

    /// Whether no row is known to be a tombstone (of the whole run that this one is a part of).
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
