//! Grouping the rows of many chunks by key: the distinct keys, and the key of each row.
//!
//! If rows have few keys, a table of hashes numbers them; otherwise rows are sorted. Both take some nanoseconds for
//! each row.
//! INVARIANT: groups are numbered in (hash, key bytes) order, and rows of a group keep (chunk, row) order.

use std::sync::OnceLock;

use arrow_array::Array;

use super::columns::keys_of;
use crate::error::Result;
use crate::gather::{Gathering, Pick};
use crate::key::{InOrder, Keys, Numbering, Short, ShortTexts, by_hash, sort_ties};

/// A row, by its chunk and its number there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowAt {
    /// Index of the chunk.
    pub chunk: u32,
    /// Row within the chunk.
    pub row: u32,
}

/// The distinct keys of some chunks, and the rows of each key.
#[derive(Debug)]
pub struct Groups {
    /// One row for each distinct key, sorted.
    pub keys: Keys,
    /// How many rows each chunk has.
    lengths: Vec<usize>,
    /// Either this or `rows` is computed first; the other is derived on demand.
    numbers: OnceLock<Vec<Vec<u32>>>,
    rows: OnceLock<(Vec<RowAt>, Vec<usize>)>,
}

impl Groups {
    /// Group the rows of chunks with these keys.
    pub fn new(chunks: &[Keys]) -> Result<Self> {
        if let Some(groups) = Self::of_sorted_chunk(chunks)? {
            return Ok(groups);
        }
        let rows = chunks.iter().map(Keys::len).sum();
        if !Numbering::pays_for(rows) {
            return Self::by_sorting(chunks);
        }
        let mut grouping = Grouping::new(rows);
        chunks.iter().for_each(|keys| grouping.add(keys));
        grouping.groups(chunks)
    }

    /// Return the groups if all rows are in one chunk and sorted by key, as rows that one task combined are; otherwise
    /// `None`.
    #[expect(clippy::cast_possible_truncation, reason = "rows of a chunk are numbered by u32")]
    fn of_sorted_chunk(chunks: &[Keys]) -> Result<Option<Self>> {
        let mut with_rows = (0..).zip(chunks).filter(|(_, keys)| !keys.is_empty());
        let (Some((chunk, keys)), None) = (with_rows.next(), with_rows.next()) else { return Ok(None) };
        let hashes = keys.hashes();
        if !hashes.is_sorted() {
            return Ok(None);
        }
        let (mut of, mut firsts, mut ties) = (Vec::with_capacity(keys.len()), Vec::new(), Vec::new());
        for (row, &hash) in (0u32..).zip(hashes) {
            match firsts.last() {
                Some(&first) if hashes[first as usize] == hash => ties.push((row, first)),
                _ => firsts.push(row),
            }
            of.push(firsts.len() as u32 - 1);
        }
        if !keys.are_same(keys, &ties) {
            return Ok(None);
        }
        let keys = if ties.is_empty() { keys.copied()? } else { keys.take(&firsts)? };
        let mut numbers = vec![Vec::new(); chunks.len()];
        numbers[chunk] = of;
        Ok(Some(Self { keys, lengths: lengths(chunks), numbers: numbers.into(), rows: OnceLock::new() }))
    }

    /// Group by sorting.
    fn by_sorting(chunks: &[Keys]) -> Result<Self> {
        if let Some(texts) = ShortTexts::of(chunks) {
            return Self::short(chunks, &texts);
        }
        // 64-bit hashes nearly always differ between keys. Check that afterwards, in one loop in which the processor
        // overlaps the comparisons.
        let groups = Self::sorted(chunks, |_| (), |_, _| true)?;
        if groups.have_one_key_each(chunks) {
            return Ok(groups);
        }
        let compare = |a: &RowAt, b: &RowAt| compare(chunks, *a, *b);
        Self::sorted(chunks, |pairs| sort_ties(pairs, compare), |a, b| compare(a, b).is_eq())
    }

    /// Return the groups of rows sorted by hash. `arrange` sorts rows with one hash, and `is_same` says whether
    /// neighbours among them belong together.
    fn sorted(
        chunks: &[Keys],
        arrange: impl Fn(&mut [(u64, RowAt)]),
        is_same: impl Fn(&RowAt, &RowAt) -> bool,
    ) -> Result<Self> {
        let mark = |chunk, row| RowAt { chunk, row };
        let found = Sorted::new(chunks, mark, |&at| at, arrange, is_same, |_| ());
        let firsts = each(&found.rows, &found.ends).map(|rows| Pick { source: rows[0].chunk, row: rows[0].row });
        let keys = keys_at(chunks, firsts, found.hashes)?;
        Ok(Self { keys, lengths: lengths(chunks), numbers: OnceLock::new(), rows: (found.rows, found.ends).into() })
    }

