//! `Run`: an immutable sorted run, read from a segment, merged, or taken from a map's changes.

use std::fs::File;
use std::io::BufWriter;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, RecordBatch};
use arrow_schema::FieldRef;
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use tidemill_core::run::{self, DuePlace, Tombstones};
use tidemill_core::{Changes, Error, KeyRange, MapSchema, Result, SortedRun, StateMap, segment};

use crate::arrow::{batch_in, batch_out};
use crate::bytes::bytes_out;
use crate::error::{Raise, invalid};
use crate::map_schema::PyMapSchema;

/// An immutable sorted run.
#[pyclass(name = "Run", module = "tidemill._native", frozen)]
pub(crate) struct PyRun {
    pub(crate) run: SortedRun,
}

#[pymethods]
impl PyRun {
    #[staticmethod]
    fn read(py: Python<'_>, schema: &PyMapSchema, data: PyBackedBytes, name: &str) -> PyResult<Self> {
        let run = py.detach(|| segment::read(&schema.schema, Bytes::from_owner(data), name)).raise(py)?;
        Ok(Self { run })
    }

    #[staticmethod]
    fn of_rows(py: Python<'_>, schema: &PyMapSchema, rows: &Bound<'_, PyAny>) -> PyResult<Self> {
        let rows = batch_in(rows)?;
        let run = py.detach(|| run_of_rows(&schema.schema, &rows)).raise(py)?;
        Ok(Self { run })
    }

    #[staticmethod]
    fn map(py: Python<'_>, schema: &PyMapSchema, descriptor: RawFd, key: &str, verify: bool) -> PyResult<Self> {
        let file = file_of(descriptor)?;
        let mapped = py.detach(|| segment::cache::map(&schema.schema, key, &file, verify));
        let corrupt = |why| Error::CorruptState(format!("cannot map the cached run `{key}`: {why}"));
        Ok(Self { run: mapped.map_err(corrupt).raise(py)? })
    }

    fn keep(&self, py: Python<'_>, descriptor: RawFd, key: &str) -> PyResult<()> {
        let file = file_of(descriptor)?;
        Ok(py.detach(|| segment::cache::write(&self.run, key, BufWriter::new(file)))?)
    }

    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the arguments from Python objects")]
    fn merge(
        py: Python<'_>,
        runs: Vec<PyRef<'_, Self>>,
        lo: u64,
        hi: u64,
        drop: &str,
        most: usize,
    ) -> PyResult<Vec<(u64, u64, Self)>> {
        let tombstones = match drop {
            "tombstones" => Tombstones::Drop,
            "nothing" => Tombstones::Keep,
            other => {
                let text = format!("`drop` of a merge must be `tombstones` or `nothing`, found `{other}`");
                return Err(invalid(py, &text));
            }
        };
        let range = KeyRange::new(lo, hi).raise(py)?;
        let runs: Vec<SortedRun> = runs.iter().map(|run| run.run.clone()).collect();
        let parts = py.detach(|| run::merge_in_parts(&runs, range, tombstones, most)).raise(py)?;
        Ok(parts.into_iter().map(|(range, run)| (range.lo, range.hi, Self { run })).collect())
    }

    fn within(&self, py: Python<'_>, lo: u64, hi: u64) -> PyResult<Self> {
        Ok(Self { run: self.run.within(KeyRange::new(lo, hi).raise(py)?) })
    }

    fn write<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let data = py.detach(|| segment::write(&self.run)).raise(py)?;
        bytes_out(py, data)
    }

    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        batch_out(py, &self.run.batch().raise(py)?)
    }

    #[getter]
    fn schema(&self) -> PyMapSchema {
        PyMapSchema::wrap(self.run.schema().clone())
    }

    fn __len__(&self) -> usize {
        self.run.len()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.run.nbytes()
    }

    #[getter]
    fn first_due(&self, py: Python<'_>) -> Option<(i64, u64)> {
        py.detach(|| self.run.first_due()).map(place_out)
    }

    fn with_due_from(&self, deadline_ms: i64, hash: u64) -> Self {
        Self { run: self.run.with_due_from(DuePlace { deadline_ms, hash }) }
    }
}

/// Return a run of `rows`, which have the columns of the schema in any order of keys. Of equal keys the last row wins.
fn run_of_rows(schema: &Arc<MapSchema>, rows: &RecordBatch) -> Result<SortedRun> {
    let (expected, found) = (schema.columns(), rows.schema());
    let kinds = |(a, b): (&FieldRef, &FieldRef)| a.name() == b.name() && a.data_type() == b.data_type();
    if expected.fields().len() != found.fields().len() || !expected.fields().iter().zip(found.fields()).all(kinds) {
        let why = format!("cannot make a run of state map `{}`: the rows have other columns", schema.name);
        return Err(Error::InvalidInput(why));
    }
    let (keys, rest) = rows.columns().split_at(schema.key_width());
    let (key, sub_key) = keys.split_at(schema.key.len());
    let (values, times) = rest.split_at(schema.value.len());
    let updated_at = times[0].as_primitive::<TimestampMillisecondType>();
    let deleted = times[2].as_boolean();
    if updated_at.null_count() > 0 || deleted.null_count() > 0 {
        let why = format!("cannot make a run of state map `{}`: `updated_at` or `deleted` is null", schema.name);
        return Err(Error::InvalidInput(why));
    }
    let changes = Changes {
        keys: key.to_vec(),
        sub_keys: sub_key.to_vec(),
        values: values.to_vec(),
        updated_at: updated_at.values().to_vec(),
        deadline: times[1].as_primitive::<TimestampMillisecondType>().iter().collect(),
        deleted: deleted.values().iter().collect(),
    };
    let mut map = StateMap::open(Arc::clone(schema), &[], KeyRange::ALL)?;
    map.change(&changes)?;
    map.delta()?.map_or_else(|| map.base(), Ok)
}

/// Convert a place in the order of deadlines to (deadline, key hash).
pub(crate) fn place_out(place: DuePlace) -> (i64, u64) {
    (place.deadline_ms, place.hash)
}

/// Duplicate an open descriptor. The caller keeps the original.
fn file_of(descriptor: RawFd) -> std::io::Result<File> {
    if descriptor < 0 {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "a file descriptor cannot be negative"));
    }
    #[expect(unsafe_code, reason = "it is only duplicated, which fails where it is closed, while the caller waits")]
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    Ok(File::from(borrowed.try_clone_to_owned()?))
}
