//! Rows of many chunks by key: which distinct keys there are, and which of them each row has.
//!
//! INVARIANT: groups are numbered in (hash, key bytes) order, and rows of a group keep (chunk, row) order.

use hashbrown::HashTable;

use arrow_array::Array;
use arrow_select::interleave::interleave;

use super::columns::keys_of;
use crate::error::Result;
use crate::key::Keys;

/// A row by its chunk and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

struct First {
    hash: u64,
    at: RowAt,
    number: u32,
}

impl Groups {
    /// Groups the rows of chunks that have these keys.
    pub fn new(chunks: &[Keys]) -> Result<Self> {
        let mut of: Vec<Vec<u32>> = Vec::with_capacity(chunks.len());
        let mut firsts: Vec<First> = Vec::new();
        let mut table: HashTable<(u64, u32)> = HashTable::with_capacity(first_capacity(chunks));
        for (chunk, keys) in (0u32..).zip(chunks) {
            of.push(number_rows(chunks, chunk, keys, &mut table, &mut firsts));
        }
        drop(table);
        let rank = sort(chunks, &mut firsts);
        for numbers in &mut of {
            for number in numbers.iter_mut() {
                *number = rank[*number as usize];
            }
        }
        Ok(Self { keys: distinct(chunks, &firsts)?, of })
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
        let mut starts = vec![0usize; self.len() + 1];
        for &group in self.of.iter().flatten() {
            starts[group as usize + 1] += 1;
        }
        for group in 0..self.len() {
            starts[group + 1] += starts[group];
        }
        let mut next = starts.clone();
        let mut rows = vec![RowAt { chunk: 0, row: 0 }; starts[self.len()]];
        for (chunk, numbers) in (0u32..).zip(&self.of) {
            for (row, &group) in (0u32..).zip(numbers) {
                let slot = &mut next[group as usize];
                rows[*slot] = RowAt { chunk, row };
                *slot += 1;
            }
        }
        starts.remove(0);
        (rows, starts)
    }
}

fn first_capacity(chunks: &[Keys]) -> usize {
    chunks.iter().map(Keys::len).sum::<usize>().min(1 << 16)
}

fn number_rows(
    chunks: &[Keys],
    chunk: u32,
    keys: &Keys,
    table: &mut HashTable<(u64, u32)>,
    firsts: &mut Vec<First>,
) -> Vec<u32> {
    let mut numbers = Vec::with_capacity(keys.len());
    for (row, &hash) in (0u32..).zip(keys.hashes()) {
        let same = |&(other, number): &(u64, u32)| {
            let at = firsts[number as usize].at;
            other == hash && keys.eq_at(row as usize, &chunks[at.chunk as usize], at.row as usize)
        };
        let number = match table.find(hash, same) {
            Some(&(_, number)) => number,
            None => {
                #[expect(clippy::cast_possible_truncation, reason = "rows of a chunk are numbered by u32 as well")]
                let number = firsts.len() as u32;
                firsts.push(First { hash, at: RowAt { chunk, row }, number });
                table.insert_unique(hash, (hash, number), |&(hash, _)| hash);
                number
            }
        };
        numbers.push(number);
    }
    numbers
}

/// Sorts by (hash, bytes); returns the rank of each group number.
fn sort(chunks: &[Keys], firsts: &mut [First]) -> Vec<u32> {
    firsts.sort_unstable_by(|a, b| {
        let bytes = || {
            let (left, right) = (&chunks[a.at.chunk as usize], &chunks[b.at.chunk as usize]);
            left.cmp_at(a.at.row as usize, right, b.at.row as usize)
        };
        a.hash.cmp(&b.hash).then_with(bytes)
    });
    let mut rank = vec![0; firsts.len()];
    for (place, first) in (0u32..).zip(firsts.iter()) {
        rank[first.number as usize] = place;
    }
    rank
}

fn distinct(chunks: &[Keys], firsts: &[First]) -> Result<Keys> {
    let picks: Vec<(usize, usize)> = firsts.iter().map(|f| (f.at.chunk as usize, f.at.row as usize)).collect();
    let width = chunks.first().map_or(0, |keys| keys.columns().len());
    let columns = (0..width)
        .map(|column| {
            let parts: Vec<&dyn Array> = chunks.iter().map(|keys| keys.columns()[column].as_ref()).collect();
            Ok(interleave(&parts, &picks)?)
        })
        .collect::<Result<Vec<_>>>()?;
    keys_of(&columns, firsts.len())
}
