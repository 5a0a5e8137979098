//! `StateMap`: one key range of one version of a state map, and the changes made to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, TimestampMillisecondArray, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use pyo3::prelude::*;
use tidemill_core::schema::{DEADLINE, UPDATED_AT, time_type};
use tidemill_core::{Changes, Error, Found, KeyRange, Keys, MapSchema, Result, SortedRun, StateMap, offsets};

use crate::arrow::{array_in, array_out, batch, batch_in, batch_out};
use crate::error::{Raise, invalid};
use crate::map_schema::PyMapSchema;
use crate::run::{PyRun, place_out};

/// The first and the longest pause between checks whether another thread has finished its change.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

/// One key range of one version of a state map, and the changes made to it since it was opened.
///
/// INVARIANT: `contents` is locked only by a thread with the GIL, and only briefly. Long work is done on a fork, which
/// then replaces the map. So no thread waits long, and a forked process never finds it locked.
/// INVARIANT: no Python code runs while a `Turn` is held, because it could ask for another turn. Arguments are dropped
/// after the turn ends.
#[pyclass(name = "StateMap", module = "tidemill._native", frozen)]
pub(crate) struct PyStateMap {
    contents: Mutex<Contents>,
}

struct Contents {
    map: StateMap,
    /// The process that has a thread at work on a replacement of the map. If it is not this process, it is the parent
    /// that forked this one, which has none of the parent's threads.
    changed_by: Option<u32>,
}

impl PyStateMap {
    /// The Python object for `map`.
    pub(crate) fn wrap(map: StateMap) -> Self {
        Self { contents: Mutex::new(Contents { map, changed_by: None }) }
    }

    /// Fork the map.
    pub(crate) fn fork(&self, py: Python<'_>) -> StateMap {
        self.with(py, StateMap::copy)
    }

    /// Call `look` with the map. It must be quick and must not create Python objects.
    pub(crate) fn with<T>(&self, _py: Python<'_>, look: impl FnOnce(&StateMap) -> T) -> T {
        look(&self.lock().map)
    }

    /// Wait for the turn to change the map, then change it if `may` returns true, else return `None`.
    ///
    /// `work` runs without the GIL on a fork, which replaces the map only if `work` succeeds. `then` runs at the moment
    /// of the replacement.
    pub(crate) fn change_if<T: Send>(
        &self,
        py: Python<'_>,
        may: impl FnOnce() -> bool,
        work: impl FnOnce(&mut StateMap) -> Result<T> + Send,
        then: impl FnOnce(),
    ) -> PyResult<Option<T>> {
        let turn = Turn::take(py, self)?;
        if may() { self.change_in(py, turn, work, then).map(Some) } else { Ok(None) }
    }

    /// Change the map. `work` runs without the GIL on a fork, which replaces the map only if `work` succeeds.
    pub(crate) fn change<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut StateMap) -> Result<T> + Send,
    ) -> PyResult<T> {
        let turn = Turn::take(py, self)?;
        self.change_in(py, turn, work, || ())
    }

    fn change_in<T: Send>(
        &self,
        py: Python<'_>,
        turn: Turn<'_>,
        work: impl FnOnce(&mut StateMap) -> Result<T> + Send,
        then: impl FnOnce(),
    ) -> PyResult<T> {
        let mut map = self.fork(py);
        let made = py.detach(|| work(&mut map));
        if made.is_ok() {
            std::mem::swap(&mut self.lock().map, &mut map);
            then();
        }
        drop(turn);
        py.detach(move || drop(map)); // may take long, and the owner of an imported array may need the GIL
        made.raise(py)
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right of one thread to change the map, until this is dropped. Dropping it needs the GIL.
struct Turn<'a>(&'a PyStateMap);

