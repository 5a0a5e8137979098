//! Types: fields and rows with their Arrow type, their Python side, and their spelling in messages.
//!
//! A row has fields, and a field may have rows as its cells, so both types are in this file.

use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, FieldRef, Fields, TimeUnit};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString, PyTuple, PyType};

use super::class::{Class, nested_classes};
use super::look::{Look, MapLook, OtherNames};
use crate::error::invalid;

/// A column or a nested field.
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) nullable: bool,
    pub(crate) data_type: DataType,
    pub(crate) kind: Kind,
}

/// The kind of cells that a type has.
pub(crate) enum Kind {
    Bool,
    /// The least and the greatest number that fit.
    Int(i64, i64),
    Float32,
    Float64,
    Decimal(u8, i8),
    Text,
    Binary,
    Date,
    /// An instant, shown as a datetime in the pipeline's time zone. The `Zone` says whether it is naive or aware.
    Timestamp,
    /// A naive datetime.
    TimestampNtz,
    List(Box<Field>),
    /// A dict, or a list of pairs.
    Map(Box<Field>, Box<Field>, MapLook),
    Struct(Arc<Record>),
}

/// A row: fields with names.
pub(crate) struct Record {
    pub(crate) fields: Vec<Field>,
    pub(super) names: Vec<Py<PyString>>,
    pub(super) class: Class,
    pub(super) others: OtherNames,
}

impl Field {
    /// Make a field. Structs in it are shown as `Row`s, maps as dicts.
    pub(crate) fn new(py: Python<'_>, field: &ArrowField) -> PyResult<Self> {
        Self::with_look(py, field, &Look::Rows)
    }

    /// Make a field. `look` says how structs and maps in it are shown.
    pub(crate) fn with_look(py: Python<'_>, field: &ArrowField, look: &Look<'_>) -> PyResult<Self> {
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
            DataType::List(item) => Self::List(Box::new(Field::with_look(py, item, look)?)),
            DataType::Struct(fields) => Self::Struct(Arc::new(Record::nested(py, fields, look)?)),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(pair) if pair.len() == 2 => {
                    let key = Field::with_look(py, &pair[0], &look.of_map_keys())?;
                    if look.maps() == MapLook::Dict && !key.kind.is_frozen() {
                        return Err(no_dict(py, field));
                    }
                    Self::Map(Box::new(key), Box::new(Field::with_look(py, &pair[1], look)?), look.maps())
                }
                other => return Err(unknown(py, field.name(), other)),
            },
            other => return Err(unknown(py, field.name(), other)),
        })
    }

    /// Whether `object` equals, in type and value, the object that would be made for its value.
    pub(super) fn is_shown_as(&self, object: &Bound<'_, PyAny>) -> bool {
        match self {
            Self::Float64 => object.is_exact_instance_of::<PyFloat>(),
            Self::Int(..) => object.is_exact_instance_of::<PyInt>(),
            Self::Text => object.is_exact_instance_of::<PyString>(),
            _ => false,
        }
    }

    /// Whether its objects are immutable.
    pub(crate) fn is_frozen(&self) -> bool {
        match self {
            Self::List(_) | Self::Map(..) => false,
            Self::Struct(record) => record.is_frozen(),
            _ => true,
        }
    }
}

impl Record {
    /// Make a record of these fields, shown as `class` (a dataclass) or as a `Row`.
    pub(crate) fn new(py: Python<'_>, fields: &Fields, class: Option<&Bound<'_, PyType>>) -> PyResult<Self> {
        let nested = nested_classes(py, class)?;
        let class = match class {
            Some(class) => Class::dataclass(class, fields)?,
            None => Class::row(py, fields)?,
        };
        Self::of(py, fields, class, OtherNames::Refused, |field| {
            let class = nested.as_ref().map(|nested| nested.get_item(field)).transpose()?.flatten();
            Ok(Look::of_class(class.map(Bound::cast_into::<PyType>).transpose()?))
        })
    }

    /// Make a record for rows that a processor emits: a `Row` may have more names than there are fields.
    pub(crate) fn emitted(py: Python<'_>, fields: &Fields) -> PyResult<Self> {
        Self::nested(py, fields, &Look::Emitted)
    }

    /// Make a record that is shown as a plain tuple and read by position only.
    pub(crate) fn placed(py: Python<'_>, fields: &Fields) -> PyResult<Self> {
        Ok(Self::nested(py, fields, &Look::Placed)?.into_tuple())
    }

    /// Make a record of these fields, shown as a `Row` with Arrow's types.
    pub(crate) fn of_arrow(py: Python<'_>, fields: &Fields) -> PyResult<Self> {
        Self::of(py, fields, Class::row(py, fields)?, OtherNames::Refused, |_| Ok(Look::Arrow))
    }

    /// Make a nested record, shown according to `look`.
    pub(super) fn nested(py: Python<'_>, fields: &Fields, look: &Look<'_>) -> PyResult<Self> {
        match look {
            Look::Rows => Self::new(py, fields, None),
            Look::Dataclass(class) => Self::new(py, fields, Some(class)),
            Look::Arrow => Self::of(py, fields, Class::Dict, look.other_names(), |_| Ok(Look::Arrow)),
            Look::Placed => Self::of(py, fields, Class::row(py, fields)?, look.other_names(), |_| Ok(Look::Placed)),
            Look::Emitted => Self::of(py, fields, Class::row(py, fields)?, look.other_names(), |_| Ok(Look::Emitted)),
        }
    }

    fn of<'py>(
        py: Python<'py>,
        fields: &Fields,
        class: Class,
        others: OtherNames,
        look: impl Fn(&str) -> PyResult<Look<'py>>,
    ) -> PyResult<Self> {
        let names = fields.iter().map(|field| PyString::intern(py, field.name()).unbind()).collect();
        let field = |field: &FieldRef| Field::with_look(py, field, &look(field.name())?);
        Ok(Self { fields: fields.iter().map(field).collect::<PyResult<_>>()?, names, class, others })
    }

    /// Return the same record, shown as a plain tuple and read by position only.
    pub(crate) fn into_tuple(self) -> Self {
        Self { class: Class::Tuple, ..self }
    }

    /// Whether its objects are immutable.
    pub(super) fn is_frozen(&self) -> bool {
        matches!(self.class, Class::Row(_) | Class::Tuple) && self.fields.iter().all(|field| field.kind.is_frozen())
    }

    /// Make the object with these values.
    pub(super) fn make<'py>(&self, values: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        self.class.make(&self.names, values)
    }
}

/// PySpark fails as well, at the first such map.
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
