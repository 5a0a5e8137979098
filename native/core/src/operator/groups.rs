//! Rows of many chunks by key: which distinct keys there are, and which of them each row has.
//!
//! Rows are sorted by hash, which takes a few nanoseconds a row, be there many rows a key or one.
//! INVARIANT: groups are numbered in (hash, key bytes) order, and rows of a group keep (chunk, row) order.

use arrow_array::Array;

use super::columns::keys_of;
use crate::error::Result;
use crate::key::{Keys, by_hash};
use crate::run::{Pick, gather};

/// A row by its chunk and its number there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowAt {
    /// Index of the chunk.
    pub chunk: u32,
    /// Row within the chunk.
    pub row: u32,
}

/// The distinct keys of some chunks, and the group of every row.
#[derive(Debug)]
pub struct Groups {
    /// One row a distinct key, sorted.
    pub keys: Keys,
    /// For each chunk, for each row, the number of its key in `keys`.
    pub of: Vec<Vec<u32>>,
}

/// A row and its hash.
type Hashed = (u64, RowAt);

impl Groups {
    /// Groups the rows of chunks that have these keys.
    pub fn new(chunks: &[Keys]) -> Result<Self> {
        let hashes: Vec<&[u64]> = chunks.iter().map(Keys::hashes).collect();
        let mut rows = by_hash(&hashes, |chunk, row| RowAt { chunk, row });
        // Hashes of 64 bits nearly always tell keys apart by themselves. Where rows are many a key, that they did is
        // checked row after row as they lie in memory, which is several times faster than to look at keys here.
        let groups = numbered(chunks, &rows, |_, _| true)?;
        let is_checked = |groups: &Self| {
            if groups.len() > rows.len() / 2 {
                have_equal_ties(chunks, &rows)
            } else {
                groups.have_one_key_each(chunks)
            }
        };
        if is_checked(&groups) {
            return Ok(groups);
        }
        for tie in rows.chunk_by_mut(|a, b| a.0 == b.0) {
            tie.sort_by(|a, b| compare(chunks, a.1, b.1));
        }
        numbered(chunks, &rows, |a, b| compare(chunks, a, b).is_eq())
    }

    /// Whether all rows have the key of their group. Those of all groups lie together: few bytes, often in cache.
    fn have_one_key_each(&self, chunks: &[Keys]) -> bool {
        self.of.iter().zip(chunks).all(|(numbers, keys)| keys.are_at(&self.keys, numbers))
    }

    /// How many distinct keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there was no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All rows, group by group, and for each group where its rows end.
    #[must_use]
    pub fn rows(&self) -> (Vec<RowAt>, Vec<usize>) {
        let groups = || self.of.iter().flatten().map(|&group| group as usize);
        let mut ends = running_totals(self.len(), groups());
        let mut next: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).collect();
        let mut rows = vec![RowAt::default(); ends.last().copied().unwrap_or(0)];
        for (chunk, numbers) in (0u32..).zip(&self.of) {
            for (row, &group) in (0u32..).zip(numbers) {
                let slot = &mut next[group as usize];
                rows[*slot] = RowAt { chunk, row };
                *slot += 1;
            }
        }
        ends.truncate(self.len());
        (rows, ends)
    }
}

/// Whether neighbours with one hash have one key.
fn have_equal_ties(chunks: &[Keys], rows: &[Hashed]) -> bool {
    rows.windows(2).all(|pair| pair[0].0 != pair[1].0 || compare(chunks, pair[0].1, pair[1].1).is_eq())
}

/// The groups of rows in order: neighbours with one hash belong together where `is_same` says so.
fn numbered(chunks: &[Keys], rows: &[Hashed], is_same: impl Fn(RowAt, RowAt) -> bool) -> Result<Groups> {
    let mut of: Vec<Vec<u32>> = chunks.iter().map(|keys| vec![0; keys.len()]).collect();
    let (mut firsts, mut hashes): (Vec<Pick>, Vec<u64>) =
        (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
    let mut last: Option<Hashed> = None;
    for &(hash, at) in rows {
        if last.is_none_or(|(other, before)| other != hash || !is_same(before, at)) {
            firsts.push(Pick::new(at.chunk as usize, at.row as usize));
            hashes.push(hash);
            last = Some((hash, at));
        }
        #[expect(clippy::cast_possible_truncation, reason = "rows of a pass are numbered by u32")]
        let number = hashes.len() as u32 - 1;
        of[at.chunk as usize][at.row as usize] = number;
    }
    Ok(Groups { keys: keys_at(chunks, &firsts, hashes)?, of })
}

/// How many of `numbers` are at most 0, 1, … `below` − 1.
fn running_totals(below: usize, numbers: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut totals = vec![0; below];
    numbers.for_each(|number| totals[number] += 1);
    let mut sum = 0;
    for total in &mut totals {
        sum += *total;
        *total = sum;
    }
    totals
}

/// The order of the bytes of two rows with one hash.
#[inline]
fn compare(chunks: &[Keys], a: RowAt, b: RowAt) -> std::cmp::Ordering {
    chunks[a.chunk as usize].cmp_bytes(a.row as usize, &chunks[b.chunk as usize], b.row as usize)
}

fn keys_at(chunks: &[Keys], rows: &[Pick], hashes: Vec<u64>) -> Result<Keys> {
    let Some(any) = chunks.first() else { return keys_of(&[], 0) };
    let columns = (0..any.columns().len()).map(|column| {
        let parts: Vec<&dyn Array> = chunks.iter().map(|keys| keys.columns()[column].as_ref()).collect();
        gather(parts[0].data_type(), &parts, rows)
    });
    any.rebuilt(columns.collect::<Result<_>>()?, hashes)
}

/// The places of `keys` that are not `excluded`; both are sorted.
#[expect(clippy::cast_possible_truncation, reason = "rows of a range are numbered by u32")]
pub(super) fn places_without(keys: &Keys, excluded: &Keys) -> Vec<u32> {
    let mut left = Vec::with_capacity(keys.len());
    let mut next = 0;
    for row in 0..keys.len() {
        while next < excluded.len() && excluded.cmp_at(next, keys, row).is_lt() {
            next += 1;
        }
        if next == excluded.len() || !excluded.eq_at(next, keys, row) {
            left.push(row as u32);
        }
    }
    left
}
