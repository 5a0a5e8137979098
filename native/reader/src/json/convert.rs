//! Columns from the tokens of JSON values.
//!
//! A type accepts only the tokens that it accepts in Spark: a number is a number or a string, but a string is no number. INVARIANT: a value at any depth that does not fit marks the record that it belongs to.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray, make_array};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields};

use super::tape::{Kind, Node};
use super::texts::{base64, unescape};
use crate::error::{ReadError, Result};
use crate::text::column::{Column, Texts, internal};
use crate::text::number::integer;
use crate::time::Times;

/// No value: the name is missing.
pub(super) const NONE: u32 = u32::MAX;

/// The tokens of some records, and what is made of them.
pub(super) struct Values<'a> {
    pub(super) data: &'a [u8],
    pub(super) tape: &'a [Node],
    pub(super) times: &'a Times,
    /// Whether a string such as `"NaN"` is a number.
    pub(super) non_numeric: bool,
}

/// Values of one column, or of one field of a nested column.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    /// Where each value is in the tape; `NONE` if there is none.
    pub(super) at: &'a [u32],
    /// The record that each value belongs to.
    pub(super) rows: &'a [u32],
}

/// Called with each record that does not fit.
pub(super) type Misfit<'a> = dyn FnMut(usize) + 'a;

/// Texts of scalar values, as their column reads them.
struct Scalars<'a> {
    data: &'a [u8],
    side: Vec<u8>,
    texts: Vec<Text>,
}

#[derive(Clone, Copy)]
enum Text {
    Null,
    Data(u32, u32),
    Side(u32, u32),
    Micros(i64),
}

impl Texts for Scalars<'_> {
    fn len(&self) -> usize {
        self.texts.len()
    }

    fn text(&self, row: usize) -> Option<&[u8]> {
        match self.texts[row] {
            Text::Null | Text::Micros(_) => None,
            Text::Data(start, end) => Some(&self.data[start as usize..end as usize]),
            Text::Side(start, end) => Some(&self.side[start as usize..end as usize]),
        }
    }

    fn micros(&self, row: usize) -> Option<i64> {
        match self.texts[row] {
            Text::Micros(micros) => Some(micros),
            _ => None,
        }
    }
}

