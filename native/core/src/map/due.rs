//! What is due, and when something will be. Only rows that the newest run of their key shows count.

use super::{Rows, StateMap};
use crate::error::Result;
use crate::run::Pick;

/// How many rows are looked at together for the least deadline; if newer runs hide all of them, as many again.
const FIRST: usize = 64;

impl StateMap {
    /// The live rows with deadline <= `now_ms`, sorted.
    pub fn due(&self, now_ms: i64) -> Result<Rows> {
        let mut picks: Vec<Pick> = Vec::new();
        for (source, run) in self.runs.iter().enumerate() {
            let rows = self.visible(source, run.due(now_ms));
            picks.extend(rows.into_iter().map(|row| Pick::new(source, row as usize)));
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
    /// Exact: a stale one would make a sweep run for ever. The rows of a run are looked up in newer ones in the order of
    /// their deadlines, so the cost grows with those that are hidden below the answer.
    #[must_use]
    pub fn next_deadline(&self) -> Option<i64> {
        let mut least: Option<i64> = None;
        for source in (0..self.runs.len()).rev() {
            least = self.least_visible(source, least).or(least);
        }
        least
    }

    /// The least deadline of run `source` that no newer run hides, if it is below `bound`.
    fn least_visible(&self, source: usize, bound: Option<i64>) -> Option<i64> {
        let run = &self.runs[source];
        let mut seen = 0;
        loop {
            let rows = run.by_deadline(seen, seen.max(FIRST));
            seen += rows.len();
            let deadline = |&row: &u32| run.deadline(row as usize);
            let below: Vec<u32> =
                rows.iter().copied().filter(|row| bound.is_none_or(|bound| deadline(row) < Some(bound))).collect();
            let is_all = below.len() == rows.len() && !rows.is_empty();
            let first = self.visible(source, below).first().and_then(deadline);
            if first.is_some() || !is_all {
                return first;
            }
        }
    }

    /// Those of `rows` of run `source` whose key no newer run holds.
    fn visible(&self, source: usize, mut rows: Vec<u32>) -> Vec<u32> {
        let keys = self.runs[source].keys();
        for newer in self.runs[source + 1..].iter().rev() {
            newer.take_few_held(keys, &mut rows, |_, _| {});
        }
        rows
    }
}
