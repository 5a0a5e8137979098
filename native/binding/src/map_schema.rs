//! `MapSchema`: the columns of a state map.

use std::sync::Arc;

use pyo3::prelude::*;
use tidemill_core::MapSchema;

use crate::arrow::{schema_in, schema_out};
use crate::error::Raise;

/// The columns of a state map: (key, sub-key) → (value, `updated_at`, deadline).
#[pyclass(name = "MapSchema", module = "tidemill._native", frozen)]
pub(crate) struct PyMapSchema {
    pub(crate) schema: Arc<MapSchema>,
}

impl PyMapSchema {
    /// The Python object for `schema`.
    pub(crate) fn wrap(schema: Arc<MapSchema>) -> Self {
        Self { schema }
    }
}

#[pymethods]
impl PyMapSchema {
    #[new]
    fn new(
        py: Python<'_>,
        name: &str,
        key: &Bound<'_, PyAny>,
        sub_key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let (key, sub_key, value) = (schema_in(key)?, schema_in(sub_key)?, schema_in(value)?);
        let schema = MapSchema::new(name, key.fields(), sub_key.fields(), value.fields()).raise(py)?;
        Ok(Self::wrap(Arc::new(schema)))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.schema.name
    }

    #[getter]
    fn widths(&self) -> (usize, usize) {
        (self.schema.key.len(), self.schema.sub_key.len())
    }

    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        schema_out(py, &self.schema.columns())
    }
}
