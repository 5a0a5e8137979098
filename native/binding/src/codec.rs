//! `Codec`: converts Python objects to keys and states of a map, and rows of a map to Python objects.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{Fields, Schema};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyTuple};
use tidemill_core::MapSchema;

use crate::arrow::batch_in;
use crate::error::invalid;
use crate::map_schema::PyMapSchema;
use crate::naming::repr;
use crate::value::{Refused, Shape, Value, Zone};

/// Converts keys and states of one map. If its only key column is unnamed, keys are scalars, else rows; states
/// likewise.
#[pyclass(name = "Codec", module = "tidemill._native", frozen)]
pub(crate) struct PyCodec {
    pub(crate) schema: Arc<MapSchema>,
    pub(crate) key: Shape,
    pub(crate) state: Shape,
    pub(crate) zone: Zone,
}

#[pymethods]
impl PyCodec {
    #[new]
    fn new(
        py: Python<'_>,
        schema: &PyMapSchema,
        key_unnamed: bool,
        state_unnamed: bool,
        time_zone: &str,
    ) -> PyResult<Self> {
        let schema = schema.schema.clone();
        let shape = |fields: &Fields, unnamed| Shape::new(py, &Schema::new(fields.clone()), unnamed, None);
        let (key, state) = (shape(&schema.key, key_unnamed)?, shape(&schema.value, state_unnamed)?);
        Ok(Self { key, state, schema, zone: Zone::named(py, time_zone)? })
    }

    /// Return (key, state, `updated_ms`, `deadline_ms` or None) of each row that a method of `StateMap` returned.
    fn rows<'py>(&self, py: Python<'py>, rows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let rows = batch_in(rows)?;
        let (key, value) = (self.schema.key.len(), self.schema.value.len());
        let first = key + self.schema.sub_key.len();
        let keys = self.key.decoders(&rows.columns()[..key]);
        let states = self.state.decoders(&rows.columns()[first..first + value]);
        let [.., updated_at, deadline] = rows.columns() else {
            return Err(invalid(py, "expected rows of a state map"));
        };
        let (updated_at, deadline) = (times(py, updated_at)?, times(py, deadline)?);
        let made = PyList::empty(py);
        for row in 0..rows.num_rows() {
            let time = |column: &arrow_array::TimestampMillisecondArray| match column.is_valid(row) {
                true => PyInt::new(py, column.value(row)).into_any(),
                false => py.None().into_bound(py),
            };
            let cells = [
                self.key.decode(&keys, py, row, &self.zone)?,
                self.state.decode(&states, py, row, &self.zone)?,
                time(&updated_at),
                time(&deadline),
            ];
            made.append(PyTuple::new(py, cells)?)?;
        }
        Ok(made)
    }
}

impl PyCodec {
    /// Convert an object to a key.
    pub(crate) fn parse_key(&self, object: &Bound<'_, PyAny>) -> PyResult<Value> {
        self.key.parse(object, &self.zone).map_err(|refused| self.refused(object, "key", refused))
    }

    /// Convert an object to a state. `InvalidInput` for None.
    pub(crate) fn parse_state(&self, object: &Bound<'_, PyAny>) -> PyResult<Value> {
        if object.is_none() {
            let text = format!("state map `{}` cannot store None as a state", self.schema.name);
            return Err(invalid(object.py(), &format!("{text}\nhint: remove the key instead")));
        }
        self.state.parse(object, &self.zone).map_err(|refused| self.refused(object, "state", refused))
    }

    fn refused(&self, object: &Bound<'_, PyAny>, what: &str, refused: Refused) -> PyErr {
        match refused {
            Refused::Misfit(misfit) => {
                let (name, found) = (&self.schema.name, repr(object));
                invalid(object.py(), &format!("state map `{name}` cannot use {found} as a {what}: {misfit}"))
            }
            Refused::Raised(error) => error,
        }
    }
}

fn times(py: Python<'_>, column: &ArrayRef) -> PyResult<arrow_array::TimestampMillisecondArray> {
    let times = column.as_primitive_opt::<TimestampMillisecondType>();
    times.cloned().ok_or_else(|| invalid(py, "expected rows of a state map"))
}
