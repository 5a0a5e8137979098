//! How many live rows there are, and by how many the changes since `open` made them more or fewer.

use super::StateMap;
use crate::key::Keys;
use crate::run::newest;

impl StateMap {
    /// Live rows, counted: the cost grows with the map wherever it has more than one run.
    #[must_use]
    pub fn len(&self) -> usize {
        if let [only] = self.runs.as_slice()
            && only.has_no_tombstones()
        {
            return only.len();
        }
        let mut live = 0;
        newest(&self.runs, |source, row| live += usize::from(!self.runs[source].is_tombstone(row)));
        live
    }

    /// Whether there is no live row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Live rows now less live rows at `open`. Looks up the changed keys alone, so the cost follows the changes.
    #[must_use]
    pub fn live_change(&self) -> i64 {
        let changes = &self.runs[self.opened..];
        let mut more = 0;
        newest(changes, |source, row| {
            let is_live = !changes[source].is_tombstone(row);
            more += i64::from(is_live) - i64::from(self.was_live(changes[source].keys(), row));
        });
        more
    }

    /// Whether key `i` of `keys` had a live row at `open`.
    fn was_live(&self, keys: &Keys, i: usize) -> bool {
        let opened = self.runs[..self.opened].iter().rev();
        opened.filter_map(|run| run.find(keys, i).map(|row| !run.is_tombstone(row))).next().unwrap_or(false)
    }
}
