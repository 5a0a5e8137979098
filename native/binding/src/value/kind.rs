//! Types as the binding sees them: an Arrow type, what Python has for it, and how it is spelled in messages.

use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, TimeUnit};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};

use super::look::{Look, MapLook};
use super::record::Record;
use crate::error::invalid;

/// A column or a nested field.
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) nullable: bool,
    pub(crate) data_type: DataType,
    pub(crate) kind: Kind,
}

/// What kind of cells a type has.
pub(crate) enum Kind {
    Bool,
    /// The least and the greatest number that fits.
    Int(i64, i64),
    Float32,
    Float64,
    Decimal(u8, i8),
    Text,
    Binary,
    Date,
    /// An instant; shown as a datetime in the pipeline's time zone, naive or aware as the `Zone` has it.
    Timestamp,
    /// A naive datetime.
    TimestampNtz,
    List(Box<Field>),
    /// A dict, or a list of pairs.
    Map(Box<Field>, Box<Field>, MapLook),
    Struct(Arc<Record>),
}

impl Field {
    /// The field; structs in it are shown as `Row`s, maps as dicts.
    pub(crate) fn new(py: Python<'_>, field: &ArrowField) -> PyResult<Self> {
        Self::looking(py, field, &Look::Rows)
    }

    /// The field; structs and maps in it are shown as `look` has it.
    pub(crate) fn looking(py: Python<'_>, field: &ArrowField, look: &Look<'_>) -> PyResult<Self> {
        let kind = Kind::new(py, field, look)?;
        let (name, data_type) = (field.name().clone(), field.data_type().clone());
        Ok(Self { name, nullable: field.is_nullable(), data_type, kind })
    }

    /// The type as users write it.
    pub(crate) fn ddl(&self) -> String {
        let not_null = if self.nullable { "" } else { " not null" };
        format!("{}{not_null}", tidemill_core::ddl::ddl(&self.data_type))
    }
}

impl Kind {
    fn new(py: Python<'_>, field: &ArrowField, look: &Look<'_>) -> PyResult<Self> {
        Ok(match field.data_type() {
            DataType::Boolean => Self::Bool,
            DataType::Int8 => Self::Int(i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => Self::Int(i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => Self::Int(i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => Self::Int(i64::MIN, i64::MAX),
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Decimal128(precision, scale) => Self::Decimal(*precision, *scale),
            DataType::Utf8 => Self::Text,
            DataType::Binary => Self::Binary,
            DataType::Date32 => Self::Date,
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => Self::Timestamp,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Self::TimestampNtz,
            DataType::List(item) => Self::List(Box::new(Field::looking(py, item, look)?)),
            DataType::Struct(fields) => Self::Struct(Arc::new(Record::nested(py, fields, look)?)),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(pair) if pair.len() == 2 => {
                    let key = Field::looking(py, &pair[0], &look.of_map_keys())?;
                    if look.maps() == MapLook::Dict && !key.kind.is_frozen() {
                        return Err(no_dict(py, field));
                    }
                    Self::Map(Box::new(key), Box::new(Field::looking(py, &pair[1], look)?), look.maps())
                }
                other => return Err(unknown(py, field.name(), other)),
            },
            other => return Err(unknown(py, field.name(), other)),
        })
    }

    /// Whether `object` is the very object that would be made of its value, but for its place in memory.
    pub(super) fn is_shown_as(&self, object: &Bound<'_, PyAny>) -> bool {
        match self {
            Self::Float64 => object.is_exact_instance_of::<PyFloat>(),
            Self::Int(..) => object.is_exact_instance_of::<PyInt>(),
            Self::Text => object.is_exact_instance_of::<PyString>(),
            _ => false,
        }
    }

    /// Whether its objects cannot be changed by who is given them.
    pub(crate) fn is_frozen(&self) -> bool {
        match self {
            Self::List(_) | Self::Map(..) => false,
            Self::Struct(record) => record.is_frozen(),
            _ => true,
        }
    }
}

/// PySpark fails too, when it hands out the first such map.
fn no_dict(py: Python<'_>, field: &ArrowField) -> PyErr {
    let found = tidemill_core::ddl::ddl(field.data_type());
    invalid(
        py,
        &format!(
            "column `{}` has type {found}, which cannot be passed to Python functions, because lists and dicts cannot \
             be the keys of a dict\nhint: key the map by a struct of plain fields, or by text",
            field.name()
        ),
    )
}

fn unknown(py: Python<'_>, name: &str, found: &DataType) -> PyErr {
    invalid(py, &format!("column `{name}` has type {found}, which cannot be passed to Python functions"))
}
