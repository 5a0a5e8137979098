//! Rows of many chunks by key: which distinct keys there are, and which of them each row has.
//!
//! Rows of few keys are told by a table of hashes, of many by sorting; either takes some nanoseconds a row.
//! INVARIANT: groups are numbered in (hash, key bytes) order, and rows of a group keep (chunk, row) order.

use std::sync::OnceLock;

use arrow_array::Array;

use super::columns::keys_of;
use crate::error::Result;
use crate::gather::{Gathering, Pick};
use crate::key::{InOrder, Keys, Numbering, Short, ShortTexts, by_hash, sort_ties};

/// A row by its chunk and its number there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowAt {
    /// Index of the chunk.
    pub chunk: u32,
    /// Row within the chunk.
    pub row: u32,
}

/// The distinct keys of some chunks, and which rows have which.
#[derive(Debug)]
pub struct Groups {
    /// One row a distinct key, sorted.
    pub keys: Keys,
    /// Rows of each chunk.
    lengths: Vec<usize>,
    /// What was found first; the other is made of it once it is asked for.
    numbers: OnceLock<Vec<Vec<u32>>>,
    rows: OnceLock<(Vec<RowAt>, Vec<usize>)>,
}

impl Groups {
    /// Groups the rows of chunks that have these keys.
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

    /// The groups of rows that are in the order of their keys, as what one task has combined is; `None` where they are
    /// not, or in several chunks.
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

    /// The groups by sorting.
    fn by_sorting(chunks: &[Keys]) -> Result<Self> {
        if let Some(texts) = ShortTexts::of(chunks) {
            return Self::short(chunks, &texts);
        }
        // Hashes of 64 bits nearly always tell keys apart by themselves; that they did is checked afterwards, where the
        // processor need not wait for one comparison before it begins the next.
        let groups = Self::sorted(chunks, |_| (), |_, _| true)?;
        if groups.have_one_key_each(chunks) {
            return Ok(groups);
        }
        let compare = |a: &RowAt, b: &RowAt| compare(chunks, *a, *b);
        Self::sorted(chunks, |pairs| sort_ties(pairs, compare), |a, b| compare(a, b).is_eq())
    }

    /// The groups of rows in the order of their hashes, in which `arrange` has put rows of one hash: neighbours among
    /// those belong together where `is_same` says so.
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

    /// The same where keys are short texts, which rows carry along.
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
        // The first row of each group has its key.
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

    /// Whether there was no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All rows, group by group, and for each group where its rows end.
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

    /// For each chunk, for each row, the number of its key in `keys`.
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

/// Groups of chunks that come one after the other: what a table tells of their rows is found as they come, while the
/// next ones are still being read.
#[derive(Debug)]
pub(super) struct Grouping {
    /// `None` where rows are better sorted, all at once.
    numbering: Option<Numbering>,
}

impl Grouping {
    /// Nothing yet of about so many rows.
    pub(super) fn new(rows: usize) -> Self {
        Self { numbering: Some(Numbering::new(rows)) }
    }

    /// The next chunk.
    pub(super) fn add(&mut self, keys: &Keys) {
        if !self.numbering.as_mut().is_some_and(|numbering| numbering.add(keys)) {
            self.numbering = None;
        }
    }

    /// How many keys there are so far, and which of them, as they came, each row of the last chunk has; `None` where rows
    /// will be sorted.
    pub(super) fn last(&self) -> Option<(usize, &[u32])> {
        self.numbering.as_ref().map(|numbering| (numbering.len(), numbering.last()))
    }

    /// The groups of all chunks: those of [`Groups::new`].
    pub(super) fn groups(self, chunks: &[Keys]) -> Result<Groups> {
        let Some(numbering) = self.numbering.filter(Numbering::are_few) else { return Groups::by_sorting(chunks) };
        let order = numbering.in_order();
        let numbers = numbering.places(&order).into();
        Ok(Groups { keys: keys_in(chunks, order)?.0, lengths: lengths(chunks), numbers, rows: OnceLock::new() })
    }

    /// The distinct keys of all chunks, sorted, and the number that each had as they came; `None` where rows must be
    /// sorted.
    pub(super) fn in_order(&self, chunks: &[Keys]) -> Result<Option<(Keys, Vec<u32>)>> {
        self.numbering.as_ref().map(|numbering| keys_in(chunks, numbering.in_order())).transpose()
    }
}

/// The keys of `order`, and the number that each had as they came.
fn keys_in(chunks: &[Keys], order: InOrder) -> Result<(Keys, Vec<u32>)> {
    let firsts = order.firsts.iter().map(|&(chunk, row)| Pick { source: chunk, row });
    Ok((keys_at(chunks, firsts, order.hashes)?, order.came))
}

fn hashes(chunks: &[Keys]) -> Vec<&[u64]> {
    chunks.iter().map(Keys::hashes).collect()
}

/// Rows in the order of their keys, where the rows of each key end, and their hashes.
struct Sorted {
    rows: Vec<RowAt>,
    ends: Vec<usize>,
    hashes: Vec<u64>,
}

impl Sorted {
    /// The rows of `chunks` as `mark` makes them and `at` tells them; `first` is called with the first one of each key.
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
        distinct.shrink_to_fit(); // a run keeps them
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

/// The keys at `rows`, some at a time: where they lie stays in cache, and takes no fresh memory.
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
