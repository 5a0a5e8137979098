//! The map in parts of about equally many rows, for who looks at all of it but not at once.

use super::StateMap;
use crate::range::KeyRange;

impl StateMap {
    /// Into how many parts to cut it so that one has about `rows` rows; hashes are uniform. At least one,
    /// and no more than there are hashes.
    #[must_use]
    pub fn count_parts(&self, rows: usize) -> u64 {
        let all: usize = self.runs.iter().map(crate::run::SortedRun::len).sum();
        (all.div_ceil(rows.max(1)).max(1) as u64).min((self.range.hi - self.range.lo).saturating_add(1))
    }

    /// Part `number` of `count` as a map of its own, all of which together, in their order, hold what this one holds.
    /// `None` where there is no such part, or no hash in it.
    #[must_use]
    pub fn part(&self, number: u64, count: u64) -> Option<Self> {
        let KeyRange { lo, hi } = self.range;
        let width = u128::from(hi - lo) + 1;
        let start = |part: u64| u128::from(lo) + width * u128::from(part) / u128::from(count);
        let (from, behind) = if number < count { (start(number), start(number + 1)) } else { return None };
        let range = KeyRange { lo: from as u64, hi: behind.checked_sub(1)? as u64 };
        if from == behind {
            return None;
        }
        let runs: Vec<_> = self.runs.iter().map(|run| run.within(range)).filter(|run| !run.is_empty()).collect();
        Some(Self { schema: self.schema.clone(), range, opened: runs.len(), versions: runs.len(), runs })
    }
}
