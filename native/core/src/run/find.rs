//! Look-up of keys in a run, one key or many at once.

use std::ops::Range;

use super::SortedRun;
use crate::key::Keys;

/// Keys looked up together, so that the processor requests their memory before it waits for the first one.
const TOGETHER: usize = 64;
/// Wanted keys are close together if there are at most this many rows for each.
const CLOSE: usize = 32;
/// Rows to walk before a binary search. Hashes of a run are uniform unless they collide, so the walk is nearly always
/// enough.
const WALK: usize = 24;

impl SortedRun {
    /// Return the row of key `i` of `keys`, which may be a tombstone; `None` if this run does not hold the key.
    #[must_use]
    #[inline]
    pub(crate) fn find(&self, keys: &Keys, i: usize) -> Option<usize> {
        let guess = self.body.prefixes.guess(keys.hash(i))?;
        self.find_near(guess, keys, i)
    }

    /// Remove the keys that this run holds from `wanted`, and call `visit(i, row)` for each. The others keep their
    /// order.
    pub(crate) fn take_held(&self, keys: &Keys, wanted: &mut Vec<u32>, mut visit: impl FnMut(u32, usize)) {
        if !self.lies_close(keys, wanted) {
            return self.take(keys, wanted, |_| true, visit);
        }
        wanted.retain(|&i| match self.find(keys, i as usize) {
            Some(row) => {
                visit(i, row);
                false
            }
            None => true,
        });
    }

    /// Whether the wanted keys are sorted and so close together that the processor prefetches their rows by itself.
    fn lies_close(&self, keys: &Keys, wanted: &[u32]) -> bool {
        let hash = |&i: &u32| keys.hash(i as usize);
        let row = |i: Option<&u32>| self.body.prefixes.guess(hash(i?));
        let (Some(first), Some(last)) = (row(wanted.first()), row(wanted.last())) else { return false };
        last.saturating_sub(first) < wanted.len() * CLOSE && wanted.iter().take(TOGETHER).is_sorted_by_key(hash)
    }

    /// Do the same as `take_held`, for a run that holds few of the wanted keys.
    pub(crate) fn take_few_held(&self, keys: &Keys, wanted: &mut Vec<u32>, visit: impl FnMut(u32, usize)) {
        match self.body.filter.for_search(self.body.keys.hashes(), wanted.len()) {
            Some(filter) => self.take(keys, wanted, |hash| filter.may_have(hash), visit),
            None => self.take_held(keys, wanted, visit),
        }
    }

    #[inline]
    fn take(
        &self,
        keys: &Keys,
        wanted: &mut Vec<u32>,
        may_hold: impl Fn(u64) -> bool,
        mut visit: impl FnMut(u32, usize),
    ) {
        const OUTSIDE: usize = usize::MAX;
        let hashes = self.body.keys.hashes();
        let mut left = 0;
        for start in (0..wanted.len()).step_by(TOGETHER) {
            let (mut some, count) = ([0; TOGETHER], TOGETHER.min(wanted.len() - start));
            some[..count].copy_from_slice(&wanted[start..start + count]);
            let (mut asked, mut places, mut is_held) = (0, [0; TOGETHER], [false; TOGETHER]);
            for (place, &i) in some[..count].iter().enumerate() {
                places[asked] = place;
                asked += usize::from(may_hold(keys.hash(i as usize)));
            }
            let (places, mut guesses) = (&places[..asked], [OUTSIDE; TOGETHER]);
            for (guess, &place) in guesses.iter_mut().zip(places) {
                *guess = self.body.prefixes.guess(keys.hash(some[place] as usize)).unwrap_or(OUTSIDE);
            }
            // These reads are independent, so the processor overlaps them.
            let guesses = &guesses[..asked];
            std::hint::black_box(guesses.iter().fold(0, |seen, &guess| seen ^ hashes.get(guess).copied().unwrap_or(0)));
            let (mut held, mut held_places, mut held_rows) = (0, [0; TOGETHER], [(0, 0); TOGETHER]);
            for (&guess, &place) in guesses.iter().zip(places) {
                if guess != OUTSIDE
                    && let Some(row) = self.find_by_hash(guess, keys, some[place] as usize)
                {
                    (held_places[held], held_rows[held]) = (place, (some[place], row as u32));
                    held += 1;
                }
            }
            // Equal hashes nearly always mean equal keys. One loop over all comparisons lets the processor overlap
            // their reads.
            let (places, rows) = (&held_places[..held], &held_rows[..held]);
            let are_same = keys.are_same(&self.body.keys, rows);
            for (&place, &(i, row)) in places.iter().zip(rows) {
                if are_same || self.cmp_key(row as usize, keys, i as usize).is_eq() {
                    is_held[place] = true;
                    visit(i, row as usize);
                }
            }
            for (&i, is_held) in some[..count].iter().zip(is_held) {
                wanted[left] = i;
                left += usize::from(!is_held);
            }
        }
        wanted.truncate(left);
    }

