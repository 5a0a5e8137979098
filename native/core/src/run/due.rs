//! When the rows of a run are due: row numbers sorted by deadline, so that a search reads only rows that are due.
//!
//! The order is built when a run is searched often or cached on disk, because one or two searches are cheaper as scans.
//! Runs without deadlines pay nothing. A search starts at the view's `due_from`, so rows that newer runs hide are
//! passed once and never again.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow_buffer::{NullBuffer, ScalarBuffer};
use once_cell::race::OnceBox;

use super::{Body, SortedRun};

/// How many full scans of the rows to allow before the order is built. Building it costs about as much as thirty scans.
const SCANS: u64 = 2;

/// A position in the order of deadlines: by deadline, then by the hash of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuePlace {
    /// The deadline, ms.
    pub deadline_ms: i64,
    /// The hash of the key.
    pub hash: u64,
}

impl DuePlace {
    /// Before every row.
    pub const FIRST: Self = Self { deadline_ms: i64::MIN, hash: 0 };
    /// After every row. A row exactly at this position does not sort before it, so such a row is never skipped.
    pub const LAST: Self = Self { deadline_ms: i64::MAX, hash: u64::MAX };

    /// Return the position after all rows with a deadline <= `now_ms`.
    pub(crate) fn after(now_ms: i64) -> Self {
        now_ms.checked_add(1).map_or(Self { hash: 0, ..Self::LAST }, |deadline_ms| Self { deadline_ms, hash: 0 })
    }
}

/// The rows that have a deadline, sorted by (deadline, row), once they are needed. Rows ascend by hash, so this order
/// is also that of [`DuePlace`].
#[derive(Debug, Default)]
pub(super) struct DueOrder {
    /// How many rows searches have scanned, over all views of the run.
    looks: AtomicU64,
    /// Built by the first thread that needs it. No thread waits for another: after a fork, that thread may not exist.
    rows: OnceBox<ScalarBuffer<u32>>,
}

impl DueOrder {
    pub(super) fn of_rows(rows: ScalarBuffer<u32>) -> Self {
        Self { looks: AtomicU64::new(0), rows: OnceBox::with_value(Box::new(rows)) }
    }

    /// Bytes of memory in use.
    pub(super) fn nbytes(&self) -> usize {
        self.rows.get().map_or(0, |rows| rows.len() * size_of::<u32>())
    }
}

impl Body {
    pub(super) fn deadline_of(&self, row: usize) -> Option<i64> {
        let null = self.deadline_nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        (!null).then(|| self.deadline_at(row))
    }

    /// Return the deadline of `row`, which must have one. Tests count these reads.
    fn deadline_at(&self, row: usize) -> i64 {
        #[cfg(test)]
        looks::add(1);
        self.deadline[row]
    }

    /// Return the order of deadlines; build it if needed.
    pub(super) fn due_order(&self) -> &ScalarBuffer<u32> {
        self.due.rows.get_or_init(|| Box::new(self.by_deadline()))
    }

    fn by_deadline(&self) -> ScalarBuffer<u32> {
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
    }

    /// Whether `row`, which has a deadline, sorts before `place`.
    fn is_before(&self, row: u32, place: DuePlace) -> bool {
        match self.deadline_at(row as usize).cmp(&place.deadline_ms) {
            Ordering::Equal => self.keys.hash(row as usize) < place.hash,
            other => other.is_lt(),
        }
    }

    fn has_deadlines(&self) -> bool {
        self.deadline_nulls.as_ref().is_none_or(|nulls| nulls.null_count() < nulls.len())
    }