impl Values<'_> {
    /// Append scalar values to a column.
    pub(super) fn append(&self, column: &mut Column, field: &Field, places: Places<'_>, misfit: &mut Misfit<'_>) {
        let scalars = self.scalars(field.data_type(), places, misfit);
        column.append(&scalars, self.times, |place| misfit(places.rows[place] as usize));
    }

    /// Return values as an array of a field's type.
    pub(super) fn array(&self, field: &Field, places: Places<'_>, misfit: &mut Misfit<'_>) -> Result<ArrayRef> {
        if !field.is_nullable() {
            for (at, row) in places.at.iter().zip(places.rows) {
                if self.is_null(*at) {
                    misfit(*row as usize);
                }
            }
        }
        let array = match field.data_type() {
            DataType::Struct(fields) => self.structs(fields, places, misfit)?,
            DataType::List(item) => self.lists(item, places, misfit)?,
            DataType::Map(entries, _) => self.maps(entries, places, misfit)?,
            _ => {
                let mut column = Column::new(&field.clone().with_nullable(true))?;
                self.append(&mut column, field, places, misfit);
                column.finish()?
            }
        };
        if field.is_nullable() { Ok(array) } else { without_nulls(array) }
    }

    fn is_null(&self, at: u32) -> bool {
        at == NONE || self.tape[at as usize].kind == Kind::Null
    }

    fn scalars(&self, kind: &DataType, places: Places<'_>, misfit: &mut Misfit<'_>) -> Scalars<'_> {
        let mut made = Scalars { data: self.data, side: Vec::new(), texts: Vec::with_capacity(places.at.len()) };
        let usual = usual(kind);
        for (at, row) in places.at.iter().zip(places.rows) {
            let text = match self.tape.get(*at as usize).copied() {
                Some(node) if Some(node.kind) == usual => Some(Text::Data(node.start, node.end)),
                Some(node) if node.kind != Kind::Null => self.scalar(node, kind, &mut made.side),
                _ => Some(Text::Null),
            };
            if text.is_none() {
                misfit(*row as usize);
            }
            made.texts.push(text.unwrap_or(Text::Null));
        }
        made
    }

    /// Return the text of a token for a column of a type, or `None` if the type does not take such a token.
    fn scalar(&self, node: Node, kind: &DataType, side: &mut Vec<u8>) -> Option<Text> {
        use DataType as T;
        let plain = Text::Data(node.start, node.end);
        match (kind, node.kind) {
            (T::Utf8, Kind::Escaped) => unescaped(node.text(self.data), side),
            (T::Utf8, _) => Some(plain),
            (T::Boolean, Kind::True | Kind::False) => Some(plain),
            (T::Int8 | T::Int16 | T::Int32 | T::Int64, Kind::Number) => Some(plain),
            (T::Float32 | T::Float64, Kind::Number) => Some(plain),
            (T::Float32 | T::Float64, Kind::NotFinite | Kind::Plain) if self.non_numeric => {
                not_finite(node.text(self.data), plain, side)
            }
            (T::Decimal128(_, _), Kind::Number | Kind::Plain) => Some(plain),
            (T::Binary, Kind::Plain) => decoded(node.text(self.data), side),
            (T::Binary, Kind::Escaped) => {
                let mut text = Vec::new();
                if unescape(node.text(self.data), &mut text) { decoded(&text, side) } else { None }
            }
            (T::Timestamp(_, Some(_)), Kind::Number) => {
                let seconds = integer(node.text(self.data), i64::MIN, i64::MAX)?;
                let micros = seconds.checked_mul(1_000_000).filter(|micros| crate::time::is_in_bounds(*micros))?;
                Some(Text::Micros(micros))
            }
            (T::Date32 | T::Timestamp(_, _), Kind::Plain) => Some(plain),
            (T::Date32 | T::Timestamp(_, _), Kind::Escaped) => unescaped(node.text(self.data), side),
            _ => None,
        }
    }

    fn structs(&self, fields: &Fields, places: Places<'_>, misfit: &mut Misfit<'_>) -> Result<ArrayRef> {
        let names: Vec<&[u8]> = fields.iter().map(|field| field.name().as_bytes()).collect();
        let mut children = vec![vec![NONE; places.at.len()]; fields.len()];
        let mut valid = Vec::with_capacity(places.at.len());
        let mut name = Vec::new();
        for (place, (at, row)) in places.at.iter().zip(places.rows).enumerate() {
            let is_object = !self.is_null(*at) && self.tape[*at as usize].kind == Kind::Object;
            if is_object {
                for (key, value) in self.pairs(*at) {
                    if let Some(found) = names.iter().position(|wanted| *wanted == self.key(key, &mut name)) {
                        children[found][place] = value;
                    }
                }
            } else if !self.is_null(*at) {
                misfit(*row as usize);
            }
            valid.push(is_object);
        }
        let mut arrays = Vec::with_capacity(fields.len());
        for (field, at) in fields.iter().zip(&children) {
            let nullable = field.as_ref().clone().with_nullable(true);
            let mut array = self.array(&nullable, Places { at, rows: places.rows }, misfit)?;
            if !field.is_nullable() {
                self.require(&array, &valid, places.rows, misfit);
                array = without_nulls(array)?;
            }
            arrays.push(array);
        }
        let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
        Ok(Arc::new(StructArray::try_new(fields.clone(), arrays, nulls).map_err(internal)?))
    }

    fn require(&self, array: &ArrayRef, valid: &[bool], rows: &[u32], misfit: &mut Misfit<'_>) {
        for place in (0..array.len()).filter(|place| valid[*place] && array.is_null(*place)) {
            misfit(rows[place] as usize);
        }
    }

    fn lists(&self, item: &FieldRef, places: Places<'_>, misfit: &mut Misfit<'_>) -> Result<ArrayRef> {
        let (mut at, mut rows, mut ends, mut valid) = (Vec::new(), Vec::new(), vec![0i32], Vec::new());
        for (place, row) in places.at.iter().zip(places.rows) {
            let is_array = !self.is_null(*place) && self.tape[*place as usize].kind == Kind::Array;
            if is_array {
                for element in self.children(*place) {
                    at.push(element);
                    rows.push(*row);
                }
            } else if !self.is_null(*place) {
                misfit(*row as usize);
            }
            valid.push(is_array);
            ends.push(i32::try_from(at.len()).map_err(|_| too_many())?);
        }
        let items = self.array(item, Places { at: &at, rows: &rows }, misfit)?;
        let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        Ok(Arc::new(ListArray::try_new(Arc::clone(item), ends, items, nulls).map_err(internal)?))
    }

    fn maps(&self, entries: &FieldRef, places: Places<'_>, misfit: &mut Misfit<'_>) -> Result<ArrayRef> {
        let DataType::Struct(pair) = entries.data_type() else { return Err(too_many()) };
        let [key, value] = &pair[..] else { return Err(too_many()) };
        let (mut keys, mut at, mut rows, mut ends, mut valid) =
            (Vec::new(), Vec::new(), Vec::new(), vec![0i32], Vec::new());
        for (place, row) in places.at.iter().zip(places.rows) {
            let is_object = !self.is_null(*place) && self.tape[*place as usize].kind == Kind::Object;
            if is_object {
                for (key, value) in self.distinct(*place) {
                    keys.push(key);
                    at.push(value);
                    rows.push(*row);
                }
            } else if !self.is_null(*place) {
                misfit(*row as usize);
            }
            valid.push(is_object);
            ends.push(i32::try_from(at.len()).map_err(|_| too_many())?);
        }
        let mut names = Column::new(&key.as_ref().clone().with_nullable(true))?;
        let texts = self.names(&keys, &rows, misfit);
        names.append(&texts, self.times, |place| misfit(rows[place] as usize));
        let keys = without_nulls(names.finish()?)?;
        let values = self.array(value, Places { at: &at, rows: &rows }, misfit)?;
        let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
        let pairs = StructArray::try_new(pair.clone(), vec![keys, values], None).map_err(internal)?;
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        Ok(Arc::new(MapArray::try_new(Arc::clone(entries), ends, pairs, nulls, false).map_err(internal)?))
    }

    /// The texts of names. One that is no text makes its record a misfit.
    fn names(&self, keys: &[u32], rows: &[u32], misfit: &mut Misfit<'_>) -> Scalars<'_> {
        let mut made = Scalars { data: self.data, side: Vec::new(), texts: Vec::with_capacity(keys.len()) };
        for (key, row) in keys.iter().zip(rows) {
            let node = self.tape[*key as usize];
            let text = match node.kind {
                Kind::Escaped => unescaped(node.text(self.data), &mut made.side),
                _ => Some(Text::Data(node.start, node.end)),
            };
            if text.is_none() {
                misfit(*row as usize);
            }
            made.texts.push(text.unwrap_or(Text::Data(0, 0)));
        }
        made
    }

    /// The pairs of an object, of equal names the last.
    pub(super) fn distinct(&self, at: u32) -> Vec<(u32, u32)> {
        let pairs: Vec<(u32, u32)> = self.pairs(at).collect();
        let mut last = std::collections::HashMap::new();
        for (place, (key, _)) in pairs.iter().enumerate() {
            let mut name = Vec::new();
            last.insert(self.key(*key, &mut name).to_vec(), place);
        }
        let mut kept: Vec<usize> = last.into_values().collect();
        kept.sort_unstable();
        kept.into_iter().map(|place| pairs[place]).collect()
    }

    /// The name that a token is; `made` is used for one with escapes. A name that is no text, because a surrogate stands
    /// alone, stays as it is written: with its backslash it is no other name.
    pub(super) fn key<'b>(&'b self, at: u32, made: &'b mut Vec<u8>) -> &'b [u8] {
        let node = self.tape[at as usize];
        let written = node.text(self.data);
        if node.kind != Kind::Escaped {
            return written;
        }
        made.clear();
        if unescape(written, made) { made } else { written }
    }

    /// The names and values of an object.
    pub(super) fn pairs(&self, at: u32) -> impl Iterator<Item = (u32, u32)> {
        let end = self.tape[at as usize].next;
        let mut next = at + 1;
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let pair = (next, next + 1);
                next = self.tape[pair.1 as usize].next;
                pair
            })
        })
    }

    /// The elements of an array.
    pub(super) fn children(&self, at: u32) -> impl Iterator<Item = u32> {
        let end = self.tape[at as usize].next;
        let mut next = at + 1;
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let found = next;
                next = self.tape[found as usize].next;
                found
            })
        })
    }
}

