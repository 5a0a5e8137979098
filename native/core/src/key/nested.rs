//! Canonical bytes of structs, lists and maps: different cells have different bytes.
//!
//! The columns must be canonical: the entries of a map are sorted by key.
//! INVARIANT: the bytes determine the value, because each part of variable length stores its length and each part
//! stores whether it is null.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType};

use super::cells::{Cell, Cells, nulls_of};
use crate::error::Result;

const NULL: u8 = 0;
const VALUE: u8 = 1;

/// Return the cells of a key column of any type.
pub(super) fn cells_of(column: &dyn Array) -> Result<Cells> {
    if !column.data_type().is_nested() {
        return Cells::of_leaf(column);
    }
    let (offsets, bytes) = spelled(column)?;
    Ok(Cells::of_bytes(column, offsets, bytes))
}

/// Return the canonical bytes of each cell of a nested column as binary. A null cell is empty.
fn spelled(column: &dyn Array) -> Result<(OffsetBuffer<i32>, Buffer)> {
    let part = NestedCells::new(column)?;
    let mut bytes = Vec::new();
    let mut ends: Vec<i32> = Vec::with_capacity(column.len() + 1);
    ends.push(0);
    for row in 0..column.len() {
        if !part.is_null(row) {
            part.spell(row, &mut bytes);
        }
        ends.push(i32::try_from(bytes.len()).map_err(|_| ArrowError::OffsetOverflowError(bytes.len()))?);
    }
    Ok((OffsetBuffer::new(ends.into()), Buffer::from_vec(bytes)))
}

/// Return the order that sorts the entries of each map by the bytes of their keys; `None` if they are sorted already.
pub(super) fn entry_order(keys: &dyn Array, offsets: &OffsetBuffer<i32>) -> Result<Option<Vec<u32>>> {
    let part = NestedCells::new(keys)?;
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    let mut changed = false;
    for map in (0..offsets.len() - 1).map(|row| bounds(offsets, row)).filter(|map| map.len() > 1) {
        let mut entries: Vec<(Vec<u8>, u32)> =
            map.clone().map(|entry| (part.spelled_inner(entry), entry as u32)).collect();
        if !entries.is_sorted() {
            entries.sort();
            changed = true;
            order[map].iter_mut().zip(entries).for_each(|(place, (_, entry))| *place = entry);
        }
    }
    Ok(changed.then_some(order))
}

/// A column, or the columns inside a nested one.
enum NestedCells {
    Leaf(Cells),
    Struct(Option<NullBuffer>, Vec<NestedCells>),
    List(Option<NullBuffer>, OffsetBuffer<i32>, Box<NestedCells>),
    Map(Option<NullBuffer>, OffsetBuffer<i32>, Box<(NestedCells, NestedCells)>),
}

impl NestedCells {
    fn new(column: &dyn Array) -> Result<Self> {
        let nulls = nulls_of(column);
        Ok(match column.data_type() {
            DataType::Struct(_) => {
                let fields = column.as_struct().columns().iter();
                Self::Struct(nulls, fields.map(|field| Self::new(field.as_ref())).collect::<Result<_>>()?)
            }
            DataType::List(_) => {
                let list = column.as_list::<i32>();
                Self::List(nulls, list.offsets().clone(), Box::new(Self::new(list.values().as_ref())?))
            }
            DataType::Map(_, _) => {
                let map = column.as_map();
                let pair = (Self::new(map.keys().as_ref())?, Self::new(map.values().as_ref())?);
                Self::Map(nulls, map.offsets().clone(), Box::new(pair))
            }
            _ => Self::Leaf(Cells::of_leaf(column)?),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Leaf(cells) => cells.is_null(row),
            Self::Struct(nulls, _) | Self::List(nulls, ..) | Self::Map(nulls, ..) => {
                nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
            }
        }
    }

    /// Append the bytes of a cell that is not null.
    fn spell(&self, row: usize, bytes: &mut Vec<u8>) {
        match self {
            Self::Leaf(cells) => spell_leaf(&cells.cell(row), bytes),
            Self::Struct(_, fields) => fields.iter().for_each(|field| field.spell_inner(row, bytes)),
            Self::List(_, offsets, items) => {
                let rows = bounds(offsets, row);
                spell_length(rows.len(), bytes);
                rows.for_each(|item| items.spell_inner(item, bytes));
            }
            Self::Map(_, offsets, pair) => {
                let rows = bounds(offsets, row);
                spell_length(rows.len(), bytes);
                for entry in rows {
                    pair.0.spell_inner(entry, bytes);
                    pair.1.spell_inner(entry, bytes);
                }
            }
        }
    }

    /// Append the bytes of a field, an item, or a key or value of an entry.
    fn spell_inner(&self, row: usize, bytes: &mut Vec<u8>) {
        if self.is_null(row) {
            bytes.push(NULL);
        } else {
            bytes.push(VALUE);
            self.spell(row, bytes);
        }
    }

    fn spelled_inner(&self, row: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.spell_inner(row, &mut bytes);
        bytes
    }
}

fn spell_leaf(cell: &Cell<'_>, bytes: &mut Vec<u8>) {
    match cell {
        Cell::Null => {}
        Cell::Bit(bit) => bytes.push(*bit),
        Cell::Word(word) => bytes.extend(word.to_le_bytes()),
        Cell::Wide(wide) => bytes.extend(wide.to_le_bytes()),
        Cell::Bytes(text) => {
            spell_length(text.len(), bytes);
            bytes.extend_from_slice(text);
        }
    }
}

/// Append a length as four little-endian bytes, which is enough for Arrow's 32-bit offsets.
fn spell_length(length: usize, bytes: &mut Vec<u8>) {
    bytes.extend((length as u32).to_le_bytes());
}

/// Return the item rows of list `row`. Offsets of a valid array are never negative.
fn bounds(offsets: &OffsetBuffer<i32>, row: usize) -> std::ops::Range<usize> {
    offsets[row].cast_unsigned() as usize..offsets[row + 1].cast_unsigned() as usize
}
