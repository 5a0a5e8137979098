//! The shape of columns as one Python object: a scalar for one unnamed column, otherwise a row.

use arrow_array::ArrayRef;
use arrow_schema::{Fields, Schema};
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::kind::{Field, Record};
use super::parse::{parse, parse_field, parse_record};
use super::refused::Refused;
use super::show::{show, show_record};
use super::{Builder, Decoder, Value, Zone};
use crate::error::invalid;

/// How a function sees columns.
pub(crate) enum Shape {
    Scalar(Field),
    Record(Record),
}

impl Shape {
    /// Make a scalar for one unnamed column, otherwise a `Row`, or with `class` an instance of it.
    pub(crate) fn new(
        py: Python<'_>,
        schema: &Schema,
        is_unnamed: bool,
        class: Option<&Bound<'_, PyType>>,
    ) -> PyResult<Self> {
        if !is_unnamed {
            return Self::record(py, schema.fields(), class);
        }
        match schema.fields().as_ref() {
            [field] => Ok(Self::Scalar(Field::new(py, field)?)),
            fields => Err(invalid(py, &format!("a schema without names must have one column, found {}", fields.len()))),
        }
    }

    /// Make a row of these columns.
    pub(crate) fn record(py: Python<'_>, fields: &Fields, class: Option<&Bound<'_, PyType>>) -> PyResult<Self> {
        Ok(Self::Record(Record::new(py, fields, class)?))
    }

    /// Make a row of these columns that a processor emits: further names of a `Row` are ignored, as in Spark.
    pub(crate) fn emitted(py: Python<'_>, fields: &Fields) -> PyResult<Self> {
        Ok(Self::Record(Record::emitted(py, fields)?))
    }

    /// Make a row of these columns with Arrow's types: structs are dicts, maps are lists of pairs.
    pub(crate) fn of_arrow(py: Python<'_>, fields: &Fields) -> PyResult<Self> {
        Ok(Self::Record(Record::of_arrow(py, fields)?))
    }

    /// Make a plain tuple of these columns with Arrow's types.
    pub(crate) fn tuple_of_arrow(py: Python<'_>, fields: &Fields) -> PyResult<Self> {
        Ok(Self::Record(Record::of_arrow(py, fields)?.into_tuple()))
    }

    /// Make a plain tuple of these columns. Names are ignored.
    pub(crate) fn tuple(py: Python<'_>, fields: &Fields) -> PyResult<Self> {
        Ok(Self::Record(Record::placed(py, fields)?))
    }

    /// Whether its objects are immutable.
    pub(crate) fn is_frozen(&self) -> bool {
        match self {
            Self::Scalar(field) => field.kind.is_frozen(),
            Self::Record(record) => record.is_frozen(),
        }
    }

    /// Whether `object` can be shown for its own value: an immutable scalar of Python's own type, which is read without
    /// running user code.
    pub(crate) fn is_shown_as(&self, object: &Bound<'_, PyAny>) -> bool {
        match self {
            Self::Scalar(field) => field.kind.is_shown_as(object),
            Self::Record(_) => false,
        }
    }

    /// The number of columns.
    pub(crate) fn width(&self) -> usize {
        self.fields().len()
    }

    /// Whether such an object can be read as a row.
    pub(crate) fn is_row(object: &Bound<'_, PyAny>) -> PyResult<bool> {
        Record::takes(object)
    }

    fn fields(&self) -> &[Field] {
        match self {
            Self::Scalar(field) => std::slice::from_ref(field),
            Self::Record(record) => &record.fields,
        }
    }

    /// Make decoders for the columns.
    pub(crate) fn decoders(&self, columns: &[ArrayRef]) -> Vec<Decoder> {
        columns.iter().zip(self.fields()).map(|(column, field)| Decoder::new(column, field)).collect()
    }

    /// Make the object of one row.
    #[inline]
    pub(crate) fn decode<'py>(
        &self,
        columns: &[Decoder],
        py: Python<'py>,
        row: usize,
        zone: &Zone,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Scalar(_) => columns[0].get(py, row, zone),
            Self::Record(record) => Decoder::record(columns, record, py, row, zone),
        }
    }

    /// Parse an object to checked values. A record becomes a `Value::Struct`.
    pub(crate) fn parse(&self, object: &Bound<'_, PyAny>, zone: &Zone) -> Result<Value, Refused> {
        match self {
            Self::Scalar(field) => parse(object, field, zone),
            Self::Record(record) => parse_record(object, record, zone).map(Value::Struct),
        }
    }

    /// Make the object for values that `parse` returned.
    pub(crate) fn show<'py>(&self, py: Python<'py>, value: &Value, zone: &Zone) -> PyResult<Bound<'py, PyAny>> {
        match (self, value) {
            (Self::Scalar(field), value) => show(py, value, field, zone),
            (Self::Record(record), Value::Struct(values)) => show_record(py, values, record, zone),
            (Self::Record(_), _) => Ok(py.None().into_bound(py)),
        }
    }

    /// Make empty columns.
    pub(crate) fn builders(&self) -> Vec<Builder> {
        self.fields().iter().map(|field| Builder::new(&field.data_type)).collect()
    }

    /// Null in every column.
    pub(crate) fn nothing(&self) -> Value {
        match self {
            Self::Scalar(_) => Value::Null,
            Self::Record(record) => Value::Struct(record.fields.iter().map(|_| Value::Null).collect()),
        }
    }

    /// Add a row that `parse` returned.
    pub(crate) fn append(&self, py: Python<'_>, value: &Value, columns: &mut [Builder]) -> PyResult<()> {
        match (self, value) {
            (Self::Record(_), Value::Struct(values)) => {
                columns.iter_mut().zip(values).try_for_each(|(column, value)| column.append(py, value))
            }
            (_, value) => columns[0].append(py, value),
        }
    }

    /// Parse `object` and add it as a row. After an error the columns have different lengths and must be dropped.
    pub(crate) fn parse_into(
        &self,
        object: &Bound<'_, PyAny>,
        zone: &Zone,
        columns: &mut [Builder],
    ) -> Result<(), Refused> {
        let py = object.py();
        match self {
            Self::Scalar(field) => match columns[0].append_plain(object)? {
                true => Ok(()),
                false => Ok(columns[0].append(py, &parse(object, field, zone)?)?),
            },
            Self::Record(record) => {
                let mut columns = columns.iter_mut();
                record.spread(object, |field, item| {
                    let mut column = columns.next();
                    if let (Some(column), Some(item)) = (&mut column, item)
                        && column.append_plain(item)?
                    {
                        return Ok(());
                    }
                    let value = parse_field(item, field, zone)?;
                    column.map_or(Ok(()), |column| Ok(column.append(py, &value)?))
                })
            }
        }
    }
}
