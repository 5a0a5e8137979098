//! Builds columns cell by cell from `Value`s.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, BooleanBuilder, NullBufferBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, Float64Array, Int64Array, ListArray, MapArray, StringArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, FieldRef, Fields};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};
use tidemill_core::{Error, Result, offsets};

use super::Value;
use crate::error::Raise;

/// Builds one column.
pub(crate) struct Builder {
    data_type: DataType,
    cells: Cells,
}

enum Cells {
    Bool(BooleanBuilder),
    Int8(PrimitiveBuilder<Int8Type>),
    Int16(PrimitiveBuilder<Int16Type>),
    Int32(PrimitiveBuilder<Int32Type>),
    Int64(PrimitiveBuilder<Int64Type>),
    Float32(PrimitiveBuilder<Float32Type>),
    Float64(PrimitiveBuilder<Float64Type>),
    Decimal(PrimitiveBuilder<Decimal128Type>),
    Text(StringBuilder),
    Binary(BinaryBuilder),
    Date(PrimitiveBuilder<Date32Type>),
    Timestamp(PrimitiveBuilder<TimestampMicrosecondType>),
    List(Lists, Box<Builder>),
    Map(Lists, Box<(Builder, Builder)>),
    Struct(NullBufferBuilder, usize, Vec<Builder>),
}

/// The validity and lengths of lists.
struct Lists {
    nulls: NullBufferBuilder,
    lengths: Vec<usize>,
}

impl Builder {
    /// Start an empty column of a type that `Kind` supports.
    pub(crate) fn new(data_type: &DataType) -> Self {
        Self { data_type: data_type.clone(), cells: Cells::new(data_type) }
    }

    /// Add a cell. `value` must have been parsed as the column's type.
    #[inline]
    pub(crate) fn append(&mut self, py: Python<'_>, value: &Value) -> PyResult<()> {
        self.cells.append(py, value)
    }