    /// Group by sorting if keys are short texts, which rows carry along.
    fn short(chunks: &[Keys], texts: &ShortTexts<'_>) -> Result<Self> {
        let at = |short: &Short| {
            let (chunk, row) = short.at();
            RowAt { chunk, row }
        };
        let arrange = |pairs: &mut [(u64, Short)]| {
            let has_collided = |pair: &[(u64, Short)]| pair[0].0 == pair[1].0 && !pair[0].1.is_same(&pair[1].1);
            if pairs.windows(2).any(has_collided) {
                sort_ties(pairs, Short::compare);
            }
        };
        let mut column = texts.column(lengths(chunks).iter().sum())?;
        let mark = |chunk, row| texts.row(chunk, row);
        let found = Sorted::new(chunks, mark, at, arrange, Short::is_same, |first| column.add(first));
        let keys = chunks[0].with_columns(vec![column.finish()?], found.hashes)?;
        Ok(Self { keys, lengths: lengths(chunks), numbers: OnceLock::new(), rows: (found.rows, found.ends).into() })
    }

    /// Whether all rows have the key of their group.
    fn have_one_key_each(&self, chunks: &[Keys]) -> bool {
        if chunks.iter().all(|keys| keys.are_unique_by_hash(&self.keys)) {
            return true;
        }
        // The first row of each group has its key by definition.
        let mut pairs = vec![Vec::new(); chunks.len()];
        let (rows, ends) = self.rows();
        for (group, rows) in (0u32..).zip(each(rows, ends)) {
            for at in &rows[1..] {
                pairs[at.chunk as usize].push((at.row, group));
            }
        }
        pairs.iter().zip(chunks).all(|(pairs, keys)| keys.are_same(&self.keys, pairs))
    }

    /// How many distinct keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return all rows, grouped, and the end of each group.
    #[must_use]
    pub fn rows(&self) -> (&[RowAt], &[usize]) {
        let (rows, ends) = self.rows.get_or_init(|| {
            let numbers = || self.numbers().iter().flatten().map(|&group| group as usize);
            let ends = running_totals(self.len(), numbers());
            let mut next: Vec<usize> = std::iter::once(0).chain(ends.iter().copied()).collect();
            let mut rows = vec![RowAt::default(); ends.last().copied().unwrap_or(0)];
            for (chunk, numbers) in (0u32..).zip(self.numbers()) {
                for (row, &group) in (0u32..).zip(numbers) {
                    let slot = &mut next[group as usize];
                    rows[*slot] = RowAt { chunk, row };
                    *slot += 1;
                }
            }
            (rows, ends)
        });
        (rows, ends)
    }

    /// For each row of each chunk, return the number of its key in `keys`.
    #[must_use]
    pub fn numbers(&self) -> &[Vec<u32>] {
        self.numbers.get_or_init(|| {
            let mut numbers: Vec<Vec<u32>> = self.lengths.iter().map(|&rows| vec![0; rows]).collect();
            let Some((rows, ends)) = self.rows.get() else { return numbers };
            for (group, rows) in (0u32..).zip(each(rows, ends)) {
                for at in rows {
                    numbers[at.chunk as usize][at.row as usize] = group;
                }
            }
            numbers
        })
    }
}

/// Groups of chunks that arrive one after the other. A table numbers their keys while the next chunks are read.
#[derive(Debug)]
pub(super) struct Grouping {
    /// `None` if it is better to sort all rows at once.
    numbering: Option<Numbering>,
}

impl Grouping {
    /// Start empty; about `rows` rows will be added.
    pub(super) fn new(rows: usize) -> Self {
        Self { numbering: Some(Numbering::new(rows)) }
    }

    /// Add the next chunk.
    pub(super) fn add(&mut self, keys: &Keys) {
        if !self.numbering.as_mut().is_some_and(|numbering| numbering.add(keys)) {
            self.numbering = None;
        }
    }

    /// Return how many keys there are so far, and the number of the key of each row of the last chunk, in order of
    /// arrival; `None` if rows will be sorted.
    pub(super) fn last(&self) -> Option<(usize, &[u32])> {
        self.numbering.as_ref().map(|numbering| (numbering.len(), numbering.last()))
    }

