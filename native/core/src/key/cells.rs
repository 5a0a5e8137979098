//! Typed access to the canonical bytes of one key column, without a `dyn Array` dispatch for each row.
//!
//! INVARIANT: cells are ordered and compared by their canonical bytes, so an i32 equals an i64 of the same number.

use std::cmp::Ordering;
use std::ops::Range;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};

use crate::error::{Error, Result};
use crate::schema::is_key_type;

/// One key column.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    nulls: Option<NullBuffer>,
    data: Data,
}

/// The cells of a column, including those under nulls.
#[derive(Clone, Debug)]
pub(super) enum Data {
    Bool(BooleanBuffer),
    I8(ScalarBuffer<i8>),
    I16(ScalarBuffer<i16>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
    F32(ScalarBuffer<f32>),
    F64(ScalarBuffer<f64>),
    I128(ScalarBuffer<i128>),
    Bytes(OffsetBuffer<i32>, Buffer),
}

/// The canonical bytes of one cell.
pub(super) enum Cell<'a> {
    Null,
    Bit(u8),
    Word(u64),
    Wide(i128),
    Bytes(&'a [u8]),
}

impl Cells {
    /// Return the cells of a column that is not nested.
    pub(super) fn of_leaf(column: &dyn Array) -> Result<Self> {
        Ok(Self { nulls: nulls_of(column), data: Data::of_leaf(column)? })
    }

    /// Return the cells of a nested column. Cell `i` has the canonical bytes `offsets[i]..offsets[i + 1]` of `bytes`.
    pub(super) fn of_bytes(column: &dyn Array, offsets: OffsetBuffer<i32>, bytes: Buffer) -> Self {
        Self { nulls: nulls_of(column), data: Data::Bytes(offsets, bytes) }
    }

    pub(super) fn data(&self) -> &Data {
        &self.data
    }

    #[inline]
    pub(super) fn is_null(&self, i: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(i))
    }

    /// Whether all cells have 8 canonical bytes.
    pub(super) fn are_words(&self) -> bool {
        self.nulls.is_none() && !matches!(self.data, Data::Bool(_) | Data::I128(_) | Data::Bytes(..))
    }

    /// Return the cells if they are 8-byte integers without nulls.
    pub(super) fn plain_i64(&self) -> Option<&[i64]> {
        match &self.data {
            Data::I64(values) if self.nulls.is_none() => Some(values),
            _ => None,
        }
    }

    /// Return the cells if they are texts or binaries, or nested cells, which are encoded as binaries.
    pub(super) fn texts(&self) -> Option<Texts<'_>> {
        match &self.data {
            Data::Bytes(offsets, bytes) => Some(Texts { nulls: self.nulls.as_ref(), offsets, bytes }),
            _ => None,
        }
    }

    pub(super) fn cell(&self, i: usize) -> Cell<'_> {
        if self.is_null(i) { Cell::Null } else { self.data.cell(i) }
    }

    /// Compare two cells: null first, then by canonical bytes.
    pub(super) fn cmp_at(&self, i: usize, other: &Self, j: usize) -> Ordering {
        match (self.is_null(i), other.is_null(j)) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.data.cmp_at(i, &other.data, j),
        }
    }

    /// Whether cell `i` has the canonical bytes of cell `j` of `other`.
    #[inline]
    pub(super) fn is_same(&self, i: usize, other: &Self, j: usize) -> bool {
        match (&self.data, &other.data) {
            (Data::Bytes(offsets, data), Data::Bytes(others, more))
                if self.nulls.is_none() && other.nulls.is_none() =>
            {
                are_same(slice(offsets, data, i), slice(others, more, j))
            }
            _ => self.cmp_at(i, other, j).is_eq(),
        }
    }

    /// Whether cell `a` has the canonical bytes of cell `b` of `other`, for each `(a, b)`.
    pub(super) fn are_same(&self, other: &Self, pairs: impl Iterator<Item = (u32, u32)>) -> bool {
        let mut pairs = pairs.map(|(a, b)| (a as usize, b as usize));
        match (&self.data, &other.data) {
            // One loop without calls, so that the processor overlaps the reads from memory.
            (Data::Bytes(offsets, data), Data::Bytes(others, more))
                if self.nulls.is_none() && other.nulls.is_none() =>
            {
                pairs.all(|(a, b)| are_same(slice(offsets, data, a), slice(others, more, b)))
            }
            _ => pairs.all(|(a, b)| self.cmp_at(a, other, b).is_eq()),
        }
    }
}

/// Cells that are texts or binaries.
pub(super) struct Texts<'a> {
    nulls: Option<&'a NullBuffer>,
    offsets: &'a [i32],
    pub(super) bytes: &'a [u8],
}

