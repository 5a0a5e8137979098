//! `StateMap`: one key range of one version of a state map, and the changes made to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, TimestampMillisecondArray, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use tidemill_core::schema::{DEADLINE, UPDATED_AT, time_type};
use tidemill_core::{Changes, Error, Found, KeyRange, Keys, MapSchema, Result, SortedRun, StateMap, offsets};

use crate::arrow::{array_in, array_out, batch, batch_in, batch_out};
use crate::error::{Raise, invalid};
use crate::map_schema::PyMapSchema;
use crate::run::{PyRun, place_out};

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

    /// Puts and removes rows. Called without the GIL: it may take long.
    pub(crate) fn change(&self, changes: &Changes) -> Result<()> {
        self.lock().change(changes)
    }

    /// The map, for who holds the GIL: another thread may need it to let go of the map (a foreign array's last owner
    /// asks for it), so it is given back while this one waits.
    pub(crate) fn lock_attached(&self, py: Python<'_>) -> MutexGuard<'_, StateMap> {
        self.map.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
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

    fn copy(&self, py: Python<'_>) -> Self {
        Self::wrap(self.lock_attached(py).copy())
    }

    fn next_version(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self::wrap(py.detach(|| self.fork().next_version()).raise(py)?))
    }

    fn base(&self, py: Python<'_>) -> PyResult<PyRun> {
        Ok(PyRun { run: py.detach(|| self.fork().base()).raise(py)? })
    }

    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.lock().compact()).raise(py)
    }

    fn runs(&self, py: Python<'_>) -> Vec<PyRun> {
        self.lock_attached(py).runs().iter().map(|run| PyRun { run: run.clone() }).collect()
    }

    fn deltas(&self, py: Python<'_>) -> usize {
        self.lock_attached(py).deltas()
    }

    fn updated_before<'py>(&self, py: Python<'py>, threshold_ms: i64) -> PyResult<Bound<'py, PyAny>> {
        let rows = py.detach(|| {
            let map = self.fork();
            map.updated_before(threshold_ms)?.into_batch(map.schema())
        });
        batch_out(py, &rows.raise(py)?)
    }

    fn scan<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = py.detach(|| {
            let map = self.fork();
            map.scan()?.into_batch(map.schema())
        });
        batch_out(py, &rows.raise(py)?)
    }

    fn count_parts(&self, py: Python<'_>, rows: usize) -> u64 {
        self.lock_attached(py).count_parts(rows)
    }

    fn part(&self, py: Python<'_>, number: u64, count: u64) -> PyResult<Self> {
        let part = py.detach(|| self.fork().part(number, count));
        part.map(Self::wrap).ok_or_else(|| invalid(py, &format!("a state map has no part {number} of {count}")))
    }

    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let keys = batch_in(keys)?;
        let answer = py.detach(|| {
            let map = self.fork();
            let found = map.get(&map_keys(map.schema(), &keys)?)?;
            let flags = BooleanArray::from(found.found.clone());
            Ok((flags, found_batch(map.schema(), found)?))
        });
        let (flags, rows) = answer.raise(py)?;
        Ok((array_out(py, &flags)?, batch_out(py, &rows)?))
    }

    #[pyo3(signature = (keys, values, updated_ms, deadlines_ms=None))]
    fn put_many(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        updated_ms: i64,
        deadlines_ms: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (keys, values) = (batch_in(keys)?, batch_in(values)?);
        let deadlines = deadlines_ms.map(array_in).transpose()?;
        py.detach(|| {
            let mut map = self.lock();
            let schema = Arc::clone(map.schema());
            check_names(&schema, values.schema_ref(), &[&schema.value])?;
            let mut changes = changes_of_keys(&schema, &keys, updated_ms)?;
            changes.values = values.columns().to_vec();
            if let Some(deadlines) = deadlines {
                changes.deadline = deadlines_in(&deadlines)?;
            }
            map.change(&changes)
        })
        .raise(py)
    }

    fn remove_many(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let keys = batch_in(keys)?;
        py.detach(|| {
            let mut map = self.lock();
            let schema = Arc::clone(map.schema());
            let mut changes = changes_of_keys(&schema, &keys, 0)?;
            changes.values =
                schema.value.iter().map(|field| new_null_array(field.data_type(), keys.num_rows())).collect();
            changes.deleted.fill(true);
            map.change(&changes)
        })
        .raise(py)
    }

    fn get_due<'py>(&self, py: Python<'py>, now_ms: i64) -> PyResult<Bound<'py, PyAny>> {
        let rows = py.detach(|| {
            let mut map = self.lock(); // which remembers how far rows are hidden
            let (due, schema) = (map.due(now_ms), Arc::clone(map.schema()));
            drop(map);
            due?.into_batch(&schema)
        });
        batch_out(py, &rows.raise(py)?)
    }

    fn next_deadline(&self, py: Python<'_>) -> Option<i64> {
        py.detach(|| self.lock().next_deadline())
    }

    fn due_places(&self, py: Python<'_>) -> Vec<(i64, u64)> {
        py.detach(|| self.lock().due_places()).into_iter().map(place_out).collect()
    }

    fn delta(&self, py: Python<'_>) -> PyResult<Option<PyRun>> {
        Ok(py.detach(|| self.fork().delta()).raise(py)?.map(|run| PyRun { run }))
    }

    fn live_change(&self, py: Python<'_>) -> i64 {
        py.detach(|| self.fork().live_change())
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.fork().len())
    }
}

