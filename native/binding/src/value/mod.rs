//! Converts cells of Arrow columns to Python objects and back, for user functions.
//!
//! `kind` has the types, `look` and `class` how rows are shown. `decode`: column → object. `spread` and `parse`: object
//! → `Value`, with exact checks. `show`: `Value` → object. `build`: `Value`s → column. `shape` is the facade.
//! INVARIANT: a parsed value is a copy, so that no later change of a Python object affects it.

mod build;
mod class;
mod decimal;
mod decode;
mod kind;
mod look;
mod parse;
mod refused;
mod shape;
mod show;
mod spread;
mod time;

use pyo3::prelude::*;
use pyo3::types::PyString;

pub(crate) use build::{Builder, column_of_one};
pub(crate) use decode::Decoder;
pub(crate) use kind::Field;
pub(crate) use refused::{Refused, described};
pub(crate) use shape::Shape;
pub(crate) use time::Zone;

/// A cell that was checked to have its type. Integers of all widths, dates (days) and timestamps (µs) are `Int`.
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Unscaled.
    Decimal(i128),
    Text(Py<PyString>),
    Bytes(Vec<u8>),
    Struct(Vec<Value>),
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// Estimate the bytes that it takes in memory: at least those of its text.
    pub(crate) fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        let all = |values: &[Self]| values.iter().map(|value| value.nbytes(py)).sum::<PyResult<usize>>();
        let pair = |(key, value): &(Self, Self)| Ok(key.nbytes(py)? + value.nbytes(py)?);
        Ok(size_of::<Self>()
            + match self {
                Self::Text(text) => text.to_str(py)?.len(),
                Self::Bytes(bytes) => bytes.len(),
                Self::Struct(values) | Self::List(values) => all(values)?,
                Self::Map(entries) => entries.iter().map(pair).sum::<PyResult<usize>>()?,
                _ => 0,
            })
    }
}
