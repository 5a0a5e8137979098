//! Makes Python objects from `Value`s, for example when a function reads a state that it has just updated.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyTuple};

use tidemill_core::Error;

use super::Value;
use super::decimal;
use super::kind::{Field, Kind, Record};
use super::look::MapLook;
use super::time::{self, Zone};
use crate::error::to_python;

/// Make the object for `value`, which has the field's type.
pub(crate) fn show<'py>(py: Python<'py>, value: &Value, field: &Field, zone: &Zone) -> PyResult<Bound<'py, PyAny>> {
    Ok(match (value, &field.kind) {
        (Value::Null, _) => py.None().into_bound(py),
        (Value::Bool(value), _) => PyBool::new(py, *value).to_owned().into_any(),
        (Value::Int(days), Kind::Date) => time::date(py, *days)?,
        (Value::Int(us), Kind::Timestamp) => zone.instant(py, *us)?,
        (Value::Int(us), Kind::TimestampNtz) => time::naive(py, *us, false)?,
        (Value::Int(value), _) => PyInt::new(py, *value).into_any(),
        (Value::Float(value), _) => PyFloat::new(py, *value).into_any(),
        (Value::Decimal(value), Kind::Decimal(_, scale)) => decimal::shown(py, *value, *scale)?,
        (Value::Text(text), _) => text.bind(py).clone().into_any(),
        (Value::Bytes(bytes), _) => PyBytes::new(py, bytes).into_any(),
        (Value::List(items), Kind::List(item)) => {
            PyList::new(py, items.iter().map(|value| Shown { value, field: item, zone }))?.into_any()
        }
        (Value::Map(entries), Kind::Map(key, item, MapLook::Pairs)) => {
            let pair = |(name, value): &(Value, Value)| {
                PyTuple::new(py, [show(py, name, key, zone)?, show(py, value, item, zone)?])
            };
            PyList::new(py, entries.iter().map(pair).collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        (Value::Map(entries), Kind::Map(key, item, MapLook::Dict)) => {
            let dict = PyDict::new(py);
            for (name, value) in entries {
                dict.set_item(show(py, name, key, zone)?, show(py, value, item, zone)?)?;
            }
            dict.into_any()
        }
        (Value::Struct(values), Kind::Struct(record)) => show_record(py, values, record, zone)?,
        _ => return Err(mixed_up(py)),
    })
}

/// Make the object for the values of a record.
pub(crate) fn show_record<'py>(
    py: Python<'py>,
    values: &[Value],
    record: &Record,
    zone: &Zone,
) -> PyResult<Bound<'py, PyAny>> {
    let pairs = values.iter().zip(&record.fields);
    record.make(&PyTuple::new(py, pairs.map(|(value, field)| Shown { value, field, zone }))?)
}

/// A value that is converted when a tuple or list is built.
struct Shown<'a> {
    value: &'a Value,
    field: &'a Field,
    zone: &'a Zone,
}

impl<'py> IntoPyObject<'py> for Shown<'_> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        show(py, self.value, self.field, self.zone)
    }
}

fn mixed_up(py: Python<'_>) -> PyErr {
    to_python(py, Error::InternalError("a value is not of the type that it was parsed as".to_owned()))
}
