//! Parquet files: their columns, their row groups, and their rows.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tidemill_reader::parquet::{ParquetFile, Rows};

use super::input::raised;
use super::options::Columns;
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

    /// Return the rows of row groups `first` to `last` in the columns of `asked`, which are some of those of `schema`.
    #[expect(clippy::needless_pass_by_value, reason = "Python's objects are converted to owned values")]
    fn rows(
        &self,
        schema: &Bound<'_, PyAny>,
        asked: &Bound<'_, PyAny>,
        columns: Columns,
        first: usize,
        last: usize,
        batch_rows: usize,
    ) -> PyResult<PyParquetRows> {
        let py = schema.py();
        let (schema, asked, by) = (schema_in(schema)?, Arc::new(schema_in(asked)?), columns.by_name());
        let read = py.detach(|| self.file.read(&schema, asked, &by, first..=last, batch_rows));
        let rows = read.map_err(|error| raised(py, self.ranges.cause(error)))?;
        Ok(PyParquetRows { rows: Mutex::new(rows), ranges: self.ranges.clone() })
    }
}

/// Rows of a Parquet file.
#[pyclass(name = "ParquetRows", module = "tidemill._native")]
pub(crate) struct PyParquetRows {
    rows: Mutex<Rows>, // only because Python may share the object between threads; it is never locked
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
