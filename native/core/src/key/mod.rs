//! Keys of a batch: canonical columns, their hashes, their order. `docs/format.md` fixes the rules for ever.
//!
//! INVARIANT: equal keys have equal hashes and equal canonical bytes, in every batch and for every integer width.
//! INVARIANT: keys are ordered by hash, then column by column by canonical bytes, null first.
//! INVARIANT: XXH3-64 of 8 bytes is a bijection, so if the key is one 8-byte number, equal hashes mean equal keys.

mod canonical;
mod cells;
mod few;
mod hash;
mod nested;
mod order;
mod short;
mod table;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use arrow_array::{ArrayRef, make_array};
use arrow_buffer::ScalarBuffer;
use arrow_data::transform::MutableArrayData;

use crate::error::{Error, Result};
use crate::gather::{Pick, gather};
use crate::memory;
use cells::Cells;

pub(crate) use few::{InOrder, Numbering};
#[cfg(test)]
pub(crate) use hash::{TWIN_OF_NULL, with_masked_hashes};
pub(crate) use order::{by_hash, sort_ties};
pub(crate) use short::{Short, ShortTexts};

/// The key columns and sub-key columns of one batch. Sub-keys order rows but are not hashed.
#[derive(Clone, Debug)]
pub struct Keys {
    columns: Vec<ArrayRef>,
    cells: Vec<Cells>,
    hashes: ScalarBuffer<u64>,
    hashed: usize,
    /// Whether equal hashes mean equal keys.
    is_unique_by_hash: bool,
}

impl Keys {
    /// Return the keys in `columns`, all of them hashed. Without columns, use [`Keys::empty_key`].
    pub fn new(columns: &[ArrayRef]) -> Result<Self> {
        match columns.first() {
            Some(first) => Self::with_sub_keys(columns, &[], first.len()),
            None => {
                Err(Error::InternalError("keys without columns need a number of rows: use `Keys::empty_key`".into()))
            }
        }
    }

    /// Return `rows` times the key that has no columns.
    #[must_use]
    pub fn empty_key(rows: usize) -> Self {
        Self {
            columns: Vec::new(),
            cells: Vec::new(),
            hashes: vec![hash::masked(0); rows].into(),
            hashed: 0,
            is_unique_by_hash: false,
        }
    }

