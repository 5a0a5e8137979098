//! Short texts and binaries as two words that rows carry along while they are sorted. Otherwise each comparison in hash
//! order would wait for a read from memory.
//!
//! INVARIANT: [`Short`] values have the order and equality of canonical bytes, null first.

use std::cmp::Ordering;

use arrow_array::{ArrayRef, make_array};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::Keys;
use super::cells::Texts;
use crate::error::Result;
use crate::{memory, offsets};

/// Bytes of the longest text that rows carry along.
const MOST_BYTES: usize = 16;

/// A row of one of several parts with its key, a text of at most 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Short {
    /// The text, padded with zeros; each word is little-endian.
    words: [u64; 2],
    row: u32,
    part: u16,
    /// The length of the text plus one; 0 for null.
    extent: u16,
}

impl Short {
    /// Return the index of the part and the row in it.
    #[inline]
    pub(crate) fn at(&self) -> (u32, u32) {
        (self.part.into(), self.row)
    }

    #[inline]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.words == other.words && self.extent == other.extent
    }

    /// Compare the texts. If two differ only in trailing zeros, the shorter one is a prefix of the other and sorts
    /// first.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let words = |short: &Self| short.words.map(u64::swap_bytes);
        words(self).cmp(&words(other)).then(self.extent.cmp(&other.extent))
    }

    fn bytes(&self) -> [u8; MOST_BYTES] {
        (u128::from(self.words[1]) << 64 | u128::from(self.words[0])).to_le_bytes()
    }
}

/// Parts whose keys are all short texts.
pub(crate) struct ShortTexts<'a> {
    data_type: &'a DataType,
    parts: Vec<Texts<'a>>,
    /// Bytes of all texts together.
    total: usize,
}

impl<'a> ShortTexts<'a> {
    /// Return the keys of `parts`; `None` if a key has another type or is longer, or if one column cannot hold them
    /// all.
    pub(crate) fn of(parts: &'a [Keys]) -> Option<Self> {
        let [column] = parts.first()?.columns() else { return None };
        let data_type = column.data_type();
        if !matches!(data_type, DataType::Utf8 | DataType::Binary) || parts.len() > u16::MAX.into() {
            return None;
        }
        let parts: Vec<Texts<'_>> = parts.iter().map(|keys| keys.cells[0].texts()).collect::<Option<_>>()?;
        let total = parts.iter().map(Texts::total).fold(0, usize::saturating_add);
        let are_short = offsets::check(total).is_ok() && parts.iter().all(|texts| texts.longest() <= MOST_BYTES);
        are_short.then_some(Self { data_type, parts, total })
    }

    /// Return a row of a part.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "texts have at most 16 bytes, and parts are numbered by u16")]
    pub(crate) fn row(&self, part: u32, row: u32) -> Short {
        let texts = &self.parts[part as usize];
        let Some(range) = texts.range(row as usize) else {
            return Short { row, part: part as u16, ..Short::default() };
        };
        let bytes = &texts.bytes[range.start..];
        Short { words: words_at(bytes, range.len()), row, part: part as u16, extent: range.len() as u16 + 1 }
    }

    /// Return an empty column with room for `rows` texts.
    pub(crate) fn column(&self, rows: usize) -> Result<ShortColumn<'a>> {
        let mut ends = memory::with_capacity("group texts", rows + 1)?;
        ends.push(0);
        let bytes = offsets::filled(0, self.total + MOST_BYTES)?;
        Ok(ShortColumn { data_type: self.data_type, ends, bytes, null_row: None })
    }
}

/// Return the first `count` of `bytes`, at most 16, padded with zeros. Bytes after them do not matter.
#[inline]
pub(super) fn words_at(bytes: &[u8], count: usize) -> [u64; 2] {
    [word_at(bytes, count), word_at(bytes.get(8..).unwrap_or_default(), count.saturating_sub(8))]
}

/// Return the first 8 of these bytes.
///
/// Texts have any length: a fixed-width read plus a mask avoids branch mispredictions.
#[inline]
fn word_at(bytes: &[u8], count: usize) -> u64 {
    match bytes.first_chunk() {
        Some(word) => first_bytes(u64::from_le_bytes(*word), count),
        None => few_bytes(bytes, count),
    }
}

/// Return the first `count` bytes of a word, padded with zeros.
#[inline]
fn first_bytes(word: u64, count: usize) -> u64 {
    let bits = 8 * count.min(8) as u32;
    word & u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0)
}

/// Return the first `count` of `bytes`, which are fewer than 8.
#[cold]
fn few_bytes(bytes: &[u8], count: usize) -> u64 {
    bytes[..count.min(bytes.len())].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// A column of distinct short texts that is being collected.
pub(crate) struct ShortColumn<'a> {
    data_type: &'a DataType,
    ends: Vec<i32>,
    /// The texts, with room for more than the next one.
    bytes: Vec<u8>,
    null_row: Option<usize>,
}

impl ShortColumn<'_> {
    /// Add the text of a row, which must not have been added before.
    #[inline]
    pub(crate) fn add(&mut self, short: &Short) {
        let start = self.end();
        match short.extent.checked_sub(1) {
            None => {
                self.null_row = Some(self.ends.len() - 1);
                self.ends.push(start as i32);
            }
            Some(length) => {
                // The padding after the text is overwritten by the next text.
                if let Some(place) = self.bytes.get_mut(start..).and_then(|bytes| bytes.first_chunk_mut()) {
                    *place = short.bytes();
                }
                self.ends.push((start + usize::from(length)) as i32);
            }
        }
    }

    /// Return the end of the texts.
    fn end(&self) -> usize {
        self.ends.last().map_or(0, |end| end.unsigned_abs() as usize)
    }

    /// Return the column.
    pub(crate) fn finish(mut self) -> Result<ArrayRef> {
        self.bytes.truncate(self.end());
        self.bytes.shrink_to_fit(); // runs keep both buffers
        self.ends.shrink_to_fit();
        let rows = self.ends.len() - 1;
        let nulls = self.null_row.map(|row| {
            let mut valid = BooleanBufferBuilder::new(rows);
            valid.append_n(rows, true);
            valid.set_bit(row, false);
            NullBuffer::new(valid.finish())
        });
        let buffers = vec![Buffer::from_vec(self.ends), Buffer::from_vec(self.bytes)];
        Ok(make_array(ArrayData::builder(self.data_type.clone()).len(rows).buffers(buffers).nulls(nulls).build()?))
    }
}
