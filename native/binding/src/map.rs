//! `StateMap`: one key range of one version of a state map, and the changes made to it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use tidemill_core::{KeyRange, SortedRun, StateMap};

use crate::error::Raise;
use crate::map_schema::PyMapSchema;
use crate::run::PyRun;

/// One key range of one version of a state map, and the changes made to it since it was opened.
#[pyclass(name = "StateMap", module = "tidemill._native", frozen)]
pub(crate) struct PyStateMap {
    map: Mutex<StateMap>,
}

impl PyStateMap {
    /// The Python object for `map`.
    pub(crate) fn wrap(map: StateMap) -> Self {
        Self { map: Mutex::new(map) }
    }

    /// A fork of the map that it holds.
    pub(crate) fn fork(&self) -> StateMap {
        self.lock().copy()
    }

    /// A change is applied whole or not at all, so a map whose writer panicked is still true.
    fn lock(&self) -> MutexGuard<'_, StateMap> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyStateMap {
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the arguments from Python objects")]
    fn open(py: Python<'_>, schema: &PyMapSchema, runs: Vec<PyRef<'_, PyRun>>, lo: u64, hi: u64) -> PyResult<Self> {
        let range = KeyRange::new(lo, hi).raise(py)?;
        let runs: Vec<SortedRun> = runs.iter().map(|run| run.run.clone()).collect();
        Ok(Self::wrap(StateMap::open(schema.schema.clone(), &runs, range).raise(py)?))
    }

    fn copy(&self) -> Self {
        Self::wrap(self.fork())
    }
}
