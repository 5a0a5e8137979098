//! What is due, and when something will be. Only rows that the newest run of their key shows count.
//!
//! INVARIANT: a row that newer runs of a map hide is hidden in all maps that are made of it by changes, so each run that
//! the map was opened with is told how far all its rows are hidden, and no later search begins before.

use super::{Rows, StateMap};
use crate::error::Result;
use crate::gather::Pick;
use crate::run::DuePlace;

/// How many rows are looked at together for the least deadline; if newer runs hide all of them, as many again.
const FIRST: usize = 64;

impl StateMap {
    /// The live rows with deadline <= `now_ms`, sorted.
    pub fn due(&mut self, now_ms: i64) -> Result<Rows> {
        let mut picks: Vec<Pick> = Vec::new();
        for source in 0..self.runs.len() {
            let run = &self.runs[source];
            let rows = self.visible(source, run.due(now_ms));
            let first = rows.iter().map(|&row| run.due_place(row)).min();
            self.hides_before(source, first.unwrap_or(DuePlace::behind(now_ms)));
            picks.extend(rows.into_iter().map(|row| Pick::new(source, row as usize)));
        }
        if picks.iter().any(|pick| pick.source() != picks[0].source()) {
            picks.sort_unstable_by(|a, b| {
                self.runs[a.source()].keys().cmp_at(a.row(), self.runs[b.source()].keys(), b.row())
            });
        }
        self.rows(&picks)
    }

    /// Takes out the live rows with deadline <= `now_ms`, as removed at `at_ms`; returns them, sorted.
    pub fn take_due(&mut self, now_ms: i64, at_ms: i64) -> Result<Rows> {
        let due = self.due(now_ms)?;
        self.change(&due.removed(at_ms))?;
        (0..self.opened).for_each(|source| self.hides_before(source, DuePlace::behind(now_ms)));
        Ok(due)
    }

    /// The least deadline of a live row; `None` if no live row has one.
    ///
    /// Exact: a stale one would make a sweep run for ever. The rows of a run are looked up in newer ones in the order of
    /// their deadlines, so the cost grows with those that are hidden below the answer, and were not known to be.
    pub fn next_deadline(&mut self) -> Option<i64> {
        let first = self.first_due();
        (first < DuePlace::LAST).then_some(first.deadline_ms)
    }

    /// For each run that the map was opened with the place in its order of deadlines before which newer runs, changes
    /// too, hide all its rows; [`DuePlace::LAST`]: all that there are. What it costs is what `next_deadline` costs.
    pub fn due_places(&mut self) -> Vec<DuePlace> {
        self.first_due();
        self.runs[..self.opened].iter().map(crate::run::SortedRun::due_from).collect()
    }

    /// How many of the oldest runs that the map was opened with show no row any more: without them it holds the same.
    ///
    /// As far as deadlines tell: a row without one counts, also where a newer one hides it.
    pub fn spent_runs(&mut self) -> usize {
        self.first_due();
        self.runs[..self.opened].iter().take_while(|run| run.is_spent()).count()
    }

    /// The place of the live row that is due first; `LAST` if there is none.
    fn first_due(&mut self) -> DuePlace {
        let mut least = DuePlace::LAST;
        for source in (0..self.runs.len()).rev() {
            let first = self.first_visible(source, least);
            self.hides_before(source, first);
            least = least.min(first);
        }
        least
    }

    /// The place of the first row of run `source` that no newer run hides; `bound` where there is none below it, and
    /// `LAST` where there is none at all.
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

    /// Notes that newer runs hide all rows of run `source` before `place`. Changes are not told: they are merged.
    fn hides_before(&mut self, source: usize, place: DuePlace) {
        if source < self.opened {
            self.runs[source].raise_due_from(place);
        }
    }

    /// Those of `rows` of run `source` whose key no newer run holds.
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