impl Texts<'_> {
    /// Return the range of cell `i` in `bytes`; `None` if the cell is null.
    #[inline]
    pub(super) fn range(&self, i: usize) -> Option<Range<usize>> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(i)) {
            return None;
        }
        Some(self.offsets[i].unsigned_abs() as usize..self.offsets[i + 1].unsigned_abs() as usize)
    }

    /// The bytes of all cells, including those under nulls.
    pub(super) fn total(&self) -> usize {
        match self.offsets {
            [first, .., last] => last.abs_diff(*first) as usize,
            _ => 0,
        }
    }

    /// The bytes of the longest cell, including those under nulls.
    pub(super) fn longest(&self) -> usize {
        self.offsets.windows(2).fold(0, |longest, ends| longest.max(ends[1].abs_diff(ends[0]))) as usize
    }
}

impl Data {
    fn of_leaf(column: &dyn Array) -> Result<Self> {
        Ok(match column.data_type() {
            DataType::Boolean => Self::Bool(column.as_boolean().values().clone()),
            DataType::Int8 => Self::I8(column.as_primitive::<Int8Type>().values().clone()),
            DataType::Int16 => Self::I16(column.as_primitive::<Int16Type>().values().clone()),
            DataType::Int32 => Self::I32(column.as_primitive::<Int32Type>().values().clone()),
            DataType::Date32 => Self::I32(column.as_primitive::<Date32Type>().values().clone()),
            DataType::Int64 => Self::I64(column.as_primitive::<Int64Type>().values().clone()),
            data_type @ DataType::Timestamp(TimeUnit::Microsecond, _) if is_key_type(data_type) => {
                Self::I64(column.as_primitive::<TimestampMicrosecondType>().values().clone())
            }
            DataType::Float32 => Self::F32(column.as_primitive::<Float32Type>().values().clone()),
            DataType::Float64 => Self::F64(column.as_primitive::<Float64Type>().values().clone()),
            DataType::Decimal128(_, _) => Self::I128(column.as_primitive::<Decimal128Type>().values().clone()),
            DataType::Utf8 => {
                let text = column.as_string::<i32>();
                Self::Bytes(text.offsets().clone(), text.values().clone())
            }
            DataType::Binary => {
                let binary = column.as_binary::<i32>();
                Self::Bytes(binary.offsets().clone(), binary.values().clone())
            }
            other => {
                return Err(Error::InvalidInput(format!(
                    "rows cannot be keyed by a column of type {other}; expected a boolean, number, decimal, string, \
                     binary, date or timestamp[us], or a struct, list or map of these"
                )));
            }
        })
    }

    fn cell(&self, i: usize) -> Cell<'_> {
        match self {
            Self::Bool(bits) => Cell::Bit(u8::from(bits.value(i))),
            Self::I128(values) => Cell::Wide(values[i]),
            Self::Bytes(offsets, data) => Cell::Bytes(slice(offsets, data, i)),
            words => Cell::Word(words.word(i)),
        }
    }

    /// Return the canonical bytes of a cell of at most 8 bytes as a little-endian number.
    #[inline]
    pub(super) fn word(&self, i: usize) -> u64 {
        match self {
            Self::Bool(bits) => u64::from(bits.value(i)),
            Self::I8(values) => i64::from(values[i]).cast_unsigned(),
            Self::I16(values) => i64::from(values[i]).cast_unsigned(),
            Self::I32(values) => i64::from(values[i]).cast_unsigned(),
            Self::I64(values) => values[i].cast_unsigned(),
            Self::F32(values) => canonical_f64(f64::from(values[i])).to_bits(),
            Self::F64(values) => values[i].to_bits(),
            Self::I128(_) | Self::Bytes(..) => 0,
        }
    }

    fn cmp_at(&self, i: usize, other: &Self, j: usize) -> Ordering {
        match (self, other) {
            (Self::Bytes(offsets, data), Self::Bytes(others, more)) => {
                slice(offsets, data, i).cmp(slice(others, more, j))
            }
            (Self::I128(a), Self::I128(b)) => a[i].cast_unsigned().swap_bytes().cmp(&b[j].cast_unsigned().swap_bytes()),
            (words, others) => words.word(i).swap_bytes().cmp(&others.word(j).swap_bytes()),
        }
    }
}

/// Whether two texts are equal, compared by words of 8 bytes. The last word may overlap the one before.
#[inline]
fn are_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(end), Some(other)) => {
            end == other && a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0).all(|(a, b)| a == b)
        }
        _ => a.iter().zip(b).all(|(a, b)| a == b),
    }
}

#[inline]
fn slice<'a>(offsets: &OffsetBuffer<i32>, data: &'a Buffer, i: usize) -> &'a [u8] {
    // Offsets of a valid array are never negative, so the casts do not change them.
    &data[offsets[i].cast_unsigned() as usize..offsets[i + 1].cast_unsigned() as usize]
}

/// Return which cells of a column are null; `None` if no cell is.
pub(super) fn nulls_of(column: &dyn Array) -> Option<NullBuffer> {
    column.logical_nulls().filter(|nulls| nulls.null_count() > 0)
}

/// Return `x` with one NaN and one zero: −0.0 + 0.0 is 0.0, and every other number keeps its bits.
pub(super) fn canonical_f64(x: f64) -> f64 {
    if x.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { x + 0.0 }
}
