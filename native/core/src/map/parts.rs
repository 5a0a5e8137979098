//! Cutting a map into parts of similar size, for callers that read all of it but not at once.

use super::StateMap;
use crate::range::KeyRange;
use crate::run::SortedRun;

/// The approximate size limit of a part: a tenth of the text that one column can hold.
const PART_BYTES: usize = 200 << 20;

impl StateMap {
    /// Return how many parts to cut the map into so that each has about `rows` rows, or fewer if rows are large. Hashes
    /// are uniform. There is at least one part, and at most one for each hash.
    #[must_use]
    pub fn count_parts(&self, rows: usize) -> u64 {
        let all: usize = self.runs.iter().map(SortedRun::len).sum();
        let bytes: usize = self.runs.iter().map(SortedRun::nbytes).sum();
        (parts_of(all, rows, bytes) as u64).min((self.range.hi - self.range.lo).saturating_add(1))
    }

    /// Return part `number` of `count` as a map of its own. All parts together, in order, hold the rows of this map.
    /// `None` if there is no such part, or if no hash falls into it.
    #[must_use]
    pub fn part(&self, number: u64, count: u64) -> Option<Self> {
        let KeyRange { lo, hi } = self.range;
        let width = u128::from(hi - lo) + 1;
        let start = |part: u64| u128::from(lo) + width * u128::from(part) / u128::from(count);
        let (from, end) = if number < count { (start(number), start(number + 1)) } else { return None };
        let range = KeyRange { lo: from as u64, hi: end.checked_sub(1)? as u64 };
        if from == end {
            return None;
        }
        Some(Self::of_runs(self.schema.clone(), &self.runs, range))
    }
}

fn parts_of(all: usize, rows: usize, bytes: usize) -> usize {
    all.div_ceil(rows.max(1)).max(bytes / PART_BYTES).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_requested_rows_or_fewer_if_they_are_large() {
        assert_eq!(parts_of(0, 4096, 0), 1);
        assert_eq!(parts_of(4097, 4096, 1 << 20), 2);
        assert_eq!(parts_of(100, 0, 0), 100);
        assert_eq!(parts_of(4096, 4096, 4096 << 20), 20, "rows of a megabyte: a column of text does not hold 4 GB");
    }
}