    /// Parse and append in one step an object of Python's own type for a text, double or long column. Returns false,
    /// and adds nothing, for any other object.
    #[inline]
    pub(crate) fn append_plain(&mut self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        match &mut self.cells {
            Cells::Text(cells) => {
                let Some(text) = object.cast_exact::<PyString>().ok().and_then(|text| text.to_str().ok()) else {
                    return Ok(false);
                };
                check_room(object.py(), cells.values_slice(), text.as_bytes())?;
                cells.append_value(text);
            }
            Cells::Float64(cells) => {
                let Ok(value) = object.cast_exact::<PyFloat>() else { return Ok(false) };
                cells.append_value(value.value());
            }
            Cells::Int64(cells) => {
                let value = object.cast_exact::<PyInt>().ok().and_then(|value| value.extract().ok());
                let Some(value) = value else { return Ok(false) };
                cells.append_value(value);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Return the column.
    pub(crate) fn finish(mut self) -> Result<ArrayRef> {
        self.cells.finish(&self.data_type)
    }
}

/// Make a column of one cell from a value that was parsed as `data_type`. A builder would reserve memory for many
/// cells.
pub(crate) fn column_of_one(py: Python<'_>, value: &Value, data_type: &DataType) -> PyResult<ArrayRef> {
    Ok(match (data_type, value) {
        (DataType::Int64, Value::Int(value)) => Arc::new(Int64Array::new(vec![*value].into(), None)),
        (DataType::Float64, Value::Float(value)) => Arc::new(Float64Array::new(vec![*value].into(), None)),
        (DataType::Utf8, Value::Text(text)) => {
            let text = text.to_str(py)?;
            check_room(py, &[], text.as_bytes())?;
            Arc::new(StringArray::from_iter_values([text]))
        }
        _ => {
            let mut column = Builder::new(data_type);
            column.append(py, value)?;
            column.finish().raise(py)?
        }
    })
}

impl Cells {
    fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Bool(BooleanBuilder::new()),
            DataType::Int8 => Self::Int8(PrimitiveBuilder::new()),
            DataType::Int16 => Self::Int16(PrimitiveBuilder::new()),
            DataType::Int32 => Self::Int32(PrimitiveBuilder::new()),
            DataType::Float32 => Self::Float32(PrimitiveBuilder::new()),
            DataType::Float64 => Self::Float64(PrimitiveBuilder::new()),
            DataType::Decimal128(_, _) => Self::Decimal(PrimitiveBuilder::new().with_data_type(data_type.clone())),
            DataType::Utf8 => Self::Text(StringBuilder::new()),
            DataType::Binary => Self::Binary(BinaryBuilder::new()),
            DataType::Date32 => Self::Date(PrimitiveBuilder::new()),
            DataType::Timestamp(_, _) => Self::Timestamp(PrimitiveBuilder::new().with_data_type(data_type.clone())),
            DataType::List(item) => Self::List(Lists::new(), Box::new(Builder::new(item.data_type()))),
            DataType::Map(entries, _) => {
                let pair = fields_of(entries);
                Self::Map(
                    Lists::new(),
                    Box::new((Builder::new(pair[0].data_type()), Builder::new(pair[1].data_type()))),
                )
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().map(|field| Builder::new(field.data_type())).collect();
                Self::Struct(NullBufferBuilder::new(0), 0, columns)
            }
            _ => Self::Int64(PrimitiveBuilder::new()),
        }
    }

    fn append(&mut self, py: Python<'_>, value: &Value) -> PyResult<()> {
        match (self, value) {
            (Self::Bool(cells), Value::Bool(value)) => cells.append_value(*value),
            (Self::Bool(cells), _) => cells.append_null(),
            (Self::Int8(cells), value) => append_int(cells, value)?,
            (Self::Int16(cells), value) => append_int(cells, value)?,
            (Self::Int32(cells), value) => append_int(cells, value)?,
            (Self::Int64(cells), value) => append_int(cells, value)?,
            (Self::Date(cells), value) => append_int(cells, value)?,
            (Self::Timestamp(cells), value) => append_int(cells, value)?,
            (Self::Float64(cells), Value::Float(value)) => cells.append_value(*value),
            (Self::Float64(cells), _) => cells.append_null(),
            #[expect(clippy::cast_possible_truncation, reason = "a float column holds the nearest float")]
            (Self::Float32(cells), Value::Float(value)) => cells.append_value(*value as f32),
            (Self::Float32(cells), _) => cells.append_null(),
            (Self::Decimal(cells), Value::Decimal(value)) => cells.append_value(*value),
            (Self::Decimal(cells), _) => cells.append_null(),
            (Self::Text(cells), Value::Text(text)) => {
                let text = text.to_str(py)?;
                check_room(py, cells.values_slice(), text.as_bytes())?;
                cells.append_value(text);
            }
            (Self::Text(cells), _) => cells.append_null(),
            (Self::Binary(cells), Value::Bytes(bytes)) => {
                check_room(py, cells.values_slice(), bytes)?;
                cells.append_value(bytes);
            }
            (Self::Binary(cells), _) => cells.append_null(),
            (Self::List(lists, items), Value::List(values)) => {
                lists.append(Some(values.len()));
                values.iter().try_for_each(|value| items.append(py, value))?;
            }
            (Self::Map(lists, pair), Value::Map(entries)) => {
                lists.append(Some(entries.len()));
                for (key, value) in entries {
                    pair.0.append(py, key)?;
                    pair.1.append(py, value)?;
                }
            }
            (Self::List(lists, _) | Self::Map(lists, _), _) => lists.append(None),
            (Self::Struct(nulls, rows, columns), value) => {
                *rows += 1;
                append_struct(py, nulls, columns, value)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, data_type: &DataType) -> Result<ArrayRef> {
        Ok(match self {
            Self::Bool(cells) => Arc::new(cells.finish()),
            Self::Int8(cells) => Arc::new(cells.finish()),
            Self::Int16(cells) => Arc::new(cells.finish()),
            Self::Int32(cells) => Arc::new(cells.finish()),
            Self::Int64(cells) => Arc::new(cells.finish()),
            Self::Float32(cells) => Arc::new(cells.finish()),
            Self::Float64(cells) => Arc::new(cells.finish()),
            Self::Decimal(cells) => Arc::new(cells.finish()),
            Self::Text(cells) => Arc::new(cells.finish()),
            Self::Binary(cells) => Arc::new(cells.finish()),
            Self::Date(cells) => Arc::new(cells.finish()),
            Self::Timestamp(cells) => Arc::new(cells.finish()),
            Self::List(lists, items) => Arc::new(finish_list(lists, items, data_type)?),
            Self::Map(lists, pair) => Arc::new(finish_map(lists, pair, data_type)?),
            Self::Struct(nulls, rows, columns) => Arc::new(finish_struct(nulls, *rows, columns, data_type)?),
        })
    }
}

impl Lists {
    fn new() -> Self {
        Self { nulls: NullBufferBuilder::new(0), lengths: Vec::new() }
    }

    fn append(&mut self, length: Option<usize>) {
        self.nulls.append(length.is_some());
        self.lengths.push(length.unwrap_or(0));
    }

    fn offsets(&mut self) -> Result<OffsetBuffer<i32>> {
        offsets::check(self.lengths.iter().sum())?;
        Ok(OffsetBuffer::from_lengths(std::mem::take(&mut self.lengths)))
    }
}

/// Return an error instead of the panic of Arrow's builders if 32-bit offsets would overflow.
fn check_room(py: Python<'_>, there: &[u8], more: &[u8]) -> PyResult<()> {
    offsets::check(there.len() + more.len()).raise(py)
}

fn append_int<T>(cells: &mut PrimitiveBuilder<T>, value: &Value) -> PyResult<()>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i64>,
{
    match value {
        // The range was checked when the value was parsed, so this never raises.
        Value::Int(value) => match T::Native::try_from(*value) {
            Ok(value) => cells.append_value(value),
            Err(_) => return Err(PyOverflowError::new_err("a number does not fit its column")),
        },
        _ => cells.append_null(),
    }
    Ok(())
}

fn append_struct(
    py: Python<'_>,
    nulls: &mut NullBufferBuilder,
    columns: &mut [Builder],
    value: &Value,
) -> PyResult<()> {
    match value {
        Value::Struct(values) => {
            nulls.append_non_null();
            columns.iter_mut().zip(values).try_for_each(|(column, value)| column.append(py, value))
        }
        _ => {
            nulls.append_null();
            columns.iter_mut().try_for_each(|column| column.append(py, &Value::Null))
        }
    }
}

fn finish_list(lists: &mut Lists, items: &mut Builder, data_type: &DataType) -> Result<ListArray> {
    let DataType::List(item) = data_type else { return Err(mismatch(data_type)) };
    let values = items.cells.finish(&items.data_type)?;
    Ok(ListArray::try_new(item.clone(), lists.offsets()?, values, lists.nulls.finish())?)
}

fn finish_map(lists: &mut Lists, pair: &mut (Builder, Builder), data_type: &DataType) -> Result<MapArray> {
    let DataType::Map(entries, ordered) = data_type else { return Err(mismatch(data_type)) };
    let columns = vec![pair.0.cells.finish(&pair.0.data_type)?, pair.1.cells.finish(&pair.1.data_type)?];
    let rows = StructArray::try_new(fields_of(entries), columns, None)?;
    Ok(MapArray::try_new(entries.clone(), lists.offsets()?, rows, lists.nulls.finish(), *ordered)?)
}

fn finish_struct(
    nulls: &mut NullBufferBuilder,
    rows: usize,
    columns: &mut [Builder],
    data_type: &DataType,
) -> Result<StructArray> {
    let DataType::Struct(fields) = data_type else { return Err(mismatch(data_type)) };
    let columns = columns.iter_mut().map(|column| column.cells.finish(&column.data_type)).collect::<Result<_>>()?;
    Ok(StructArray::try_new_with_length(fields.clone(), columns, nulls.finish(), rows)?)
}

fn fields_of(entries: &FieldRef) -> Fields {
    match entries.data_type() {
        DataType::Struct(fields) => fields.clone(),
        _ => Fields::empty(),
    }
}

fn mismatch(data_type: &DataType) -> Error {
    Error::InternalError(format!("a column of {data_type} was built as another type"))
}
