//! When runs are merged: a pure function of their sizes.

/// How many of the newest runs to merge, given the rows of each, oldest first. 1: none.
#[must_use]
pub fn merge_count(rows: &[u64]) -> usize {
    rows.len().min(1)
}
