//! The distinct keys of rows that arrive block by block, stored side by side by number. Comparing with a key needs no
//! access to the block that it came from; for a short text it is a single read.
//!
//! INVARIANT: two keys are equal if their canonical bytes are; callers ask only for numbers of keys that were added.

use std::ops::Range;

use super::Keys;
use super::cells::{Cells, Data, Texts};
use super::short::words_at;
use crate::memory;

/// Distinct keys by number.
#[derive(Debug, Default)]
pub(super) struct KeyTable {
    /// Empty until the first key is added.
    columns: Vec<Column>,
}

impl KeyTable {
    /// Give the keys of `rows` the next numbers. Return false if there is no memory for them.
    pub(super) fn add(&mut self, keys: &Keys, rows: &[u32]) -> bool {
        if self.columns.is_empty() {
            self.columns = keys.cells.iter().map(|cells| Column::like(cells.data())).collect();
        }
        self.columns.iter_mut().zip(&keys.cells).all(|(column, cells)| column.add(cells, rows))
    }

    /// Whether each row has the key with its number.
    pub(super) fn are_at(&self, keys: &Keys, numbers: &[u32]) -> bool {
        self.columns.iter().zip(&keys.cells).all(|(column, cells)| column.are_at(cells, numbers))
    }
}

/// The cells of one key column.
#[derive(Debug)]
enum Column {
    /// Numbers of at most 8 bytes, and whether each is null.
    Words(Vec<(u64, bool)>),
    Wide(Vec<(i128, bool)>),
    /// Texts, and the bytes of all of them after their first 16.
    Texts(Vec<Text>, Vec<u8>),
}

/// A text of any length, or null.
#[derive(Clone, Copy, Debug)]
struct Text {
    /// The first 16 bytes, padded with zeros.
    words: [u64; 2],
    length: u32,
    /// Where the remaining bytes begin.
    rest: u32,
}

impl Text {
    /// Bytes in `words`.
    const FIRST: usize = 16;
    /// No text is this long, because a column has at most 2 GiB.
    const NULL: Self = Self { words: [0; 2], length: u32::MAX, rest: 0 };
}

impl Column {
    fn like(data: &Data) -> Self {
        match data {
            Data::I128(_) => Self::Wide(Vec::new()),
            Data::Bytes(..) => Self::Texts(Vec::new(), Vec::new()),
            _ => Self::Words(Vec::new()),
        }
    }

    fn add(&mut self, cells: &Cells, rows: &[u32]) -> bool {
        let mut rows = rows.iter().map(|&row| row as usize);
        match (self, cells.data()) {
            (Self::Words(_), Data::Bytes(..) | Data::I128(_)) => false, // these do not fit into a word
            (Self::Words(known), data) => {
                has_room(known, rows.len()) && {
                    known.extend(rows.map(|row| if cells.is_null(row) { (0, true) } else { (data.word(row), false) }));
                    true
                }
            }
            (Self::Wide(known), Data::I128(values)) => {
                has_room(known, rows.len()) && {
                    known.extend(rows.map(|row| if cells.is_null(row) { (0, true) } else { (values[row], false) }));
                    true
                }
            }
            (Self::Texts(known, rest), _) => cells
                .texts()
                .is_some_and(|texts| has_room(known, rows.len()) && rows.all(|row| add_text(known, rest, &texts, row))),
            _ => false,
        }
    }

    fn are_at(&self, cells: &Cells, numbers: &[u32]) -> bool {
        let mut rows = numbers.iter().map(|&number| number as usize).enumerate();
        match (self, cells.data()) {
            (Self::Words(_), Data::Bytes(..) | Data::I128(_)) => false,
            (Self::Words(known), data) => rows.all(|(row, number)| match known[number] {
                (_, true) => cells.is_null(row),
                (word, false) => !cells.is_null(row) && data.word(row) == word,
            }),
            (Self::Wide(known), Data::I128(values)) => rows.all(|(row, number)| match known[number] {
                (_, true) => cells.is_null(row),
                (value, false) => !cells.is_null(row) && values[row] == value,
            }),
            (Self::Texts(known, rest), _) => cells.texts().is_some_and(|texts| {
                rows.all(|(row, number)| {
                    let text = &known[number];
                    let Some(range) = texts.range(row) else { return text.length == Text::NULL.length };
                    let length = range.len();
                    text.length as usize == length
                        && text.words == words_at(&texts.bytes[range.start..], length)
                        && (length <= Text::FIRST
                            || rest[text.rest as usize..][..length - Text::FIRST]
                                == texts.bytes[range.start + Text::FIRST..range.end])
                })
            }),
            _ => false,
        }
    }
}

/// Add the text of a row, or null.
fn add_text(known: &mut Vec<Text>, rest: &mut Vec<u8>, texts: &Texts<'_>, row: usize) -> bool {
    let Some(Range { start, end }) = texts.range(row) else {
        known.push(Text::NULL);
        return true;
    };
    let more = texts.bytes.get(start + Text::FIRST..end).unwrap_or_default();
    let (Ok(length), Ok(at)) = ((end - start).try_into(), rest.len().try_into()) else { return false };
    if !has_room(rest, more.len()) {
        return false;
    }
    known.push(Text { words: words_at(&texts.bytes[start..], end - start), length, rest: at });
    rest.extend_from_slice(more);
    true
}

/// Whether there is memory for `more` cells. If not, rows are sorted instead.
fn has_room<T>(cells: &mut Vec<T>, more: usize) -> bool {
    memory::reserve("tell keys apart", cells, more).is_ok()
}
