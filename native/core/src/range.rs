//! Ranges of the 64-bit key hash, and splitting rows by them. What a range means to a batch is decided in Python.
//!
//! INVARIANT: a range never cuts a key, because all rows of a key have one hash.

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;

use crate::error::{Error, Result};
use crate::key::Keys;

/// The hashes `lo..=hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The least hash in the range.
    pub lo: u64,
    /// The greatest hash in the range.
    pub hi: u64,
}

impl KeyRange {
    /// Every hash.
    pub const ALL: Self = Self { lo: 0, hi: u64::MAX };

    /// The range `lo..=hi`; `InvalidInput` if it is empty.
    pub fn new(lo: u64, hi: u64) -> Result<Self> {
        if lo > hi {
            return Err(Error::InvalidInput(format!(
                "a key range must not be empty: its least hash {lo:016x} is above its greatest {hi:016x}"
            )));
        }
        Ok(Self { lo, hi })
    }

    /// Whether `hash` lies in the range.
    #[must_use]
    pub const fn contains(self, hash: u64) -> bool {
        self.lo <= hash && hash <= self.hi
    }
}

/// `rows` split by key hash, one batch a range, rows in the order they had.
///
/// `bounds` are the inclusive upper ends of the ranges, ascending, the last one `u64::MAX`; `keys` are those of `rows`.
pub fn partition(rows: &RecordBatch, keys: &Keys, bounds: &[u64]) -> Result<Vec<RecordBatch>> {
    check_bounds(bounds)?;
    if rows.num_rows() != keys.len() {
        return Err(Error::InternalError(format!("cannot split {} rows by {} keys", rows.num_rows(), keys.len())));
    }
    if bounds.len() == 1 {
        return Ok(vec![rows.clone()]);
    }
    let mut picks: Vec<Vec<u32>> = vec![Vec::with_capacity(rows.num_rows() / bounds.len() + 16); bounds.len()];
    for (row, hash) in (0u32..).zip(keys.hashes()) {
        picks[bounds.partition_point(|bound| bound < hash)].push(row);
    }
    picks.into_iter().map(|rows_of_range| Ok(take_record_batch(rows, &UInt32Array::from(rows_of_range))?)).collect()
}

fn check_bounds(bounds: &[u64]) -> Result<()> {
    if bounds.last() != Some(&u64::MAX) {
        return Err(Error::InvalidInput("the last bound of a partition must be 2**64 - 1".into()));
    }
    if !bounds.is_sorted_by(|a, b| a < b) {
        return Err(Error::InvalidInput("the bounds of a partition must ascend".into()));
    }
    Ok(())
}
