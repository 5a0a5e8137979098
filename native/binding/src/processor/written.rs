//! Builds the rows that a processor's variables write to their state maps.

use pyo3::prelude::*;
use tidemill_core::Result;
use tidemill_core::operator::Written;

use crate::error::external;
use crate::value::{Builder, Shape, Value};

/// The rows that a variable puts.
pub(super) struct Puts<'a> {
    sub_key: Option<&'a Shape>,
    value: &'a Shape,
    keys: Vec<u32>,
    sub_keys: Vec<Builder>,
    values: Vec<Builder>,
}

impl<'a> Puts<'a> {
    /// Start without rows. `sub_key` is the shape of the sub-keys for `add`; if it is `None`, `finish` is given them.
    pub(super) fn new(sub_key: Option<&'a Shape>, value: &'a Shape) -> Self {
        let sub_keys = sub_key.map_or_else(Vec::new, Shape::builders);
        Self { sub_key, value, keys: Vec::new(), sub_keys, values: value.builders() }
    }

    /// Add a row of key number `key`.
    pub(super) fn add(&mut self, py: Python<'_>, key: usize, sub_key: Option<&Value>, value: &Value) -> Result<()> {
        if let (Some(shape), Some(sub_key)) = (self.sub_key, sub_key) {
            shape.append(py, sub_key, &mut self.sub_keys).map_err(external)?;
        }
        self.value.append(py, value, &mut self.values).map_err(external)?;
        #[expect(clippy::cast_possible_truncation, reason = "keys of a visit are numbered by u32")]
        self.keys.push(key as u32);
        Ok(())
    }

    /// Return all rows. `removed` are the stored rows to remove, `positions` the sub-keys if `add` was given none.
    pub(super) fn finish(self, removed: Vec<usize>, positions: Vec<arrow_array::ArrayRef>) -> Result<Written> {
        let columns = |builders: Vec<Builder>| builders.into_iter().map(Builder::finish).collect::<Result<_>>();
        let sub_keys = if self.sub_key.is_some() { columns(self.sub_keys)? } else { positions };
        Ok(Written { removed, keys: self.keys, sub_keys, values: columns(self.values)? })
    }
}
