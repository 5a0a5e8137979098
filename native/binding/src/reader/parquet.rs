//! Parquet files: their columns, their row groups, and their rows.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tidemill_reader::parquet::{Missing, ParquetFile, Rows};

use super::input::raised;
use super::ranges::Ranges;
use crate::arrow::{batch_out, schema_in};

/// A Parquet file that is open.
#[pyclass(name = "ParquetFile", module = "tidemill._native", frozen)]
pub(crate) struct PyParquetFile {
    file: ParquetFile<Ranges>,
    ranges: Ranges,
}

#[pymethods]
impl PyParquetFile {
    #[new]
    #[pyo3(signature = (file, time_zone = "UTC"))]
    fn new(file: &Bound<'_, PyAny>, time_zone: &str) -> PyResult<Self> {
        let py = file.py();
        let ranges = Ranges::open(file)?;
        let opened = py.detach(|| ParquetFile::open(ranges.clone(), time_zone));
        let file = opened.map_err(|error| raised(py, ranges.cause(error)))?;
        Ok(Self { file, ranges })
    }

    /// The number of rows and of compressed bytes of each row group.
    #[getter]
    fn row_groups(&self) -> Vec<(u64, u64)> {
        self.file.row_groups()
    }

    /// The names and the types of the columns.
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        self.file.schema()
    }

    /// Return why the columns cannot be read as those of `schema`, and advice or None; None if they can.
    fn misfit(&self, schema: &Bound<'_, PyAny>, missing: &str) -> PyResult<Option<(String, Option<String>)>> {
        let found = self.file.misfit(&schema_in(schema)?, missing_columns(missing));
        Ok(found.map(|found| (found.reason, found.hint)))
    }

    /// Return the rows of row groups `first` to `last` in the columns of `schema`.
    fn rows(
        &self,
        schema: &Bound<'_, PyAny>,
        missing: &str,
        first: usize,
        last: usize,
        batch_rows: usize,
    ) -> PyResult<PyParquetRows> {
        let py = schema.py();
        let schema = Arc::new(schema_in(schema)?);
        let read = py.detach(|| self.file.read(schema, missing_columns(missing), first..=last, batch_rows));
        let rows = read.map_err(|error| raised(py, self.ranges.cause(error)))?;
        Ok(PyParquetRows { rows: Mutex::new(rows), ranges: self.ranges.clone() })
    }
}

fn missing_columns(missing: &str) -> Missing {
    if missing == "null" { Missing::Null } else { Missing::Fail }
}

/// Rows of a Parquet file.
#[pyclass(name = "ParquetRows", module = "tidemill._native")]
pub(crate) struct PyParquetRows {
    rows: Mutex<Rows>,
    ranges: Ranges,
}

#[pymethods]
impl PyParquetRows {
    /// Return the next rows, or None at the end.
    fn next_batch<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let rows = self.rows.get_mut().map_err(|_| PyRuntimeError::new_err("an earlier call failed"))?;
        let batch = py.detach(|| rows.next_batch()).map_err(|error| raised(py, self.ranges.cause(error)))?;
        batch.map(|batch| batch_out(py, &batch)).transpose()
    }
}
