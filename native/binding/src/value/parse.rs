//! Parses Python objects to `Value`s of a type. An object that would lose information is refused, never rounded.
//!
//! An int is accepted for a float or a decimal. A bool is never a number, and a float is never an int.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
};

use super::Value;
use super::decimal::unscaled;
use super::kind::{Field, Kind, Record};
use super::refused::Refused;
use super::time::{self, Zone};

/// A key and a value of a map.
type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Parse `object` as a value of the field's type.
pub(crate) fn parse(object: &Bound<'_, PyAny>, field: &Field, zone: &Zone) -> Result<Value, Refused> {
    if object.is_none() {
        return if field.nullable { Ok(Value::Null) } else { Err(refuse(object, field)) };
    }
    if let Some(value) = parse_kind(object, field, zone)? {
        return Ok(value);
    }
    match plain(object)? {
        Some(plain) => parse_kind(&plain, field, zone)?.ok_or_else(|| refuse(object, field)),
        None => Err(refuse(object, field)),
    }
}

/// Parse the fields of `object`.
pub(crate) fn parse_record(object: &Bound<'_, PyAny>, record: &Record, zone: &Zone) -> Result<Vec<Value>, Refused> {
    let mut values = Vec::with_capacity(record.fields.len());
    record.spread(object, |field, item| {
        values.push(parse_field(item, field, zone)?);
        Ok(())
    })?;
    Ok(values)
}

/// Parse the value of a field of a row. `None`: the row has no such name.
pub(crate) fn parse_field(item: Option<&Bound<'_, PyAny>>, field: &Field, zone: &Zone) -> Result<Value, Refused> {
    let value = match item {
        Some(item) => parse(item, field, zone),
        None if field.nullable => Ok(Value::Null),
        None => Err(Refused::misfit_described(quoted(field), "missing".to_owned())),
    };
    value.map_err(|refused| refused.at(|| format!(".{}", field.name)))
}

/// Parse `object` as this kind of cell; `None` if it does not fit.
#[inline]
fn parse_kind(object: &Bound<'_, PyAny>, field: &Field, zone: &Zone) -> Result<Option<Value>, Refused> {
    Ok(match &field.kind {
        Kind::Int(least, greatest) => {
            integer(object).filter(|value| (least..=greatest).contains(&value)).map(Value::Int)
        }
        Kind::Float64 => float(object).map(Value::Float),
        Kind::Float32 => float(object).and_then(nearest_f32).map(Value::Float),
        Kind::Bool => object.cast::<PyBool>().ok().map(|value| Value::Bool(value.is_true())),
        Kind::Text => text(object)?,
        Kind::Binary => bytes(object),
        Kind::Decimal(precision, scale) => unscaled(object, *precision, *scale)?.map(Value::Decimal),
        Kind::Date => date(object)?,
        Kind::Timestamp | Kind::TimestampNtz => timestamp(object, &field.kind, zone)?,
        Kind::List(item) => list(object, item, zone)?,
        Kind::Map(key, item, _) => map(object, key, item, zone)?,
        Kind::Struct(record) => Some(Value::Struct(parse_record(object, record, zone)?)),
    })
}

/// Parse an int that is not a bool and fits in 64 bits.
fn integer(object: &Bound<'_, PyAny>) -> Option<i64> {
    let is_int = object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>();
    if is_int { object.extract().ok() } else { None }
}

fn float(object: &Bound<'_, PyAny>) -> Option<f64> {
    if let Ok(value) = object.cast::<PyFloat>() {
        return Some(value.value());
    }
    let is_int = object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>();
    if is_int { object.extract().ok() } else { None }
}

/// Round to the nearest float of 32 bits; `None` if that would be infinite.
#[expect(clippy::cast_possible_truncation, reason = "a float column holds the nearest float")]
fn nearest_f32(value: f64) -> Option<f64> {
    let nearest = value as f32;
    (nearest.is_finite() || !value.is_finite()).then_some(f64::from(nearest))
}

fn text(object: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    let Ok(text) = object.cast::<PyString>() else { return Ok(None) };
    let Ok(utf8) = text.to_str() else { return Ok(None) }; // a lone surrogate
    let own = if text.is_exact_instance_of::<PyString>() { text.clone() } else { PyString::new(object.py(), utf8) };
    Ok(Some(Value::Text(own.unbind())))
}

