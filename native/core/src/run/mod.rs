//! Sorted runs: immutable rows sorted by (hash of the key, key bytes, sub-key bytes), one row a (key, sub-key).

/// A shared, immutable sorted run.
#[derive(Clone, Debug)]
pub struct SortedRun {}
