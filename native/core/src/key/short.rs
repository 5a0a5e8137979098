//! Short texts and binaries as two words, so that rows carry them along where they are sorted: to read them where they
//! lie, in the order of their hashes, is a wait for memory each.
//!
//! INVARIANT: order and equality of [`Short`] are those of canonical bytes, null first.

use std::cmp::Ordering;

use arrow_array::{ArrayRef, make_array};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::Keys;
use super::cells::Texts;
use crate::error::Result;
use crate::{memory, offsets};

/// Bytes of the longest text that is carried along.
const MOST_BYTES: usize = 16;

/// A row of one of several parts, and its key, a text of at most 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Short {
    /// The text, then zeros; each word little-endian.
    words: [u64; 2],
    row: u32,
    part: u16,
    /// One more than the bytes of the text; 0 for null.
    extent: u16,
}

impl Short {
    /// Index of the part, and the row in it.
    #[inline]
    pub(crate) fn at(&self) -> (u32, u32) {
        (self.part.into(), self.row)
    }

    #[inline]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.words == other.words && self.extent == other.extent
    }

    /// The order of the texts. Of two that differ in zeros alone the shorter one is the beginning of the other.
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
    /// Bytes of all texts.
    total: usize,
}

impl<'a> ShortTexts<'a> {
    /// The keys of `parts`; `None` where some are something else, or longer, or more than one column may hold.
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

    /// A row of a part.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "no text and no number of a part is longer")]
    pub(crate) fn row(&self, part: u32, row: u32) -> Short {
        let texts = &self.parts[part as usize];
        let Some(range) = texts.range(row as usize) else {
            return Short { row, part: part as u16, ..Short::default() };
        };
        let bytes = &texts.bytes[range.start..];
        Short { words: words_at(bytes, range.len()), row, part: part as u16, extent: range.len() as u16 + 1 }
    }

    /// A column of no texts yet, with room for those of `rows` rows.
    pub(crate) fn column(&self, rows: usize) -> Result<ShortColumn<'a>> {
        let mut ends = memory::with_capacity("group texts", rows + 1)?;
        ends.push(0);
        let bytes = offsets::filled(0, self.total + MOST_BYTES)?;
        Ok(ShortColumn { data_type: self.data_type, ends, bytes, null_row: None })
    }
}

/// The first of `count` bytes, at most 16 of them, then zeros; what lies behind them in `bytes` does not matter.
#[inline]
pub(super) fn words_at(bytes: &[u8], count: usize) -> [u64; 2] {
    [word_at(bytes, count), word_at(bytes.get(8..).unwrap_or_default(), count.saturating_sub(8))]
}

/// The first 8 of these bytes.
///
/// Texts are of any length: to read as many bytes always, and clear what is behind, is not guessed wrong.
#[inline]
fn word_at(bytes: &[u8], count: usize) -> u64 {
    match bytes.first_chunk() {
        Some(word) => first_bytes(u64::from_le_bytes(*word), count),
        None => few_bytes(bytes, count),
    }
}

/// The first `count` bytes of a word, then zeros.
#[inline]
fn first_bytes(word: u64, count: usize) -> u64 {
    let bits = 8 * count.min(8) as u32;
    word & u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0)
}

/// The first `count` of `bytes`, which are fewer than 8.
#[cold]
fn few_bytes(bytes: &[u8], count: usize) -> u64 {
    bytes[..count.min(bytes.len())].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// A column of distinct short texts, as it is collected.
pub(crate) struct ShortColumn<'a> {
    data_type: &'a DataType,
    ends: Vec<i32>,
    /// The texts, and room for more than the next one.
    bytes: Vec<u8>,
    null_row: Option<usize>,
}

impl ShortColumn<'_> {
    /// Adds the text of a row, one that has not been added before.
    #[inline]
    pub(crate) fn add(&mut self, short: &Short) {
        let start = self.end();
        match short.extent.checked_sub(1) {
            None => {
                self.null_row = Some(self.ends.len() - 1);
                self.ends.push(start as i32);
            }
            Some(length) => {
                // What is written behind the text is written over by the next one.
                if let Some(place) = self.bytes.get_mut(start..).and_then(|bytes| bytes.first_chunk_mut()) {
                    *place = short.bytes();
                }
                self.ends.push((start + usize::from(length)) as i32);
            }
        }
    }

    /// Where the texts end.
    fn end(&self) -> usize {
        self.ends.last().map_or(0, |end| end.unsigned_abs() as usize)
    }

    /// The column.
    pub(crate) fn finish(mut self) -> Result<ArrayRef> {
        self.bytes.truncate(self.end());
        self.bytes.shrink_to_fit(); // a run keeps both
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
