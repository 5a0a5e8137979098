//! Cells of Arrow columns as Python objects, and Python objects as cells: what user functions see and give back.
//!
//! `kind`: a type with its Python side, `look`: which of several. `decode`: column → object. `parse`: object → `Value`, with exact checks.
//! `show`: `Value` → object. `build`: `Value`s → column. INVARIANT: nothing that Python can change is kept; a value
//! that was parsed is a copy.

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

/// A cell, checked to be of its type. Integers of all widths, dates (days) and timestamps (µs) are `Int`.
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
    /// Bytes that it takes in memory, about, and at least those of its text.
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