    /// Return the order of deadlines if it exists, or if searches have scanned enough rows to justify building it.
    /// Otherwise the caller scans `rows` rows.
    fn due_order_for_search(&self, rows: usize) -> Option<&[u32]> {
        let made = self.due.rows.get();
        let enough = SCANS * self.deadline.len() as u64;
        if made.is_none() && self.due.looks.fetch_add(rows as u64, Relaxed) < enough {
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
    /// Where the relevant deadlines begin. Newer runs hide all rows before this position.
    #[must_use]
    pub fn due_from(&self) -> DuePlace {
        self.due_from
    }

    /// Return a view of the same rows for use under runs that hide all rows before `place`; searches skip those rows.
    #[must_use]
    pub fn with_due_from(&self, place: DuePlace) -> Self {
        Self { due_from: place, ..self.clone() }
    }

    /// Record that newer runs hide all rows before `place`.
    pub(crate) fn raise_due_from(&mut self, place: DuePlace) {
        self.due_from = self.due_from.max(place);
    }

    /// Whether deadlines prove that no row is live: each live row had a deadline, and newer runs hide all rows that
    /// have one. A null deadline belongs to a tombstone or to a row that never expires. Both are counted over the whole
    /// run, so a part of a run may be kept longer than needed.
    pub(crate) fn is_spent(&self) -> bool {
        let nulls = self.body.deadline_nulls.as_ref().map_or(0, NullBuffer::null_count);
        let may_be_last = self.hashes().last() == Some(&DuePlace::LAST.hash); // this row would never be skipped
        self.due_from == DuePlace::LAST && nulls == self.body.tombstones && !may_be_last
    }

    /// Return a view of the same rows without newer runs above it, so that all of them count.
    pub(crate) fn by_itself(&self) -> Self {
        self.with_due_from(DuePlace::FIRST)
    }

    /// Return the position of the first row with a deadline, from [`SortedRun::due_from`] on; `None` if no row has.
    #[must_use]
    pub fn first_due(&self) -> Option<DuePlace> {
        self.by_deadline(0, 1).first().map(|&row| self.due_place(row))
    }

    /// Return the position of `row`, which must have a deadline.
    pub(crate) fn due_place(&self, row: u32) -> DuePlace {
        DuePlace { deadline_ms: self.body.deadline_at(row as usize), hash: self.body.keys.hash(row as usize) }
    }

    /// Return the rows with a deadline <= `now_ms`, from [`SortedRun::due_from`] on, in key order.
    pub(crate) fn due(&self, now_ms: i64) -> Vec<u32> {
        let (body, from) = (&self.body, self.due_from);
        if from.deadline_ms > now_ms || !body.has_deadlines() {
            return Vec::new();
        }
        let Some(order) = body.due_order_for_search(self.len()) else {
            let is_due = |row: &u32| {
                let due = body.deadline_at(*row as usize);
                due <= now_ms && !body.is_before(*row, from) && body.deadline_of(*row as usize).is_some()
            };
            return (self.start as u32..self.end as u32).filter(is_due).collect();
        };
        let order = &order[order.partition_point(|&row| body.is_before(row, from))..];
        let end = order.partition_point(|&row| body.deadline_at(row as usize) <= now_ms);
        let mut rows = self.shown(&order[..end], 0, end);
        rows.sort_unstable();
        rows
    }

    /// Return up to `count` rows with a deadline, from [`SortedRun::due_from`] on, in the order of deadlines, after
    /// skipping the first `skip`.
    pub(crate) fn by_deadline(&self, skip: usize, count: usize) -> Vec<u32> {
        if self.due_from == DuePlace::LAST || !self.body.has_deadlines() {
            return Vec::new();
        }
        let order = if skip == 0 { self.body.due_order_for_search(self.len()) } else { Some(&**self.body.due_order()) };
        let Some(order) = order else {
            return self.first_by_deadline(count);
        };
        let start = order.partition_point(|&row| self.body.is_before(row, self.due_from));
        self.shown(&order[start..], skip, count)
    }

    /// Return the first `count` rows in the order of deadlines, found by scanning all rows.
    fn first_by_deadline(&self, count: usize) -> Vec<u32> {
        let mut first: BinaryHeap<(i64, u32)> = BinaryHeap::with_capacity(count + 1);
        for row in self.start..self.end {
            let is_late =
                first.len() == count && first.peek().is_none_or(|&(due, _)| due <= self.body.deadline_at(row));
            if !is_late
                && let Some(deadline) = self.body.deadline_of(row)
                && !self.body.is_before(row as u32, self.due_from)
            {
                first.push((deadline, row as u32));
                if first.len() > count {
                    first.pop();
                }
            }
        }
        first.into_sorted_vec().into_iter().map(|(_, row)| row).collect()
    }

    /// Return up to `count` of `rows` that this view shows, in their order, after skipping the first `skip`.
    fn shown(&self, rows: &[u32], skip: usize, count: usize) -> Vec<u32> {
        if self.len() == self.body.keys.len() {
            return rows.iter().skip(skip).take(count).copied().collect();
        }
        let shows = |row: &u32| (self.start..self.end).contains(&(*row as usize));
        rows.iter().copied().filter(shows).skip(skip).take(count).collect()
    }
}

/// How many rows the searches of this thread have read.
#[cfg(test)]
pub(crate) mod looks {
    use std::cell::Cell;

    thread_local!(static LOOKS: Cell<usize> = const { Cell::new(0) });

    pub(crate) fn add(rows: usize) {
        LOOKS.set(LOOKS.get() + rows);
    }

    /// Return the result of `search`, and how many rows it read.
    pub(crate) fn during<T>(search: impl FnOnce() -> T) -> (T, usize) {
        let before = LOOKS.get();
        (search(), LOOKS.get() - before)
    }
}
