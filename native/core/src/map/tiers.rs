//! When to merge runs: a pure function of their sizes.
//!
//! Nothing is merged until there is one run too many, because that minimizes how often rows are rewritten
//! (docs/decisions/0003-tiers.md). INVARIANT: a map that merges by this rule has at most `MAX_RUNS` runs after any
//! number of batches.

/// Most runs of a map.
const MAX_RUNS: usize = 8;
/// During a merge, the next older run joins if it has less than 11/10 of the rows merged so far.
const RATIO: (u64, u64) = (11, 10);

/// Return how many of the newest runs to merge, given the rows of each, oldest first. 1 means no merge; the number of
/// runs means a merge of everything.
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
