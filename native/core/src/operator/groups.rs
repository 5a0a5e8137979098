//! Rows of many chunks by key: which distinct keys there are, and which of them each row has.
//!
//! Rows are parted by the leading bits of their hash first, so that each part's table stays in the processor's cache;
//! parts are in hash order already. INVARIANT: groups are numbered in (hash, key bytes) order, and rows of a group keep
//! (chunk, row) order.

use arrow_array::Array;
use arrow_select::interleave::interleave;

use super::columns::keys_of;
use crate::error::Result;
use crate::key::Keys;

/// Rows of a part, if hashes are as uniform as they should be: as a power of two.
const PART_BITS: u32 = 15;

/// More parts than this thrash the address translation.
const MOST_PARTS_BITS: u32 = 10;

/// A row by its chunk and its number there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        // Hashes of 64 bits nearly always tell keys apart by themselves. That they did is checked row after row as they
        // lie in memory, which is several times faster than to look at keys while grouping.
        let numbered = Numbered::new(chunks, |_, _| true);
        let keys = keys_at(chunks, &numbered.firsts)?;
        if numbered.has_one_key_a_number(chunks, &keys) {
            return Ok(Self { keys, of: numbered.of });
        }
        let numbered = Numbered::new(chunks, |a, b| compare(chunks, a, b).is_eq());
        Ok(Self { keys: keys_at(chunks, &numbered.firsts)?, of: numbered.of })
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

/// A number for each row, in the order of hashes (and of bytes, where those tell keys apart).
struct Numbered {
    of: Vec<Vec<u32>>,
    /// The first row of each number.
    firsts: Vec<RowAt>,
}

impl Numbered {
    /// Rows with one hash have one number where `is_same` says so.
    fn new(chunks: &[Keys], is_same: impl Fn(RowAt, RowAt) -> bool) -> Self {
        let (rows, ends) = parted(chunks);
        let mut of: Vec<Vec<u32>> = chunks.iter().map(|keys| vec![0; keys.len()]).collect();
        let mut firsts: Vec<RowAt> = Vec::new();
        let mut table = Table::default();
        let mut start = 0;
        for end in ends {
            let part = &rows[start..end];
            start = end;
            table.number(part, &is_same);
            let ranks = table.ranks(chunks);
            #[expect(clippy::cast_possible_truncation, reason = "rows of a pass are numbered by u32")]
            let base = firsts.len() as u32;
            for (&(_, at), &number) in part.iter().zip(&table.numbers) {
                of[at.chunk as usize][at.row as usize] = base + ranks[number as usize];
            }
            firsts.extend(table.firsts.iter().map(|&(_, at)| at));
        }
        Self { of, firsts }
    }

    /// Whether all rows have the key of their number. Those of all numbers lie together: few bytes, often in cache.
    fn has_one_key_a_number(&self, chunks: &[Keys], of_numbers: &Keys) -> bool {
        self.of.iter().zip(chunks).all(|(numbers, keys)| {
            let mut rows = numbers.iter().enumerate();
            rows.all(|(row, &number)| keys.cmp_bytes(row, of_numbers, number as usize).is_eq())
        })
    }
}

/// All rows by the leading bits of their hash, in (chunk, row) order within a part, and where each part ends.
fn parted(chunks: &[Keys]) -> (Vec<Hashed>, Vec<usize>) {
    let count: usize = chunks.iter().map(Keys::len).sum();
    let bits = count.checked_ilog2().unwrap_or(0).saturating_sub(PART_BITS).min(MOST_PARTS_BITS);
    // A shift by 64 is none that the processor has.
    let part_of = |hash: u64| if bits == 0 { 0 } else { usize::try_from(hash >> (64 - bits)).unwrap_or(0) };
    let ends = running_totals(1 << bits, chunks.iter().flat_map(Keys::hashes).map(|&hash| part_of(hash)));
    let mut next: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).collect();
    let mut rows = vec![(0, RowAt::default()); count];
    for (chunk, keys) in (0u32..).zip(chunks) {
        for (row, &hash) in (0u32..).zip(keys.hashes()) {
            let slot = &mut next[part_of(hash)];
            rows[*slot] = (hash, RowAt { chunk, row });
            *slot += 1;
        }
    }
    (rows, ends)
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

/// The distinct keys of one part.
#[derive(Default)]
struct Table {
    /// Open addressing by the trailing bits of the hash: a number + 1, or 0 for an empty slot.
    slots: Vec<u32>,
    /// The first row of each distinct key.
    firsts: Vec<Hashed>,
    /// The distinct key of each row.
    numbers: Vec<u32>,
}

impl Table {
    /// Numbers the distinct keys of `part` in the order in which they come.
    fn number(&mut self, part: &[Hashed], is_same: &impl Fn(RowAt, RowAt) -> bool) {
        let mask = (part.len() * 2).next_power_of_two() - 1;
        self.slots.clear();
        self.slots.resize(mask + 1, 0);
        self.firsts.clear();
        self.numbers.clear();
        for &(hash, at) in part {
            let number = self.find_or_add(mask, hash, at, is_same);
            self.numbers.push(number);
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the mask takes the trailing bits, and rows are numbered by u32"
    )]
    #[inline]
    fn find_or_add(&mut self, mask: usize, hash: u64, at: RowAt, is_same: &impl Fn(RowAt, RowAt) -> bool) -> u32 {
        let mut slot = hash as usize & mask;
        loop {
            let Some(number) = self.slots[slot].checked_sub(1) else {
                self.firsts.push((hash, at));
                self.slots[slot] = self.firsts.len() as u32;
                return self.firsts.len() as u32 - 1;
            };
            let (other, first) = self.firsts[number as usize];
            if other == hash && is_same(at, first) {
                return number;
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Sorts the distinct keys by (hash, bytes); returns where each number went.
    fn ranks(&mut self, chunks: &[Keys]) -> Vec<u32> {
        let mut order: Vec<(u64, u32)> = self.firsts.iter().map(|first| first.0).zip(0..).collect();
        let first = |number: u32| self.firsts[number as usize].1;
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| compare(chunks, first(a.1), first(b.1))));
        let mut ranks = vec![0; order.len()];
        for (rank, &(_, number)) in (0u32..).zip(&order) {
            ranks[number as usize] = rank;
        }
        self.firsts = order.iter().map(|&(hash, number)| (hash, first(number))).collect();
        ranks
    }
}

/// The order of the bytes of two rows with one hash.
#[inline]
fn compare(chunks: &[Keys], a: RowAt, b: RowAt) -> std::cmp::Ordering {
    chunks[a.chunk as usize].cmp_bytes(a.row as usize, &chunks[b.chunk as usize], b.row as usize)
}

fn keys_at(chunks: &[Keys], rows: &[RowAt]) -> Result<Keys> {
    let Some(any) = chunks.first() else { return keys_of(&[], 0) };
    let picks: Vec<(usize, usize)> = rows.iter().map(|at| (at.chunk as usize, at.row as usize)).collect();
    let columns = (0..any.columns().len()).map(|column| {
        let parts: Vec<&dyn Array> = chunks.iter().map(|keys| keys.columns()[column].as_ref()).collect();
        Ok(interleave(&parts, &picks)?)
    });
    let hashes = rows.iter().map(|at| chunks[at.chunk as usize].hash(at.row as usize)).collect();
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
