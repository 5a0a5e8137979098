//! The number of live rows, and by how much the changes since `open` changed it.

use std::ops::Range;

use super::StateMap;
use crate::key::Keys;
use crate::run::{SortedRun, newest};

impl StateMap {
    /// Count the live rows. The cost grows with the map if it has more than one run.
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

    /// Whether there are no live rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return the number of live rows now minus that at `open`. Looks up only changed keys, so the cost grows with the
    /// changes.
    #[must_use]
    pub fn live_change(&self) -> i64 {
        let (opened, changes) = self.runs.split_at(self.opened);
        let (mut before, mut more) = (Before { runs: opened, rows: vec![0..0; opened.len()], of: None }, 0);
        newest(changes, |source, row| {
            let is_live = !changes[source].is_tombstone(row);
            more += i64::from(is_live) - i64::from(before.was_live(changes[source].keys(), row));
        });
        more
    }
}

/// The runs that a map was opened with, for look-ups of ascending keys. The rows of a key are located once for all its
/// sub-keys.
struct Before<'a> {
    runs: &'a [SortedRun],
    /// For each run, its rows with key `of`, with any sub-key.
    rows: Vec<Range<usize>>,
    of: Option<(&'a Keys, usize)>,
}

impl<'a> Before<'a> {
    /// Whether key `i` of `keys` had a live row.
    fn was_live(&mut self, keys: &'a Keys, i: usize) -> bool {
        if !keys.has_sub_keys() {
            let newest = self.runs.iter().rev().find_map(|run| run.find(keys, i).map(|row| !run.is_tombstone(row)));
            return newest.unwrap_or_default();
        }
        let is_same = |(last, row): (&Keys, usize)| last.hash(row) == keys.hash(i) && last.has_key_of(row, keys, i);
        if !self.of.is_some_and(is_same) {
            self.rows.clear();
            self.rows.extend(self.runs.iter().map(|run| run.rows_of(keys, i)));
            self.of = Some((keys, i));
        }
        let found = self.runs.iter().zip(&self.rows).rev();
        let newest = found.filter_map(|(run, rows)| Some(!run.is_tombstone(run.find_sub_key(rows, keys, i)?))).next();
        newest.unwrap_or_default()
    }
}
