//! Sorted runs: immutable rows sorted by (hash of the key, key bytes, sub-key bytes), one row a (key, sub-key).
//!
//! A run knows nothing of versions or files. Deltas, bases and the changes in memory are all runs.
//! INVARIANT: the keys of a run ascend strictly; a tombstone has no value and no deadline.

mod build;
mod due;
mod gather;
mod merge;
mod prefix;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};

use crate::error::Result;
use crate::key::Keys;
use crate::range::KeyRange;
use crate::schema::MapSchema;
use due::DueBlocks;
use prefix::PrefixTable;

pub use merge::{Tombstones, merge};

pub(crate) use build::Unsorted;
pub(crate) use gather::gather;
pub(crate) use merge::newest;

/// A shared, immutable sorted run, or the part of one that a range of hashes shows.
#[derive(Clone, Debug)]
pub struct SortedRun {
    body: Arc<Body>,
    start: usize,
    end: usize,
}

/// The whole run that views share.
#[derive(Debug)]
struct Body {
    schema: Arc<MapSchema>,
    keys: Keys,
    columns: Vec<ArrayRef>,
    updated_at: ScalarBuffer<i64>,
    deadline: ScalarBuffer<i64>,
    deadline_nulls: Option<NullBuffer>,
    deleted: BooleanBuffer,
    tombstones: usize,
    prefixes: PrefixTable,
    due: DueBlocks,
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

    /// Bytes that its columns and hashes take in memory, in proportion to the rows that it shows.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        let whole = self.body.keys.len();
        if whole == 0 {
            return 0;
        }
        let columns: usize = self.body.columns.iter().map(Array::get_buffer_memory_size).sum();
        (columns + whole * size_of::<u64>()) / whole * self.len()
    }

    /// The least deadline of a row that is no tombstone; `None` if there is none.
    #[must_use]
    pub fn min_deadline(&self) -> Option<i64> {
        self.body.min_deadline(self.start, self.end)
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
        Self { body: Arc::clone(&self.body), start, end }
    }

    /// All its rows, tombstones too, in [`MapSchema::columns`].
    pub fn batch(&self) -> Result<RecordBatch> {
        let columns = self.body.columns.iter().map(|column| column.slice(self.start, self.len())).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.len()));
        Ok(RecordBatch::try_new_with_options(self.body.schema.columns(), columns, &options)?)
    }

    /// The row of key `i` of `keys`, tombstone or not; `None` if this run does not hold it.
    #[must_use]
    pub(crate) fn find(&self, keys: &Keys, i: usize) -> Option<usize> {
        let hash = keys.hash(i);
        let hashes = self.body.keys.hashes();
        let (from, to) = self.body.prefixes.bucket(hash)?;
        let tie = hash_tie(&hashes[from..to], hash);
        let (from, to) = (from + tie.start, from + tie.end);
        let row = if to - from <= 1 { from } else { self.first_not_less(from, to, keys, i) };
        (row < to && row >= self.start && row < self.end && self.cmp_key(row, keys, i).is_eq()).then_some(row)
    }

    /// The rows of key `i` of `keys`, which have no sub-keys: all that have its key columns, whatever their sub-key.
    pub(crate) fn rows_of(&self, keys: &Keys, i: usize) -> std::ops::Range<usize> {
        let hash = keys.hash(i);
        let hashes = &self.body.keys.hashes()[self.start..self.end];
        let (from, to) = self.body.prefixes.bucket(hash).unwrap_or((0, 0));
        let (from, to) = (from.clamp(self.start, self.end) - self.start, to.clamp(self.start, self.end) - self.start);
        let tie = hash_tie(&hashes[from..to], hash);
        let (from, to) = (self.start + from + tie.start, self.start + from + tie.end);
        let first = self.first_not_less(from, to, keys, i);
        first..partition(first, to, |row| self.cmp_key(row, keys, i).is_eq())
    }

    /// The hashes of its rows, from the first that it shows to the last.
    #[must_use]
    pub fn hashes(&self) -> &[u64] {
        &self.body.keys.hashes()[self.start..self.end]
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

    fn cmp_key(&self, row: usize, keys: &Keys, i: usize) -> Ordering {
        self.body.keys.cmp_bytes(row, keys, i)
    }

    /// The first of the rows `from..to`, which have one hash, whose key bytes are not below those of key `i`.
    fn first_not_less(&self, from: usize, to: usize, keys: &Keys, i: usize) -> usize {
        partition(from, to, |row| self.cmp_key(row, keys, i).is_lt())
    }
}

/// The first of the rows `from..to` for which `is_before`, true of some first ones, is false.
fn partition(from: usize, to: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The positions of `hash` in sorted `hashes`. A bucket of the prefix table is short unless hashes collide.
fn hash_tie(hashes: &[u64], hash: u64) -> std::ops::Range<usize> {
    const SHORT: usize = 48;
    if hashes.len() > SHORT {
        let start = hashes.partition_point(|&found| found < hash);
        return start..start + hashes[start..].partition_point(|&found| found == hash);
    }
    let start = hashes.iter().take_while(|&&found| found < hash).count();
    let ties = hashes[start..].iter().take_while(|&&found| found == hash).count();
    start..start + ties
}