/// The columns of `keys` as keys of a map of this schema.
fn map_keys(schema: &MapSchema, keys: &RecordBatch) -> Result<Keys> {
    check_names(schema, keys.schema_ref(), &[&schema.key, &schema.sub_key])?;
    let (key, sub_key) = keys.columns().split_at(schema.key.len());
    Keys::with_sub_keys(key, sub_key, keys.num_rows())
}

/// Changes that put `keys` without values and deadlines.
fn changes_of_keys(schema: &MapSchema, keys: &RecordBatch, updated_ms: i64) -> Result<Changes> {
    check_names(schema, keys.schema_ref(), &[&schema.key, &schema.sub_key])?;
    let (key, sub_key) = keys.columns().split_at(schema.key.len());
    let rows = keys.num_rows();
    Ok(Changes {
        keys: key.to_vec(),
        sub_keys: sub_key.to_vec(),
        values: Vec::new(),
        updated_at: offsets::filled(updated_ms, rows)?,
        deadline: offsets::filled(None, rows)?,
        deleted: offsets::filled(false, rows)?,
    })
}

/// `InvalidInput` unless the columns of `found` are named like the fields of `expected`, in that order.
fn check_names(schema: &MapSchema, found: &Schema, expected: &[&Fields]) -> Result<()> {
    let expected: Vec<&str> = expected.iter().flat_map(|fields| fields.iter()).map(name).collect();
    let found: Vec<&str> = found.fields().iter().map(name).collect();
    if expected == found {
        return Ok(());
    }
    Err(Error::InvalidInput(format!(
        "state map `{}` expected the columns ({}), found ({})",
        schema.name,
        expected.join(", "),
        found.join(", ")
    )))
}

fn name(field: &FieldRef) -> &str {
    field.name()
}

fn deadlines_in(deadlines: &ArrayRef) -> Result<Vec<Option<i64>>> {
    match deadlines.data_type() {
        DataType::Int64 => Ok(deadlines.as_primitive::<Int64Type>().iter().collect()),
        other => Err(Error::InvalidInput(format!("deadlines must be int64 (ms since the epoch), found {other}"))),
    }
}

/// Value columns, `updated_at` and `deadline`, null where nothing was found.
fn found_batch(schema: &MapSchema, found: Found) -> Result<RecordBatch> {
    let rows = found.found.len();
    let mut fields: Vec<FieldRef> = schema.value.iter().cloned().collect();
    fields.push(Arc::new(Field::new(UPDATED_AT, time_type(), true)));
    fields.push(Arc::new(Field::new(DEADLINE, time_type(), true)));
    let updated_at = found.found.iter().zip(&found.updated_at).map(|(&found, &at)| found.then_some(at));
    let updated_at: TimestampMillisecondArray = updated_at.collect();
    let mut columns = found.values;
    columns.push(Arc::new(updated_at.with_timezone("UTC")));
    columns.push(Arc::new(TimestampMillisecondArray::from(found.deadline).with_timezone("UTC")));
    batch(Arc::new(Schema::new(fields)), columns, rows)
}
