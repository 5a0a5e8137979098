//! When runs are merged: a pure function of their sizes.
//!
//! INVARIANT: however many batches there were, a map that merges by this rule has at most `MAX_RUNS` runs.

/// A run is merged with the one before it while that is less than this many times as large.
const RATIO: u64 = 3;
/// The number of runs that look-ups should have to visit.
const AIM: u32 = 5;
/// The number of runs that is never passed.
const MAX_RUNS: usize = 8;

/// How many of the newest runs to merge, given the rows of each, oldest first. 1: none; all of them: everything.
///
/// The ratio is 3, more where the oldest run is so much larger than the newest that threes would make too many tiers.
#[must_use]
pub fn merge_count(rows: &[u64]) -> usize {
    let (Some(&oldest), Some(&newest)) = (rows.first(), rows.last()) else {
        return 0;
    };
    let ratio = tier_ratio(oldest, newest);
    let (mut merged, mut count) = (newest, 1);
    for &older in rows[..rows.len() - 1].iter().rev() {
        if older >= merged.max(1).saturating_mul(ratio) && rows.len() - count < MAX_RUNS {
            break;
        }
        merged = merged.saturating_add(older);
        count += 1;
    }
    count
}

/// The least ratio of at least 3 with which `AIM` tiers reach from `newest` to `oldest`.
fn tier_ratio(oldest: u64, newest: u64) -> u64 {
    let reaches = |ratio: u64| {
        let tiers = u128::from(ratio).saturating_pow(AIM - 1);
        tiers.saturating_mul(u128::from(newest.max(1))) >= u128::from(oldest)
    };
    let (mut low, mut high) = (RATIO, 1 << 16); // (2^16)^4 reaches every number of rows
    while low < high {
        let middle = low.midpoint(high);
        if reaches(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
