//! The least deadline of each block of 64 rows, of each 64 blocks, and so on: a search for what is due skips what is not.

use std::ops::Range;

use arrow_buffer::ScalarBuffer;

use super::{Body, SortedRun};

/// Rows of a block; blocks of a part of level 1; parts of a level that make one of the next.
const FAN: usize = 64;
const NEVER: i64 = i64::MAX;

/// The minima of the parts of each level, blocks first; no level if no row has a deadline.
#[derive(Debug, Default)]
pub(super) struct DueBlocks {
    levels: Vec<ScalarBuffer<i64>>,
}

impl DueBlocks {
    /// The minima of `rows` rows of which `deadline` tells the deadline.
    pub(super) fn new(rows: usize, deadline: impl Fn(usize) -> Option<i64>) -> Self {
        let least = |block: usize| {
            let end = rows.min((block + 1) * FAN);
            (block * FAN..end).filter_map(&deadline).min().unwrap_or(NEVER)
        };
        let mut levels: Vec<ScalarBuffer<i64>> = vec![(0..rows.div_ceil(FAN)).map(least).collect()];
        while let Some(top) = levels.last().filter(|top| top.len() > FAN) {
            levels.push(top.chunks(FAN).map(|part| part.iter().copied().min().unwrap_or(NEVER)).collect());
        }
        Self { levels }
    }

    /// Bytes that they take.
    pub(super) fn nbytes(&self) -> usize {
        self.levels.iter().map(|level| level.len() * size_of::<i64>()).sum()
    }

    /// The minima, level by level.
    pub(super) fn levels(&self) -> &[ScalarBuffer<i64>] {
        &self.levels
    }

    pub(super) fn of_levels(levels: Vec<ScalarBuffer<i64>>) -> Self {
        Self { levels }
    }
}

/// Some consecutive rows of a run, of which the least deadline is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DuePart {
    level: usize,
    start: usize,
    end: usize,
}

impl DuePart {
    /// The rows of a block; `None` for what consists of smaller parts.
    pub(crate) fn rows(self) -> Option<Range<usize>> {
        (self.level == 0).then_some(self.start..self.end)
    }
}

impl Body {
    pub(super) fn deadline_of(&self, row: usize) -> Option<i64> {
        let null = self.deadline_nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        (!null).then(|| self.deadline[row])
    }

    pub(super) fn min_deadline(&self, start: usize, end: usize) -> Option<i64> {
        let least_of = |(least, part): (i64, DuePart)| match part.end - part.start {
            FAN => (least != NEVER).then_some(least),
            _ => (part.start..part.end).filter_map(|row| self.deadline_of(row)).min(),
        };
        self.parts(0, start, end).filter_map(least_of).min()
    }

    /// The parts of a level that the rows `start..end` touch, each with the rows of it that they contain. The least
    /// deadline of a part that is shown in part is a lower bound.
    fn parts(&self, level: usize, start: usize, end: usize) -> impl Iterator<Item = (i64, DuePart)> + '_ {
        let size = FAN.pow(level as u32 + 1);
        let minima = self.due.levels.get(level).map_or(&[][..], |level| level);
        let (first, past) = (start / size, if start < end { end.div_ceil(size) } else { start / size });
        let shown = minima.iter().enumerate().take(past).skip(first);
        shown.map(move |(index, &least)| {
            (least, DuePart { level, start: start.max(index * size), end: end.min((index + 1) * size) })
        })
    }
}

impl SortedRun {
    /// Calls `visit` with the rows that have a deadline <= `now_ms`, in order.
    pub(crate) fn for_each_due(&self, now_ms: i64, mut visit: impl FnMut(usize)) {
        let top = self.body.due.levels.len().saturating_sub(1);
        self.visit_due(self.body.parts(top, self.start, self.end), now_ms, &mut visit);
    }

    fn visit_due(&self, parts: impl Iterator<Item = (i64, DuePart)>, now_ms: i64, visit: &mut impl FnMut(usize)) {
        for (_, part) in parts.filter(|&(least, _)| least <= now_ms) {
            let Some(rows) = part.rows() else {
                self.visit_due(self.body.parts(part.level - 1, part.start, part.end), now_ms, visit);
                continue;
            };
            match &self.body.deadline_nulls {
                Some(_) => {
                    rows.filter(|&row| self.deadline(row).is_some_and(|due| due <= now_ms)).for_each(&mut *visit);
                }
                None => {
                    let deadlines = rows.clone().zip(&self.body.deadline[rows]);
                    deadlines.filter(|&(_, &due)| due <= now_ms).for_each(|(row, _)| visit(row));
                }
            }
        }
    }

    /// (least deadline, part) of the few largest parts, those without deadlines left out. The least one of a part that
    /// is shown in part is a lower bound.
    pub(crate) fn due_parts(&self) -> impl Iterator<Item = (i64, DuePart)> + '_ {
        let top = self.body.due.levels.len().saturating_sub(1);
        self.body.parts(top, self.start, self.end).filter(|&(least, _)| least != NEVER)
    }

    /// The same of the parts that `part`, which is no block, consists of.
    pub(crate) fn due_parts_of(&self, part: DuePart) -> impl Iterator<Item = (i64, DuePart)> + '_ {
        self.body.parts(part.level - 1, part.start, part.end).filter(|&(least, _)| least != NEVER)
    }
}
