//! The least deadline of each block of 64 rows, so that a search for what is due skips what is not.

use super::{Body, SortedRun};

const BLOCK_ROWS: usize = 64;
const NEVER: i64 = i64::MAX;

/// Minima a block; empty if no row has a deadline.
#[derive(Debug, Default)]
pub(super) struct DueBlocks {
    minima: Vec<i64>,
}

impl DueBlocks {
    /// The minima of `rows` rows of which `deadline` tells the deadline.
    pub(super) fn new(rows: usize, deadline: impl Fn(usize) -> Option<i64>) -> Self {
        let least = |block: usize| {
            let end = rows.min((block + 1) * BLOCK_ROWS);
            (block * BLOCK_ROWS..end).filter_map(&deadline).min().unwrap_or(NEVER)
        };
        Self { minima: (0..rows.div_ceil(BLOCK_ROWS)).map(least).collect() }
    }
}

impl Body {
    pub(super) fn deadline_of(&self, row: usize) -> Option<i64> {
        let null = self.deadline_nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        (!null).then(|| self.deadline[row])
    }

    pub(super) fn min_deadline(&self, start: usize, end: usize) -> Option<i64> {
        blocks(start, end)
            .filter_map(|(block, rows)| {
                let whole = rows.len() == BLOCK_ROWS;
                match self.due.minima.get(block) {
                    None | Some(&NEVER) => None,
                    Some(&least) if whole => Some(least),
                    Some(_) => rows.filter_map(|row| self.deadline_of(row)).min(),
                }
            })
            .min()
    }
}

impl SortedRun {
    /// Calls `visit` with the rows that have a deadline <= `now_ms`, in order.
    pub(crate) fn for_each_due(&self, now_ms: i64, mut visit: impl FnMut(usize)) {
        if self.body.due.minima.is_empty() {
            return;
        }
        for (block, rows) in blocks(self.start, self.end) {
            if self.body.due.minima[block] <= now_ms {
                rows.filter(|&row| self.deadline(row).is_some_and(|due| due <= now_ms)).for_each(&mut visit);
            }
        }
    }

    /// (least deadline, row numbers) of each block that has a deadline. The least one of a block that is shown in
    /// part is a lower bound.
    pub(crate) fn due_blocks(&self) -> impl Iterator<Item = (i64, std::ops::Range<usize>)> + '_ {
        blocks(self.start, self.end)
            .filter_map(|(block, rows)| self.body.due.minima.get(block).map(|&least| (least, rows)))
            .filter(|&(least, _)| least != NEVER)
    }
}

/// The blocks that the rows `start..end` touch, each with the rows of it that they contain.
fn blocks(start: usize, end: usize) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    let first = start / BLOCK_ROWS;
    let past = if start < end { end.div_ceil(BLOCK_ROWS) } else { first };
    (first..past).map(move |block| (block, start.max(block * BLOCK_ROWS)..end.min((block + 1) * BLOCK_ROWS)))
}