/// The kind of token that most values of a type are, if its text is read as it is.
fn usual(kind: &DataType) -> Option<Kind> {
    use DataType as T;
    match kind {
        T::Boolean => Some(Kind::True),
        T::Utf8 | T::Date32 | T::Timestamp(_, _) => Some(Kind::Plain),
        T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::Float32 | T::Float64 | T::Decimal128(_, _) => Some(Kind::Number),
        _ => None,
    }
}

/// Return an array of which no value is null. Those that were belong to records that are rejected.
fn without_nulls(array: ArrayRef) -> Result<ArrayRef> {
    if array.null_count() == 0 {
        return Ok(array);
    }
    Ok(make_array(array.to_data().into_builder().nulls(None).build().map_err(internal)?))
}

fn too_many() -> ReadError {
    ReadError::Internal("a batch of JSON has more than 2,147,483,647 elements, or a map has no pairs".into())
}

fn unescaped(text: &[u8], side: &mut Vec<u8>) -> Option<Text> {
    let start = side.len();
    if unescape(text, side) {
        return Some(in_side(start, side.len()));
    }
    side.truncate(start);
    None
}

fn decoded(text: &[u8], side: &mut Vec<u8>) -> Option<Text> {
    let start = side.len();
    if base64(text, side) {
        return Some(in_side(start, side.len()));
    }
    side.truncate(start);
    None
}

#[expect(clippy::cast_possible_truncation, reason = "batches are below 1 GiB")]
fn in_side(start: usize, end: usize) -> Text {
    Text::Side(start as u32, end as u32)
}

/// Return the text of a name of what is not finite, in the spelling that numbers have.
fn not_finite(text: &[u8], plain: Text, side: &mut Vec<u8>) -> Option<Text> {
    let infinite: &[u8] = match text {
        b"NaN" | b"Infinity" | b"-Infinity" => return Some(plain),
        b"+Infinity" | b"INF" | b"+INF" => b"Infinity",
        b"-INF" => b"-Infinity",
        _ => return None,
    };
    let start = side.len();
    side.extend_from_slice(infinite);
    Some(in_side(start, side.len()))
}