    /// Return the rows with the key columns of key `i` of `keys`, with any sub-key.
    pub(crate) fn rows_of(&self, keys: &Keys, i: usize) -> Range<usize> {
        let hash = keys.hash(i);
        let Some(guess) = self.body.prefixes.guess(hash) else { return 0..0 };
        let (from, to) = self.tie(self.first_at_least(guess, hash), hash);
        let (from, to) = (from.clamp(self.start, self.end), to.clamp(self.start, self.end));
        if self.have_one_key(from..to, keys, i) {
            return from..to;
        }
        let order = |row: usize| self.body.keys.cmp_key_columns(row, keys, i);
        let first = partition(from, to, |row| order(row).is_lt());
        first..partition(first, to, |row| order(row).is_eq())
    }

    /// Return the row with the sub-key of key `i` of `keys` among `rows`, which all have its key columns.
    pub(crate) fn find_sub_key(&self, rows: &Range<usize>, keys: &Keys, i: usize) -> Option<usize> {
        let order = |row: usize| self.body.keys.cmp_sub_keys(row, keys, i);
        let row = partition(rows.start, rows.end, |row| order(row).is_lt());
        (row < rows.end && order(row).is_eq()).then_some(row)
    }

    #[inline]
    fn find_near(&self, guess: usize, keys: &Keys, i: usize) -> Option<usize> {
        let row = self.find_by_hash(guess, keys, i)?;
        (self.body.keys.are_unique_by_hash(keys) || self.cmp_key(row, keys, i).is_eq()).then_some(row)
    }

    /// Return the only row that can hold key `i`. The caller must compare the bytes.
    #[inline]
    fn find_by_hash(&self, guess: usize, keys: &Keys, i: usize) -> Option<usize> {
        let (hashes, hash) = (self.body.keys.hashes(), keys.hash(i));
        let first = self.first_at_least(guess, hash);
        if hashes.get(first) != Some(&hash) || first >= self.end {
            return None;
        }
        let is_only = self.body.keys.are_unique_by_hash(keys) || hashes.get(first + 1) != Some(&hash);
        let row = if is_only { first } else { self.find_in_tie(first, keys, i)? };
        (row >= self.start && row < self.end).then_some(row)
    }

    /// Return the row that can hold key `i` among the rows with its hash; `first` is the first of them.
    fn find_in_tie(&self, first: usize, keys: &Keys, i: usize) -> Option<usize> {
        let (from, to) = self.tie(first, keys.hash(i));
        let row = if self.have_one_key(from..to, keys, i) {
            partition(from, to, |row| self.body.keys.cmp_sub_keys(row, keys, i).is_lt())
        } else {
            self.first_not_less(from, to, keys, i)
        };
        (row < to).then_some(row)
    }

    /// Whether `rows`, which are sorted and have one hash, all have the key columns of key `i`. Comparing the first and
    /// the last row is enough.
    fn have_one_key(&self, rows: Range<usize>, keys: &Keys, i: usize) -> bool {
        let is_of_key = |row: usize| self.body.keys.has_key_of(row, keys, i);
        rows.is_empty() || is_of_key(rows.start) && (rows.len() == 1 || is_of_key(rows.end - 1))
    }

    /// Return the range of rows with `hash`, which starts at `first` unless it is empty.
    fn tie(&self, first: usize, hash: u64) -> (usize, usize) {
        let hashes = &self.body.keys.hashes()[first..];
        let count = hashes.iter().take(WALK).take_while(|&&found| found == hash).count();
        let more = if count == WALK { hashes[count..].partition_point(|&found| found == hash) } else { 0 };
        (first, first + count + more)
    }

    /// Return the first row whose hash is at least `hash`, searching from row `guess`.
    #[inline]
    fn first_at_least(&self, guess: usize, hash: u64) -> usize {
        let hashes = self.body.keys.hashes();
        let mut row = guess;
        if hashes[row] < hash {
            let end = hashes.len().min(row + WALK);
            while row < end && hashes[row] < hash {
                row += 1;
            }
            if row == end { row + hashes[row..].partition_point(|&found| found < hash) } else { row }
        } else {
            let end = row.saturating_sub(WALK);
            while row > end && hashes[row - 1] >= hash {
                row -= 1;
            }
            if row == end { hashes[..row].partition_point(|&found| found < hash) } else { row }
        }
    }

    /// Return the first of the rows `from..to`, which have one hash, whose key bytes are at least those of key `i`.
    fn first_not_less(&self, from: usize, to: usize, keys: &Keys, i: usize) -> usize {
        partition(from, to, |row| self.cmp_key(row, keys, i).is_lt())
    }

    fn cmp_key(&self, row: usize, keys: &Keys, i: usize) -> std::cmp::Ordering {
        self.body.keys.cmp_bytes(row, keys, i)
    }
}

/// Return the first of the rows `from..to` for which `is_before` is false; it must be true for all rows before that
/// one.
fn partition(from: usize, to: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
