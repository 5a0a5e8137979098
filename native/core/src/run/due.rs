//! When the rows of a run are due: their numbers in the order of deadlines, so that a search touches what is due alone.
//!
//! The order is made when a run is searched often, or kept on disk: a search or two cost less by a look at every row.
//! Who has no deadlines pays nothing.

use std::collections::BinaryHeap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_buffer::{NullBuffer, ScalarBuffer};

use super::{Body, SortedRun};

/// How often the rows of a run are looked at one by one, all of them; the next search makes the order, which costs as
/// much as some thirty times.
const SCANS: u64 = 2;

/// The rows that have a deadline, by (deadline, row), once it is made.
#[derive(Debug, Default)]
pub(super) struct DueOrder {
    /// Rows looked at one by one, by all searches of any part.
    looks: AtomicU64,
    rows: OnceLock<ScalarBuffer<u32>>,
}

impl DueOrder {
    pub(super) fn of_rows(rows: ScalarBuffer<u32>) -> Self {
        Self { looks: AtomicU64::new(0), rows: OnceLock::from(rows) }
    }

    /// Bytes that it takes.
    pub(super) fn nbytes(&self) -> usize {
        self.rows.get().map_or(0, |rows| rows.len() * size_of::<u32>())
    }
}

impl Body {
    pub(super) fn deadline_of(&self, row: usize) -> Option<i64> {
        let null = self.deadline_nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        (!null).then(|| self.deadline[row])
    }

    /// The order of deadlines, made if need be.
    pub(super) fn due_order(&self) -> &ScalarBuffer<u32> {
        self.due.rows.get_or_init(|| {
            let (rows, all) = (self.deadline.len(), 0..self.deadline.len());
            let armed = || all.clone().filter_map(|row| Some((self.deadline_of(row)?, row as u32)));
            let count = rows - self.deadline_nulls.as_ref().map_or(0, NullBuffer::null_count);
            if count == 0 {
                return Vec::new().into();
            }
            let (least, most) = armed().fold((i64::MAX, i64::MIN), |(a, b), (due, _)| (a.min(due), b.max(due)));
            let after = |due: i64| due.wrapping_sub(least).cast_unsigned();
            if u32::try_from(after(most)).is_ok() {
                sorted(armed().map(|(due, row)| after(due) << u32::BITS | u64::from(row)), count, |pair| pair as u32)
            } else {
                sorted(armed(), count, |(_, row)| row)
            }
        })
    }

    fn has_deadlines(&self) -> bool {
        self.deadline_nulls.as_ref().is_none_or(|nulls| nulls.null_count() < nulls.len())
    }

    /// The order of deadlines, if it is made, or is worth it by now for one who would look at `rows` rows else.
    fn due_order_for_search(&self, rows: usize) -> Option<&[u32]> {
        let made = self.due.rows.get();
        let enough = SCANS * self.deadline.len() as u64;
        if made.is_none() && self.due.looks.fetch_add(rows as u64, Ordering::Relaxed) < enough {
            return None;
        }
        Some(self.due_order())
    }
}

fn sorted<T: Ord>(pairs: impl Iterator<Item = T>, count: usize, row: impl Fn(T) -> u32) -> ScalarBuffer<u32> {
    let mut all = Vec::with_capacity(count);
    all.extend(pairs);
    all.sort_unstable();
    all.into_iter().map(row).collect::<Vec<u32>>().into()
}

impl SortedRun {
    /// The rows with a deadline <= `now_ms`, in the order of their keys.
    pub(crate) fn due(&self, now_ms: i64) -> Vec<u32> {
        if !self.body.has_deadlines() {
            return Vec::new();
        }
        let Some(order) = self.body.due_order_for_search(self.len()) else {
            let is_due = |row: &usize| self.body.deadline[*row] <= now_ms && self.body.deadline_of(*row).is_some();
            return (self.start..self.end).filter(is_due).map(|row| row as u32).collect();
        };
        let end = order.partition_point(|&row| self.body.deadline[row as usize] <= now_ms);
        let mut rows: Vec<u32> = order[..end].iter().copied().filter(|&row| self.shows(row)).collect();
        rows.sort_unstable();
        rows
    }

    /// The rows that have a deadline in the order of deadlines: the first `skip` are left out, at most `count` of the
    /// others told.
    pub(crate) fn by_deadline(&self, skip: usize, count: usize) -> Vec<u32> {
        if !self.body.has_deadlines() {
            return Vec::new();
        }
        let order = if skip == 0 { self.body.due_order_for_search(self.len()) } else { Some(&**self.body.due_order()) };
        let Some(order) = order else {
            return self.first_by_deadline(count);
        };
        order.iter().copied().filter(|&row| self.shows(row)).skip(skip).take(count).collect()
    }

    /// The first `count` rows in the order of deadlines, found by a look at all.
    fn first_by_deadline(&self, count: usize) -> Vec<u32> {
        let mut first: BinaryHeap<(i64, u32)> = BinaryHeap::with_capacity(count + 1);
        for row in self.start..self.end {
            let is_late = first.len() == count && first.peek().is_none_or(|&(due, _)| due <= self.body.deadline[row]);
            if !is_late && let Some(deadline) = self.body.deadline_of(row) {
                first.push((deadline, row as u32));
                if first.len() > count {
                    first.pop();
                }
            }
        }
        first.into_sorted_vec().into_iter().map(|(_, row)| row).collect()
    }

    fn shows(&self, row: u32) -> bool {
        (self.start..self.end).contains(&(row as usize))
    }
}