    /// Return keys with sub-keys: `keys` are hashed, `sub_keys` only order the rows of a key. Either may have no
    /// columns.
    pub fn with_sub_keys(keys: &[ArrayRef], sub_keys: &[ArrayRef], rows: usize) -> Result<Self> {
        let columns: Vec<ArrayRef> = keys.iter().chain(sub_keys).map(canonical::canonical).collect::<Result<_>>()?;
        if let Some(odd) = columns.iter().find(|column| column.len() != rows) {
            return Err(Error::InvalidInput(format!("a key column has {} rows, expected {rows}", odd.len())));
        }
        let cells: Vec<Cells> =
            columns.iter().map(|column| nested::cells_of(column.as_ref())).collect::<Result<_>>()?;
        let hashes = hash::hashes(&cells[..keys.len()], rows)?;
        Ok(Self::of(columns, cells, hashes, keys.len()))
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The hash of row `i`.
    #[must_use]
    pub fn hash(&self, i: usize) -> u64 {
        self.hashes[i]
    }

    /// The hash of each row.
    #[must_use]
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// The hash of each row, as a shared buffer.
    pub(crate) fn all_hashes(&self) -> &ScalarBuffer<u64> {
        &self.hashes
    }

    /// The canonical key columns, then the sub-key columns: −0.0 is 0.0, and there is one NaN.
    #[must_use]
    pub fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// How many leading columns are hashed. They are the key; the others are the sub-key.
    #[must_use]
    pub fn hashed_columns(&self) -> usize {
        self.hashed
    }

    /// Whether a key can have several rows.
    pub(crate) fn has_sub_keys(&self) -> bool {
        self.hashed < self.columns.len()
    }

    /// Whether row `i` and row `j` of `other` have the same key and sub-key.
    #[must_use]
    pub fn eq_at(&self, i: usize, other: &Self, j: usize) -> bool {
        self.hashes[i] == other.hashes[j] && self.cmp_bytes(i, other, j).is_eq()
    }

    /// Compare row `i` with row `j` of `other` by hash, then by canonical bytes.
    #[must_use]
    pub fn cmp_at(&self, i: usize, other: &Self, j: usize) -> Ordering {
        self.hashes[i].cmp(&other.hashes[j]).then_with(|| self.cmp_bytes(i, other, j))
    }

    /// Compare canonical bytes only, for rows known to have equal hashes.
    pub(crate) fn cmp_bytes(&self, i: usize, other: &Self, j: usize) -> Ordering {
        if self.are_unique_by_hash(other) {
            return Ordering::Equal;
        }
        first_difference(&self.cells, i, &other.cells, j)
    }

    /// Whether row `i` and row `j` of `other` have the same key, ignoring sub-keys. Their hashes must be equal.
    pub(crate) fn has_key_of(&self, i: usize, other: &Self, j: usize) -> bool {
        let mut hashed = self.cells[..self.hashed].iter().zip(&other.cells);
        self.are_unique_by_hash(other) || hashed.all(|(a, b)| a.is_same(i, b, j))
    }

    /// Compare the key columns of row `i` and row `j` of `other`, ignoring sub-keys. Their hashes must be equal.
    pub(crate) fn cmp_key_columns(&self, i: usize, other: &Self, j: usize) -> Ordering {
        first_difference(&self.cells[..self.hashed], i, &other.cells, j)
    }

    /// Compare the sub-keys of row `i` and row `j` of `other`, which must have the same key.
    pub(crate) fn cmp_sub_keys(&self, i: usize, other: &Self, j: usize) -> Ordering {
        first_difference(&self.cells[self.hashed..], i, &other.cells[self.hashed..], j)
    }

    /// Whether row `a` and row `b` of `other` have the same key, for each `(a, b)`. Their hashes must be equal.
    pub(crate) fn are_same(&self, other: &Self, rows: &[(u32, u32)]) -> bool {
        self.are_unique_by_hash(other)
            || self.cells.iter().zip(&other.cells).all(|(cells, others)| cells.are_same(others, rows.iter().copied()))
    }

    /// Return the row numbers in key order. Rows of one key keep their order.
    #[must_use]
    pub fn order(&self) -> Vec<u32> {
        order::order(self)
    }

    /// Return a copy of the keys that shares no memory.
    pub(crate) fn copied(&self) -> Result<Self> {
        let copied = |column: &ArrayRef| {
            let data = column.to_data();
            memory::check_available("copy keys", data.get_slice_memory_size()?)?;
            let mut copy = MutableArrayData::new(vec![&data], false, data.len());
            copy.try_extend(0, 0, data.len())?;
            Ok(make_array(copy.freeze()))
        };
        let columns: Vec<ArrayRef> = self.columns.iter().map(copied).collect::<Result<_>>()?;
        self.with_columns(columns, self.hashes.to_vec())
    }

    /// Return the keys at `rows`, in that order.
    pub fn take(&self, rows: &[u32]) -> Result<Self> {
        let picks: Vec<Pick> = rows.iter().map(|&row| Pick::new(0, row as usize)).collect();
        let columns = self.columns.iter().map(|column| gather(column.data_type(), &[column.as_ref()], &picks));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let hashes = rows.iter().map(|&row| self.hashes[row as usize]).collect();
        self.with_columns(columns, hashes)
    }

    /// Return these keys with one more column, as a sub-key.
    pub(crate) fn with_sub_key(mut self, sub_key: &ArrayRef) -> Result<Self> {
        let sub_key = canonical::canonical(sub_key)?;
        if sub_key.len() != self.len() {
            return Err(Error::InternalError(format!(
                "found {} sub-keys, expected one for each of {} keys",
                sub_key.len(),
                self.len()
            )));
        }
        self.cells.push(nested::cells_of(sub_key.as_ref())?);
        self.columns.push(sub_key);
        Ok(Self::of(self.columns, self.cells, self.hashes, self.hashed))
    }

    /// Whether rows ascend strictly, so that no two rows have the same key.
    pub(crate) fn are_ascending(&self) -> bool {
        let is_before = |i: usize| match self.hashes[i].cmp(&self.hashes[i + 1]) {
            Ordering::Equal => self.has_sub_keys() && self.cmp_bytes(i, self, i + 1).is_lt(),
            order => order.is_lt(),
        };
        (0..self.len().saturating_sub(1)).all(is_before)
    }

    /// Return keys from columns that are canonical already, and their hashes.
    pub(crate) fn of_canonical(columns: Vec<ArrayRef>, hashed: usize, hashes: ScalarBuffer<u64>) -> Result<Self> {
        let cells = columns.iter().map(|column| nested::cells_of(column.as_ref())).collect::<Result<_>>()?;
        Ok(Self::of(columns, cells, hashes, hashed))
    }

    /// Return keys of the same shape from other columns, which are canonical already, and their hashes.
    pub(crate) fn with_columns(&self, columns: Vec<ArrayRef>, hashes: Vec<u64>) -> Result<Self> {
        let cells = columns.iter().map(|column| nested::cells_of(column.as_ref())).collect::<Result<_>>()?;
        Ok(Self::of(columns, cells, hashes, self.hashed))
    }

    fn of(columns: Vec<ArrayRef>, cells: Vec<Cells>, hashes: impl Into<ScalarBuffer<u64>>, hashed: usize) -> Self {
        let is_unique_by_hash =
            hashed == 1 && matches!(cells.as_slice(), [only] if only.are_words()) && !hash::is_masked();
        Self { columns, cells, hashes: hashes.into(), hashed, is_unique_by_hash }
    }

    /// Whether equal hashes in these keys and `other` mean equal keys, so that bytes need not be compared.
    #[inline]
    pub(crate) fn are_unique_by_hash(&self, other: &Self) -> bool {
        self.is_unique_by_hash && other.is_unique_by_hash
    }
}

/// Compare rows `i` and `j` by the first column in which they differ.
fn first_difference(cells: &[Cells], i: usize, others: &[Cells], j: usize) -> Ordering {
    let mut orders = cells.iter().zip(others).map(|(a, b)| a.cmp_at(i, b, j));
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Return the sort position of an integer or time as a sub-key, which is that of its canonical bytes.
pub(crate) fn word_order(word: i64) -> u64 {
    word.cast_unsigned().swap_bytes()
}

/// Return the key hash of one string.
#[must_use]
pub fn text_hash(text: &str) -> u64 {
    hash::masked(hash::bytes(text.as_bytes(), 0))
}
