//! Decodes the cells of a column to Python objects one by one. The type is examined only once, when a decoder is made.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, BinaryArray, StringArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::decimal;
use super::kind::{Field, Kind, Record};
use super::look::MapLook;
use super::time::{self, Zone};

/// The cells of one column.
pub(crate) struct Decoder {
    nulls: Option<NullBuffer>,
    cells: Cells,
}

enum Cells {
    Bool(BooleanBuffer),
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    Float32(ScalarBuffer<f32>),
    Float64(ScalarBuffer<f64>),
    Decimal(ScalarBuffer<i128>, i8),
    Text(StringArray),
    Binary(BinaryArray),
    Date(ScalarBuffer<i32>),
    Timestamp(ScalarBuffer<i64>),
    TimestampNtz(ScalarBuffer<i64>),
    List(OffsetBuffer<i32>, Box<Decoder>),
    Map(OffsetBuffer<i32>, Box<(Decoder, Decoder)>, MapLook),
    Struct(Vec<Decoder>, Arc<Record>),
}

impl Decoder {
    /// Make a decoder for `column`, which has the field's type.
    pub(crate) fn new(column: &ArrayRef, field: &Field) -> Self {
        Self { nulls: column.logical_nulls().filter(|nulls| nulls.null_count() > 0), cells: Cells::new(column, field) }
    }

    /// Decode cell `row`.
    #[inline]
    pub(crate) fn get<'py>(&self, py: Python<'py>, row: usize, zone: &Zone) -> PyResult<Bound<'py, PyAny>> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(py.None().into_bound(py));
        }
        self.cells.get(py, row, zone)
    }

    /// Decode cell `row` of each column to a tuple.
    pub(crate) fn tuple<'py>(
        columns: &[Self],
        py: Python<'py>,
        row: usize,
        zone: &Zone,
    ) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, columns.iter().map(|column| Cell { column, row, zone }))
    }

    /// Decode cell `row` to a key: a scalar for one column, a tuple for several.
    #[inline]
    pub(crate) fn key<'py>(columns: &[Self], py: Python<'py>, row: usize, zone: &Zone) -> PyResult<Bound<'py, PyAny>> {
        match columns {
            [only] => only.get(py, row, zone),
            columns => Ok(Self::tuple(columns, py, row, zone)?.into_any()),
        }
    }

    /// Decode cell `row` of each column to an object of the record.
    pub(crate) fn record<'py>(
        columns: &[Self],
        record: &Record,
        py: Python<'py>,
        row: usize,
        zone: &Zone,
    ) -> PyResult<Bound<'py, PyAny>> {
        record.make(&Self::tuple(columns, py, row, zone)?)
    }
}

/// A cell that is decoded when a tuple or list is built.
struct Cell<'c> {
    column: &'c Decoder,
    row: usize,
    zone: &'c Zone,
}

impl<'py> IntoPyObject<'py> for Cell<'_> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        self.column.get(py, self.row, self.zone)
    }
}

impl Cells {
    fn new(column: &ArrayRef, field: &Field) -> Self {
        match (column.data_type(), &field.kind) {
            (DataType::Int8, _) => Self::Int8(column.as_primitive::<Int8Type>().values().clone()),
            (DataType::Int16, _) => Self::Int16(column.as_primitive::<Int16Type>().values().clone()),
            (DataType::Int32, _) => Self::Int32(column.as_primitive::<Int32Type>().values().clone()),
            (_, Kind::Int(..)) => Self::Int64(column.as_primitive::<Int64Type>().values().clone()),
            (_, Kind::Bool) => Self::Bool(column.as_boolean().values().clone()),
            (_, Kind::Float32) => Self::Float32(column.as_primitive::<Float32Type>().values().clone()),
            (_, Kind::Float64) => Self::Float64(column.as_primitive::<Float64Type>().values().clone()),
            (_, Kind::Decimal(_, scale)) => {
                Self::Decimal(column.as_primitive::<Decimal128Type>().values().clone(), *scale)
            }
            (_, Kind::Text) => Self::Text(column.as_string::<i32>().clone()),
            (_, Kind::Binary) => Self::Binary(column.as_binary::<i32>().clone()),
            (_, Kind::Date) => Self::Date(column.as_primitive::<Date32Type>().values().clone()),
            (_, Kind::Timestamp) => Self::Timestamp(column.as_primitive::<TimestampMicrosecondType>().values().clone()),
            (_, Kind::TimestampNtz) => {
                Self::TimestampNtz(column.as_primitive::<TimestampMicrosecondType>().values().clone())
            }
            (_, Kind::List(item)) => {
                let list = column.as_list::<i32>();
                Self::List(list.offsets().clone(), Box::new(Decoder::new(list.values(), item)))
            }
            (_, Kind::Map(key, value, look)) => {
                let map = column.as_map();
                let pair = (Decoder::new(map.keys(), key), Decoder::new(map.values(), value));
                Self::Map(map.offsets().clone(), Box::new(pair), *look)
            }
            (_, Kind::Struct(record)) => {
                let columns = column.as_struct().columns();
                let columns = columns.iter().zip(&record.fields).map(|(column, field)| Decoder::new(column, field));
                Self::Struct(columns.collect(), Arc::clone(record))
            }
        }
    }

    #[inline]
    fn get<'py>(&self, py: Python<'py>, row: usize, zone: &Zone) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Self::Bool(values) => PyBool::new(py, values.value(row)).to_owned().into_any(),
            Self::Int8(values) => PyInt::new(py, values[row]).into_any(),
            Self::Int16(values) => PyInt::new(py, values[row]).into_any(),
            Self::Int32(values) => PyInt::new(py, values[row]).into_any(),
            Self::Int64(values) => PyInt::new(py, values[row]).into_any(),
            Self::Float32(values) => PyFloat::new(py, f64::from(values[row])).into_any(),
            Self::Float64(values) => PyFloat::new(py, values[row]).into_any(),
            Self::Decimal(values, scale) => decimal::shown(py, values[row], *scale)?,
            Self::Text(values) => PyString::new(py, values.value(row)).into_any(),
            Self::Binary(values) => PyBytes::new(py, values.value(row)).into_any(),
            Self::Date(values) => time::date(py, i64::from(values[row]))?,
            Self::Timestamp(values) => zone.instant(py, values[row])?,
            Self::TimestampNtz(values) => time::naive(py, values[row], false)?,
            Self::List(offsets, column) => {
                let cells = bounds(offsets, row).map(|row| Cell { column, row, zone });
                PyList::new(py, cells)?.into_any()
            }
            Self::Map(offsets, pair, MapLook::Pairs) => {
                let pairs = bounds(offsets, row).map(|row| [&pair.0, &pair.1].map(|column| Cell { column, row, zone }));
                PyList::new(py, pairs.map(|pair| PyTuple::new(py, pair)).collect::<PyResult<Vec<_>>>()?)?.into_any()
            }
            Self::Map(offsets, pair, MapLook::Dict) => {
                let dict = PyDict::new(py);
                for row in bounds(offsets, row) {
                    dict.set_item(pair.0.get(py, row, zone)?, pair.1.get(py, row, zone)?)?;
                }
                dict.into_any()
            }
            Self::Struct(columns, record) => Decoder::record(columns, record, py, row, zone)?,
        })
    }
}

/// Return the item rows of list `row`. Offsets of a valid array are never negative.
fn bounds(offsets: &OffsetBuffer<i32>, row: usize) -> std::ops::Range<usize> {
    offsets[row].cast_unsigned() as usize..offsets[row + 1].cast_unsigned() as usize
}
