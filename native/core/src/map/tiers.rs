//! When runs are merged: a pure function of their sizes.
//!
//! Nothing is merged before there is one run too many, because that is what keeps down how often a row is written again
//! (docs/decisions/0003-tiers.md). INVARIANT: however many batches there were, a map that merges by this rule has at
//! most `MAX_RUNS` runs.

/// The number of runs that is never passed.
const MAX_RUNS: usize = 8;
/// Once too many are merged, a run joins them while it has less than 11/10 as many rows as they have together.
const RATIO: (u64, u64) = (11, 10);

/// How many of the newest runs to merge, given the rows of each, oldest first. 1: none; all of them: everything.
#[must_use]
pub fn merge_count(rows: &[u64]) -> usize {
    let Some((&newest, older)) = rows.split_last() else { return 0 };
    if rows.len() <= MAX_RUNS {
        return 1;
    }
    let (mut merged, mut count) = (newest, 1);
    for &run in older.iter().rev() {
        let is_large = run.saturating_mul(RATIO.1) >= merged.saturating_mul(RATIO.0);
        if is_large && rows.len() - count < MAX_RUNS {
            break;
        }
        merged = merged.saturating_add(run);
        count += 1;
    }
    count
}
