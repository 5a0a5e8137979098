//! Ranges of the 64-bit key hash, and partitioning of rows by them. Python decides how a batch uses ranges.
//!
//! INVARIANT: a range never splits a key, because all rows of a key have one hash.

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;

use crate::error::{Error, Result};
use crate::key::Keys;

/// The hashes `lo..=hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The lowest hash in the range.
    pub lo: u64,
    /// The highest hash in the range.
    pub hi: u64,
}

impl KeyRange {
    /// Every hash.
    pub const ALL: Self = Self { lo: 0, hi: u64::MAX };

    /// Return the range `lo..=hi`; `InvalidInput` if it is empty.
    pub fn new(lo: u64, hi: u64) -> Result<Self> {
        if lo > hi {
            return Err(Error::InvalidInput(format!(
                "the key range is empty: its lowest hash {lo:016x} is greater than its highest hash {hi:016x}"
            )));
        }
        Ok(Self { lo, hi })
    }

    /// Whether `hash` is in the range.
    #[must_use]
    pub const fn contains(self, hash: u64) -> bool {
        self.lo <= hash && hash <= self.hi
    }
}

/// Split `rows` by key hash into one batch for each range. Rows keep their order.
///
/// `bounds` are the inclusive upper ends of the ranges, ascending; the last is `u64::MAX`. `keys` are the keys of
/// `rows`.
pub fn partition(rows: &RecordBatch, keys: &Keys, bounds: &[u64]) -> Result<Vec<RecordBatch>> {
    check_bounds(bounds)?;
    if rows.num_rows() != keys.len() {
        return Err(Error::InternalError(format!("cannot partition {} rows by {} keys", rows.num_rows(), keys.len())));
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
        return Err(Error::InvalidInput("the last partition bound must be 2**64 - 1".into()));
    }
    if !bounds.is_sorted_by(|a, b| a < b) {
        return Err(Error::InvalidInput("partition bounds must be in ascending order".into()));
    }
    Ok(())
}