fn bytes(object: &Bound<'_, PyAny>) -> Option<Value> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Some(Value::Bytes(bytes.as_bytes().to_vec()));
    }
    object.cast::<PyByteArray>().ok().map(|bytes| Value::Bytes(bytes.to_vec()))
}

fn date(object: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    match object.cast::<PyDate>() {
        Ok(date) if !object.is_instance_of::<PyDateTime>() => Ok(Some(Value::Int(time::date_days(date)?))),
        _ => Ok(None),
    }
}

fn timestamp(object: &Bound<'_, PyAny>, kind: &Kind, zone: &Zone) -> PyResult<Option<Value>> {
    let Ok(datetime) = object.cast::<PyDateTime>() else { return Ok(None) };
    if !datetime.is_exact_instance_of::<PyDateTime>() && has_nanoseconds(datetime)? {
        return Ok(None);
    }
    if matches!(kind, Kind::Timestamp) {
        return zone.instant_of(datetime).map(|us| Some(Value::Int(us)));
    }
    if datetime.getattr(intern!(object.py(), "tzinfo"))?.is_none() {
        return time::naive_us(datetime).map(|us| Some(Value::Int(us)));
    }
    Ok(None)
}

/// Whether a timestamp of pandas has nanoseconds, or is `NaT`.
fn has_nanoseconds(datetime: &Bound<'_, PyDateTime>) -> PyResult<bool> {
    match datetime.getattr_opt(intern!(datetime.py(), "nanosecond"))? {
        Some(nanosecond) => Ok(nanosecond.extract::<i64>().ok() != Some(0)),
        None => Ok(false),
    }
}

fn list(object: &Bound<'_, PyAny>, item: &Field, zone: &Zone) -> Result<Option<Value>, Refused> {
    let mut values = Vec::new();
    let mut take = |object: &Bound<'_, PyAny>| {
        let place = values.len();
        values.push(parse(object, item, zone).map_err(|refused| refused.at(|| format!("[{place}]")))?);
        Ok::<_, Refused>(())
    };
    if let Ok(list) = object.cast::<PyList>() {
        for object in list {
            take(&object)?;
        }
    } else if let Ok(tuple) = object.cast::<PyTuple>() {
        for object in tuple {
            take(&object)?;
        }
    } else {
        return Ok(None);
    }
    Ok(Some(Value::List(values)))
}

fn map(object: &Bound<'_, PyAny>, key: &Field, item: &Field, zone: &Zone) -> Result<Option<Value>, Refused> {
    let Some(pairs) = pairs(object)? else { return Ok(None) };
    let mut entries = Vec::with_capacity(pairs.len());
    for (name, object) in pairs {
        let at = || name.repr().map_or_else(|_| "[?]".to_owned(), |name| format!("[{name}]"));
        let value = parse(&object, item, zone).map_err(|refused| refused.at(at))?;
        entries.push((parse(&name, key, zone).map_err(|refused| refused.at(at))?, value));
    }
    Ok(Some(Value::Map(entries)))
}

/// Copy the entries of a map, because reading one may run user code that changes the map. The map is a dict, or a list
/// or tuple of pairs. If pairs have equal hashable keys, the last pair wins.
fn pairs<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Pair<'py>>>> {
    if let Ok(dict) = object.cast::<PyDict>() {
        return dict.items().extract().map(Some);
    }
    let items = match (object.cast::<PyList>(), object.cast::<PyTuple>()) {
        (Ok(list), _) => list.to_tuple(),
        (_, Ok(tuple)) => tuple.clone(),
        _ => return Ok(None),
    };
    if !items.iter().all(|item| item.cast::<PyTuple>().is_ok_and(|pair| pair.len() == 2)) {
        return Ok(None);
    }
    match PyDict::from_sequence(items.as_any()) {
        Ok(dict) => dict.items().extract().map(Some),
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => {
            items.iter().map(|pair| pair.extract()).collect::<PyResult<_>>().map(Some)
        }
        Err(error) => Err(error),
    }
}

/// Convert a NumPy scalar or array to Python's own type.
fn plain<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    if !object.hasattr(intern!(py, "dtype"))? {
        return Ok(None);
    }
    match object.getattr_opt(intern!(py, "tolist"))? {
        Some(to_list) => to_list.call0().map(Some),
        None => Ok(None),
    }
}

fn refuse(object: &Bound<'_, PyAny>, field: &Field) -> Refused {
    Refused::misfit(quoted(field), object)
}

fn quoted(field: &Field) -> String {
    format!("`{}`", field.ddl())
}
