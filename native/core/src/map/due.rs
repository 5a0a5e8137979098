//! What is due, and when something will be. Only rows that the newest run of their key shows count.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Rows, StateMap};
use crate::error::Result;
use crate::run::Pick;

impl StateMap {
    /// The live rows with deadline <= `now_ms`, sorted.
    pub fn due(&self, now_ms: i64) -> Result<Rows> {
        let mut picks: Vec<Pick> = Vec::new();
        for (source, run) in self.runs.iter().enumerate() {
            run.for_each_due(now_ms, |row| {
                if !self.is_hidden(source, row) {
                    picks.push(Pick::new(source, row));
                }
            });
        }
        if picks.iter().any(|pick| pick.source() != picks[0].source()) {
            picks.sort_unstable_by(|a, b| {
                self.runs[a.source()].keys().cmp_at(a.row(), self.runs[b.source()].keys(), b.row())
            });
        }
        self.rows(&picks)
    }

    /// The least deadline of a live row; `None` if no live row has one.
    ///
    /// Exact: a stale one would make a sweep run for ever. Parts of a run are looked into in the order of their least
    /// deadlines, and rows that newer runs hide are skipped one by one. So the cost grows with the rows that are hidden
    /// below the answer, and with the logarithm of the map.
    #[must_use]
    pub fn next_deadline(&self) -> Option<i64> {
        let mut parts: BinaryHeap<_> = BinaryHeap::new();
        for (source, run) in self.runs.iter().enumerate() {
            parts.extend(run.due_parts().map(|(least, part)| Reverse((least, source, part))));
        }
        let mut best: Option<i64> = None;
        while let Some(Reverse((least, source, part))) = parts.pop() {
            if best.is_some_and(|best| best <= least) {
                break;
            }
            match part.rows() {
                Some(rows) => best = self.least_visible(source, rows, best),
                None => {
                    let smaller = self.runs[source].due_parts_of(part);
                    parts.extend(smaller.map(|(least, part)| Reverse((least, source, part))));
                }
            }
        }
        best
    }

    /// `best`, or a lesser deadline of one of `rows` of run `source` that no newer run hides.
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
