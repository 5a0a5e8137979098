//! What is due, and when something will be. Only rows that the newest run of their key shows count.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Rows, StateMap};
use crate::error::Result;

impl StateMap {
    /// The live rows with deadline <= `now_ms`, sorted.
    pub fn due(&self, now_ms: i64) -> Result<Rows> {
        let mut picks: Vec<(usize, usize)> = Vec::new();
        for (source, run) in self.runs.iter().enumerate() {
            run.for_each_due(now_ms, |row| {
                if !self.is_hidden(source, row) {
                    picks.push((source, row));
                }
            });
        }
        picks.sort_unstable_by(|a, b| self.runs[a.0].keys().cmp_at(a.1, self.runs[b.0].keys(), b.1));
        self.rows(&picks)
    }

    /// The least deadline of a live row; `None` if no live row has one.
    ///
    /// Exact: a stale one would make a sweep run for ever. Rows that newer runs hide are skipped one by one, so the
    /// cost grows with the changes above the oldest run, not with the map.
    #[must_use]
    pub fn next_deadline(&self) -> Option<i64> {
        let mut blocks: BinaryHeap<_> = BinaryHeap::new();
        for (source, run) in self.runs.iter().enumerate() {
            blocks.extend(run.due_blocks().map(|(least, rows)| Reverse((least, source, rows.start, rows.end))));
        }
        let mut best: Option<i64> = None;
        while let Some(Reverse((least, source, start, end))) = blocks.pop() {
            if best.is_some_and(|best| best <= least) {
                break;
            }
            best = best.into_iter().chain(self.least_visible(source, start..end, best)).min();
        }
        best
    }

    /// The least deadline below `best` among `rows` of run `source` that no newer run hides.
    fn least_visible(&self, source: usize, rows: std::ops::Range<usize>, best: Option<i64>) -> Option<i64> {
        let run = &self.runs[source];
        let mut least = best;
        for row in rows {
            let Some(deadline) = run.deadline(row) else { continue };
            if least.is_none_or(|least| deadline < least) && !self.is_hidden(source, row) {
                least = Some(deadline);
            }
        }
        least
    }
}
