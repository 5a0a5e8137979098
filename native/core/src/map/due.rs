//! Which rows are due, and when the next one will be. Only the newest row of a key counts.
//!
//! INVARIANT: a row that newer runs hide stays hidden in every map derived by further changes. So each run that the map
//! was opened with records how far all its rows are hidden (`due_from`), and later searches start there.

use super::{Rows, StateMap};
use crate::error::Result;
use crate::gather::Pick;
use crate::run::DuePlace;

/// How many rows to check at first for the least deadline; if newer runs hide all of them, as many again.
const FIRST: usize = 64;

impl StateMap {
    /// Return the live rows with a deadline <= `now_ms`, sorted.
    pub fn due(&mut self, now_ms: i64) -> Result<Rows> {
        let mut picks: Vec<Pick> = Vec::new();
        for source in 0..self.runs.len() {
            let run = &self.runs[source];
            let rows = self.visible(source, run.due(now_ms));
            let first = rows.iter().map(|&row| run.due_place(row)).min();
            self.raise_due_from(source, first.unwrap_or(DuePlace::after(now_ms)));
            picks.extend(rows.into_iter().map(|row| Pick::new(source, row as usize)));
        }
        if picks.iter().any(|pick| pick.source() != picks[0].source()) {
            picks.sort_unstable_by(|a, b| {
                self.runs[a.source()].keys().cmp_at(a.row(), self.runs[b.source()].keys(), b.row())
            });
        }
        self.rows(&picks)
    }

    /// Remove the live rows with a deadline <= `now_ms`, with `at_ms` as the time of removal; return them, sorted.
    pub fn take_due(&mut self, now_ms: i64, at_ms: i64) -> Result<Rows> {
        let due = self.due(now_ms)?;
        self.change(&due.removed(at_ms))?;
        (0..self.opened).for_each(|source| self.raise_due_from(source, DuePlace::after(now_ms)));
        Ok(due)
    }

    /// Return the least deadline of a live row; `None` if no live row has one.
    ///
    /// The result is exact, because an outdated deadline would let sweeps run for ever. The rows of a run are looked up
    /// in newer runs in the order of their deadlines, so the cost grows with the hidden rows before the answer that
    /// were not known yet.
    pub fn next_deadline(&mut self) -> Option<i64> {
        let first = self.first_due();
        (first < DuePlace::LAST).then_some(first.deadline_ms)
    }

    /// For each run that the map was opened with, return the position in its order of deadlines before which newer runs
    /// and changes hide all its rows; [`DuePlace::LAST`] if they hide all rows that have a deadline. Costs as much as
    /// `next_deadline`.
    pub fn due_places(&mut self) -> Vec<DuePlace> {
        self.first_due();
        self.runs[..self.opened].iter().map(crate::run::SortedRun::due_from).collect()
    }

    /// Return how many of the oldest runs that the map was opened with have no visible rows. Dropping them changes
    /// nothing.
    ///
    /// Only deadlines are checked: a row without a deadline counts as visible even if a newer run hides it.
    pub fn spent_runs(&mut self) -> usize {
        self.first_due();
        self.runs[..self.opened].iter().take_while(|run| run.is_spent()).count()
    }

    /// Return the position of the live row that is due first; `LAST` if no live row has a deadline.
    fn first_due(&mut self) -> DuePlace {
        let mut least = DuePlace::LAST;
        for source in (0..self.runs.len()).rev() {
            let first = self.first_visible(source, least);
            self.raise_due_from(source, first);
            least = least.min(first);
        }
        least
    }

    /// Return the position of the first row of run `source` that no newer run hides; `bound` if no such row is below
    /// it, and `LAST` if no row is visible at all.
    fn first_visible(&self, source: usize, bound: DuePlace) -> DuePlace {
        let run = &self.runs[source];
        let mut seen = 0;
        loop {
            let asked = seen.max(FIRST);
            let rows = run.by_deadline(seen, asked);
            let below: Vec<u32> = rows.iter().copied().take_while(|&row| run.due_place(row) <= bound).collect();
            let count = below.len();
            match self.visible(source, below).first() {
                Some(&row) => return run.due_place(row),
                None if count < rows.len() => return bound,
                None if count < asked => return DuePlace::LAST,
                None => seen += count,
            }
        }
    }

    /// Record that newer runs hide all rows of run `source` before `place`. Runs of changes are skipped, because they
    /// get merged.
    fn raise_due_from(&mut self, source: usize, place: DuePlace) {
        if source < self.opened {
            self.runs[source].raise_due_from(place);
        }
    }

    /// Return those of `rows` of run `source` whose key is in no newer run.
    fn visible(&self, source: usize, mut rows: Vec<u32>) -> Vec<u32> {
        let keys = self.runs[source].keys();
        for newer in self.runs[source + 1..].iter().rev() {
            #[cfg(test)]
            crate::run::looks::add(rows.len());
            newer.take_few_held(keys, &mut rows, |_, _| {});
        }
        rows
    }
}