impl<'a> Turn<'a> {
    /// Wait until no other thread of this process has the turn. An exception of a signal handler, such as
    /// `KeyboardInterrupt`, ends the wait.
    fn take(py: Python<'_>, map: &'a PyStateMap) -> PyResult<Self> {
        let process = std::process::id();
        let (mut pause, longest) = PAUSES;
        loop {
            let mut contents = map.lock();
            if contents.changed_by != Some(process) {
                contents.changed_by = Some(process);
                return Ok(Self(map));
            }
            drop(contents);
            py.detach(|| std::thread::sleep(pause));
            pause = longest.min(pause * 2);
            py.check_signals()?;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().changed_by = None;
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
        Self::wrap(self.fork(py))
    }

    fn next_version(&self, py: Python<'_>) -> PyResult<Self> {
        let map = self.fork(py);
        Ok(Self::wrap(py.detach(|| map.next_version()).raise(py)?))
    }

    fn base(&self, py: Python<'_>) -> PyResult<PyRun> {
        let map = self.fork(py);
        Ok(PyRun { run: py.detach(|| map.base()).raise(py)? })
    }

    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, StateMap::compact)
    }

    fn runs(&self, py: Python<'_>) -> Vec<PyRun> {
        self.fork(py).runs().iter().map(|run| PyRun { run: run.clone() }).collect()
    }

    fn deltas(&self, py: Python<'_>) -> usize {
        self.with(py, StateMap::deltas)
    }

    fn updated_before<'py>(&self, py: Python<'py>, threshold_ms: i64) -> PyResult<Bound<'py, PyAny>> {
        let map = self.fork(py);
        let rows = py.detach(|| map.updated_before(threshold_ms)?.into_batch(map.schema()));
        batch_out(py, &rows.raise(py)?)
    }

    fn scan<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let map = self.fork(py);
        let rows = py.detach(|| map.scan()?.into_batch(map.schema()));
        batch_out(py, &rows.raise(py)?)
    }

    fn count_parts(&self, py: Python<'_>, rows: usize) -> u64 {
        self.with(py, |map| map.count_parts(rows))
    }

    fn part(&self, py: Python<'_>, number: u64, count: u64) -> PyResult<Self> {
        let map = self.fork(py);
        let part = py.detach(|| map.part(number, count));
        part.map(Self::wrap).ok_or_else(|| invalid(py, &format!("a state map has no part {number} of {count}")))
    }

    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let keys = batch_in(keys)?;
        let map = self.fork(py);
        let answer = py.detach(|| {
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
        self.change(py, |map| {
            let schema = Arc::clone(map.schema());
            check_names(&schema, values.schema_ref(), &[&schema.value])?;
            let mut changes = changes_of_keys(&schema, &keys, updated_ms)?;
            changes.values = values.columns().to_vec();
            if let Some(deadlines) = &deadlines {
                changes.deadline = deadlines_in(deadlines)?;
            }
            map.change(&changes)
        })
    }

    fn remove_many(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let keys = batch_in(keys)?;
        self.change(py, |map| {
            let schema = Arc::clone(map.schema());
            let mut changes = changes_of_keys(&schema, &keys, 0)?;
            changes.values =
                schema.value.iter().map(|field| new_null_array(field.data_type(), keys.num_rows())).collect();
            changes.deleted.fill(true);
            map.change(&changes)
        })
    }

    fn get_due<'py>(&self, py: Python<'py>, now_ms: i64) -> PyResult<Bound<'py, PyAny>> {
        // This changes the map, which remembers up to which deadline rows are hidden.
        let rows = self.change(py, |map| map.due(now_ms)?.into_batch(&Arc::clone(map.schema())))?;
        batch_out(py, &rows)
    }

    fn next_deadline(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.change(py, |map| Ok(map.next_deadline()))
    }

    fn due_places(&self, py: Python<'_>) -> PyResult<Vec<(i64, u64)>> {
        let places = self.change(py, |map| Ok(map.due_places()))?;
        Ok(places.into_iter().map(place_out).collect())
    }

    fn spent_runs(&self, py: Python<'_>) -> PyResult<usize> {
        self.change(py, |map| Ok(map.spent_runs()))
    }

    fn delta(&self, py: Python<'_>) -> PyResult<Option<PyRun>> {
        let map = self.fork(py);
        Ok(py.detach(|| map.delta()).raise(py)?.map(|run| PyRun { run }))
    }

    fn live_change(&self, py: Python<'_>) -> i64 {
        let map = self.fork(py);
        py.detach(|| map.live_change())
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        let map = self.fork(py);
        py.detach(|| map.len())
    }
}

/// Hash the columns of `keys` as keys of a map of this schema.
fn map_keys(schema: &MapSchema, keys: &RecordBatch) -> Result<Keys> {
    check_names(schema, keys.schema_ref(), &[&schema.key, &schema.sub_key])?;
    let (key, sub_key) = keys.columns().split_at(schema.key.len());
    Keys::with_sub_keys(key, sub_key, keys.num_rows())
}

/// Make changes that put `keys` without values and deadlines.
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

/// Return `InvalidInput` unless the columns of `found` have the names of the fields of `expected`, in that order.
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

/// Return the value columns, `updated_at` and `deadline`, which are null if the key was not found.
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