    /// Return the groups of all chunks, equal to those of [`Groups::new`].
    pub(super) fn groups(self, chunks: &[Keys]) -> Result<Groups> {
        let Some(numbering) = self.numbering.filter(Numbering::are_few) else { return Groups::by_sorting(chunks) };
        let order = numbering.in_order();
        let numbers = numbering.places(&order).into();
        Ok(Groups { keys: keys_in(chunks, order)?.0, lengths: lengths(chunks), numbers, rows: OnceLock::new() })
    }

    /// Return the distinct keys of all chunks, sorted, and the number that each had on arrival; `None` if rows must be
    /// sorted.
    pub(super) fn in_order(&self, chunks: &[Keys]) -> Result<Option<(Keys, Vec<u32>)>> {
        self.numbering.as_ref().map(|numbering| keys_in(chunks, numbering.in_order())).transpose()
    }
}

/// Return the keys of `order`, and the number that each had on arrival.
fn keys_in(chunks: &[Keys], order: InOrder) -> Result<(Keys, Vec<u32>)> {
    let firsts = order.firsts.iter().map(|&(chunk, row)| Pick { source: chunk, row });
    Ok((keys_at(chunks, firsts, order.hashes)?, order.came))
}

fn hashes(chunks: &[Keys]) -> Vec<&[u64]> {
    chunks.iter().map(Keys::hashes).collect()
}

/// Rows in key order, where the rows of each key end, and the hashes of the keys.
struct Sorted {
    rows: Vec<RowAt>,
    ends: Vec<usize>,
    hashes: Vec<u64>,
}

impl Sorted {
    /// Sort the rows of `chunks`. `mark` makes a row, `at` returns its position, and `first` is called with the first
    /// row of each key.
    fn new<M: Copy + Default + Send + 'static>(
        chunks: &[Keys],
        mark: impl Fn(u32, u32) -> M,
        at: impl Fn(&M) -> RowAt,
        arrange: impl Fn(&mut [(u64, M)]),
        is_same: impl Fn(&M, &M) -> bool,
        mut first: impl FnMut(&M),
    ) -> Self {
        let hashes = hashes(chunks);
        let all = lengths(chunks).iter().sum();
        let (mut rows, mut ends, mut distinct) =
            (Vec::with_capacity(all), Vec::with_capacity(all), Vec::with_capacity(all));
        by_hash(&hashes, mark, |pairs| {
            arrange(pairs);
            for group in pairs.chunk_by(|a, b| a.0 == b.0 && is_same(&a.1, &b.1)) {
                first(&group[0].1);
                distinct.push(group[0].0);
                rows.extend(group.iter().map(|(_, mark)| at(mark)));
                ends.push(rows.len());
            }
        });
        distinct.shrink_to_fit(); // runs keep this memory
        Self { rows, ends, hashes: distinct }
    }
}

fn lengths(chunks: &[Keys]) -> Vec<usize> {
    chunks.iter().map(Keys::len).collect()
}

/// The rows of each group.
fn each<'a>(rows: &'a [RowAt], ends: &'a [usize]) -> impl Iterator<Item = &'a [RowAt]> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, &end)| &rows[start..end])
}

/// Return how many of `numbers` are at most 0, 1, … `below` − 1.
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

/// Compare the bytes of two rows with one hash.
#[inline]
fn compare(chunks: &[Keys], a: RowAt, b: RowAt) -> std::cmp::Ordering {
    chunks[a.chunk as usize].cmp_bytes(a.row as usize, &chunks[b.chunk as usize], b.row as usize)
}

/// Return the keys at `rows`, collected a few at a time, so that their positions stay in cache.
fn keys_at(chunks: &[Keys], rows: impl Iterator<Item = Pick>, hashes: Vec<u64>) -> Result<Keys> {
    const AT_ONCE: usize = 1 << 12;
    let Some(any) = chunks.first() else { return keys_of(&[], 0) };
    let column = |column: usize| chunks.iter().map(|keys| keys.columns()[column].as_ref()).collect();
    let sources: Vec<Vec<&dyn Array>> = (0..any.columns().len()).map(column).collect();
    let columns = sources.iter().map(|sources| Gathering::new(sources[0].data_type(), sources, hashes.len()));
    let mut columns: Vec<Gathering<'_>> = columns.collect::<Result<_>>()?;
    let (mut rows, mut some) = (rows.fuse(), Vec::with_capacity(AT_ONCE));
    loop {
        some.clear();
        some.extend(rows.by_ref().take(AT_ONCE));
        if some.is_empty() {
            break;
        }
        columns.iter_mut().try_for_each(|column| column.add(&some))?;
    }
    any.with_columns(columns.into_iter().map(Gathering::finish).collect::<Result<_>>()?, hashes)
}

/// Return the places of `keys` that are not in `excluded`. Both are sorted.
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
