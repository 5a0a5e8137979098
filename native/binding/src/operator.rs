//! `Operator`, `Pass` and `Prepared`: a keyed operator in one task.
//!
//! INVARIANT: the operator works on forks of its maps, so that a pass that fails leaves the caller's maps unchanged.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{BooleanArray, Int64Array, RecordBatch, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tidemill_core::operator::{
    Blocks, Chunks, Combine, Operator, Ordered, Origin, Output, Pass, PassKind, Places, Prepared, Quarantined,
    places_of,
};
use tidemill_core::{Error, Result, StateMap};

use crate::arrow::{array_in, array_out, batch_in, batch_out, schema_out};
use crate::error::{Raise, invalid};
use crate::map::PyStateMap;
use crate::map_schema::PyMapSchema;

/// One pass of a batch.
#[pyclass(name = "Pass", module = "tidemill._native", frozen)]
pub(crate) struct PyPass {
    pass: Pass,
}

#[pymethods]
impl PyPass {
    #[new]
    fn new(
        py: Python<'_>,
        kind: &str,
        batch_time_ms: i64,
        late_ms: Option<i64>,
        watermark_ms: Option<i64>,
    ) -> PyResult<Self> {
        let kind = match kind {
            "data" => PassKind::Data,
            "due" => PassKind::Due,
            other => {
                return Err(invalid(py, &format!("the kind of a pass must be \"data\" or \"due\", found {other:?}")));
            }
        };
        Ok(Self { pass: Pass { kind, batch_time_ms, late_ms, watermark_ms, begins: false } })
    }

    fn beginning(&self) -> Self {
        Self { pass: Pass { begins: true, ..self.pass } }
    }

    #[getter]
    fn kind(&self) -> &'static str {
        match self.pass.kind {
            PassKind::Data => "data",
            PassKind::Due => "due",
        }
    }

    #[getter]
    fn batch_time_ms(&self) -> i64 {
        self.pass.batch_time_ms
    }

    #[getter]
    fn late_ms(&self) -> Option<i64> {
        self.pass.late_ms
    }

    #[getter]
    fn watermark_ms(&self) -> Option<i64> {
        self.pass.watermark_ms
    }

    #[getter]
    fn begins(&self) -> bool {
        self.pass.begins
    }
}

/// What an operator sends through the exchange for one block.
#[pyclass(name = "Prepared", module = "tidemill._native", frozen)]
pub(crate) struct PyPrepared {
    rows: RecordBatch,
    late: Option<BooleanBuffer>,
    made_of: Option<UInt32Array>,
}

#[pymethods]
impl PyPrepared {
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        batch_out(py, &self.rows)
    }

    #[getter]
    fn late<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.late.as_ref().map(|late| array_out(py, &BooleanArray::new(late.clone(), None))).transpose()
    }

    #[getter]
    fn made_of<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.made_of.as_ref().map(|rows| array_out(py, rows)).transpose()
    }
}

/// A keyed operator in one task.
#[pyclass(name = "Operator", module = "tidemill._native", frozen)]
pub(crate) struct PyOperator {
    task: Mutex<Task>,
}

/// The most characters of a reason, because every commit stores it.
const LONGEST_FAILURE: usize = 500;

struct Task {
    name: String,
    operator: Box<dyn Operator>,
    maps: Maps,
    quarantined: Vec<ChunkQuarantine>,
    /// The order numbers of the rows that the last pass emitted.
    order: Vec<i64>,
    /// Why they were emitted, and how many they are; `None` unless that is kept.
    origin: Option<(Origin, usize)>,
    /// Whether its rows go to operators only.
    is_for_operators: bool,
    /// One of the reasons why calls failed: the first in alphabetical order, so that it does not depend on the tasks.
    failure: Option<String>,
}

/// The places of the rows of a chunk: a block for each or one for all, and their rows there.
pub(crate) type GivenPlaces<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The places of emitted rows.
type ShownPlaces<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The index of a chunk, its quarantined rows as a `pyarrow.RecordBatch`, and a reason for each row.
type ShownQuarantined<'py> = (u32, Bound<'py, PyAny>, Vec<String>);

/// The quarantined rows of one chunk, in its order, and a reason for each.
struct ChunkQuarantine {
    chunk: u32,
    rows: RecordBatch,
    reasons: Vec<String>,
}

enum Maps {
    NotOpened,
    Open(Vec<StateMap>),
    /// The operator has finished, or a pass failed and left its maps half changed.
    Spent,
}

impl PyOperator {
    /// The Python object for `operator`.
    pub(crate) fn new(name: String, operator: impl Operator + 'static) -> Self {
        let operator = Box::new(operator);
        let task = Task {
            name,
            operator,
            maps: Maps::NotOpened,
            quarantined: Vec::new(),
            order: Vec::new(),
            origin: None,
            is_for_operators: false,
            failure: None,
        };
        Self { task: Mutex::new(task) }
    }

    /// Lock the task without waiting. A thread that waited here with the GIL would block a user's function, which needs
    /// the GIL, forever.
    fn task(&self) -> Result<MutexGuard<'_, Task>> {
        match self.task.try_lock() {
            Ok(task) => Ok(task),
            Err(TryLockError::Poisoned(_)) => Err(Error::InternalError("an operator is used after it panicked".into())),
            Err(TryLockError::WouldBlock) => Err(Error::InternalError("an operator is used by two threads".into())),
        }
    }
}

#[pymethods]
impl PyOperator {
    fn map_schemas(&self, py: Python<'_>) -> PyResult<Vec<PyMapSchema>> {
        let task = self.task().raise(py)?;
        Ok(task.operator.signature().maps.iter().map(|schema| PyMapSchema::wrap(Arc::new(schema.clone()))).collect())
    }

    fn output_schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = self.task().raise(py)?.operator.signature().output.clone();
        schema_out(py, &schema)
    }

    fn prepared_schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = self.task().raise(py)?.operator.signature().prepared.clone();
        schema_out(py, &schema)
    }

    #[pyo3(signature = (rows, pass_, combine=true))]
    fn prepare(&self, py: Python<'_>, rows: &Bound<'_, PyAny>, pass_: &PyPass, combine: bool) -> PyResult<PyPrepared> {
        let rows = batch_in(rows)?;
        let combine = if combine { Combine::Split } else { Combine::Nothing };
        let prepared = py.detach(|| self.task()?.operator.prepare(&rows, &pass_.pass, combine)).raise(py)?;
        let Prepared { rows, late, made_of } = prepared;
        Ok(PyPrepared { rows, late, made_of })
    }

    fn rest<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let rest = py.detach(|| self.task()?.operator.rest()).raise(py)?;
        rest.map(|rows| batch_out(py, &rows)).transpose()
    }

    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the arguments from Python objects")]
    fn prepare_splits<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        counts: Vec<usize>,
        pass_: &PyPass,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rows = batch_in(rows)?;
        if counts.iter().sum::<usize>() != rows.num_rows() {
            return Err(invalid(py, &format!("the splits have {} rows", rows.num_rows())));
        }
        let prepared =
            py.detach(|| prepare_each(&mut *self.task()?.operator, &rows, &counts, &pass_.pass)).raise(py)?;
        batch_out(py, &prepared)
    }

    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the arguments from Python objects")]
    fn open(&self, py: Python<'_>, maps: Vec<PyRef<'_, PyStateMap>>) -> PyResult<()> {
        let maps = maps.iter().map(|map| map.fork(py)).collect();
        self.task().raise(py)?.open(maps).raise(py)
    }

    #[pyo3(signature = (chunks, pass_, ports=None))]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the arguments from Python objects")]
    fn apply<'py>(
        &self,
        py: Python<'py>,
        chunks: Vec<Bound<'py, PyAny>>,
        pass_: &PyPass,
        ports: Option<Vec<u8>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let chunks = chunks.iter().map(batch_in).collect::<PyResult<Vec<_>>>()?;
        let rows = py.detach(|| {
            let chunks = match &ports {
                Some(ports) => Chunks::of_inputs(&chunks, ports)?,
                None => Chunks::of_one_input(&chunks),
            };
            self.task()?.apply(&chunks, &pass_.pass)
        });
        let rows = rows.raise(py)?;
        batch_out(py, &rows)
    }

    fn take_order<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let order = std::mem::take(&mut self.task().raise(py)?.order);
        array_out(py, &Int64Array::from(order))
    }

    fn keep_origins(&self, py: Python<'_>, for_operators: bool) -> PyResult<()> {
        let mut task = self.task().raise(py)?;
        task.origin = Some((Origin::Keys, 0));
        task.is_for_operators = for_operators;
        Ok(())
    }

    /// Return the places of the rows that the last pass emitted, given those of its chunks.
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the arguments from Python objects")]
    fn take_places<'py>(&self, py: Python<'py>, given: Vec<GivenPlaces<'py>>) -> PyResult<ShownPlaces<'py>> {
        let given = given.iter().map(|(blocks, rows)| places_in(blocks, rows)).collect::<PyResult<Vec<_>>>()?;
        let kept = self.task().raise(py)?.origin.as_mut().map(|kept| std::mem::replace(kept, (Origin::Keys, 0)));
        let (origin, count) = kept.unwrap_or((Origin::Keys, 0));
        let (blocks, rows) = py.detach(|| places_of(&origin, count, &given)).raise(py)?;
        Ok((array_out(py, &blocks)?, array_out(py, &rows)?))
    }

    fn take_quarantined<'py>(&self, py: Python<'py>) -> PyResult<Vec<ShownQuarantined<'py>>> {
        let quarantined = std::mem::take(&mut self.task().raise(py)?.quarantined);
        let shown = |found: ChunkQuarantine| Ok((found.chunk, batch_out(py, &found.rows)?, found.reasons));
        quarantined.into_iter().map(shown).collect()
    }

    fn finish(&self, py: Python<'_>) -> PyResult<Vec<PyStateMap>> {
        let maps = self.task().raise(py)?.finish().raise(py)?;
        Ok(maps.into_iter().map(PyStateMap::wrap).collect())
    }

    /// Do nothing: the operator holds no resources.
    fn close(&self) {}

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (found, failure) = {
            let task = self.task().raise(py)?;
            (task.operator.metrics(), task.failure.clone())
        };
        let metrics = PyDict::new(py);
        metrics.set_item("rows", found.rows)?;
        metrics.set_item("rows_updated", found.rows_updated)?;
        metrics.set_item("rows_removed", found.rows_removed)?;
        metrics.set_item("timed_out", found.timed_out)?;
        metrics.set_item("failed", found.failed)?;
        metrics.set_item("failure", failure.unwrap_or_default())?;
        Ok(metrics)
    }
}

impl Task {
    fn open(&mut self, maps: Vec<StateMap>) -> Result<()> {
        if !matches!(self.maps, Maps::NotOpened) {
            return Err(self.misused("was opened twice"));
        }
        let schemas = &self.operator.signature().maps;
        let fit = maps.len() == schemas.len()
            && maps.iter().zip(schemas).all(|(map, schema)| map.schema().has_columns_of(schema));
        if !fit {
            return Err(self.misused("was opened with maps whose columns are not its own"));
        }
        self.maps = Maps::Open(maps);
        Ok(())
    }

    fn apply(&mut self, chunks: &Chunks<'_>, pass: &Pass) -> Result<RecordBatch> {
        let mut maps = self.take_maps()?;
        let mut out = Output::new(self.operator.signature().output.clone());
        out = match (&self.origin, self.is_for_operators) {
            (None, _) => out,
            (Some(_), false) => out.with_origins(),
            (Some(_), true) => out.for_operators(),
        };
        self.operator.apply(chunks, &mut maps, pass, &mut out)?;
        self.maps = Maps::Open(maps);
        let quarantined = out.take_quarantined();
        let reasons = quarantined.iter().map(|found| &found.reason).chain(&self.failure);
        self.failure = reasons.min().map(|reason| reason.chars().take(LONGEST_FAILURE).collect());
        self.quarantined.extend(by_chunk(chunks, quarantined)?);
        let Ordered { rows, numbers, origin } = out.into_ordered()?;
        self.order = numbers;
        self.origin = self.origin.take().map(|_| (origin, rows.num_rows()));
        Ok(rows)
    }

    fn finish(&mut self) -> Result<Vec<StateMap>> {
        self.take_maps()
    }

    /// Take the open maps. Until they are put back, the operator is spent.
    fn take_maps(&mut self) -> Result<Vec<StateMap>> {
        match std::mem::replace(&mut self.maps, Maps::Spent) {
            Maps::Open(maps) => Ok(maps),
            Maps::NotOpened => {
                self.maps = Maps::NotOpened;
                Err(self.misused("was used before it was opened"))
            }
            Maps::Spent => Err(self.misused("was used after it was finished or had failed")),
        }
    }

    fn misused(&self, how: &str) -> Error {
        Error::InternalError(format!("operator `{}` {how}", self.name))
    }
}

/// Import the places of the rows of a chunk.
pub(crate) fn places_in(blocks: &Bound<'_, PyAny>, rows: &Bound<'_, PyAny>) -> PyResult<Places> {
    let numbers = |array: &Bound<'_, PyAny>| {
        let array = array_in(array)?;
        array.as_primitive_opt::<Int64Type>().cloned().ok_or_else(|| invalid(rows.py(), "places must be int64"))
    };
    let blocks = match blocks.extract() {
        Ok(block) => Blocks::One(block),
        Err(_) => Blocks::Each(numbers(blocks)?),
    };
    Places::new(blocks, numbers(rows)?).raise(rows.py())
}

/// Group the rows that a pass quarantined by chunk.
fn by_chunk(chunks: &[RecordBatch], quarantined: Vec<Quarantined>) -> Result<Vec<ChunkQuarantine>> {
    let mut rows_of: BTreeMap<u32, Vec<(u32, String)>> = BTreeMap::new();
    for Quarantined { rows, reason } in quarantined {
        for at in rows {
            rows_of.entry(at.chunk).or_default().push((at.row, reason.clone()));
        }
    }
    let grouped = rows_of.into_iter().map(|(chunk, mut rows)| {
        rows.sort_unstable();
        let picks: UInt32Array = rows.iter().map(|row| row.0).collect();
        let reasons = rows.into_iter().map(|row| row.1).collect();
        Ok(ChunkQuarantine { chunk, rows: take_record_batch(&chunks[chunk as usize], &picks)?, reasons })
    });
    grouped.collect()
}

/// Prepare the rows of splits one after the other, none of which is late, and return what all of them send.
fn prepare_each(operator: &mut dyn Operator, rows: &RecordBatch, counts: &[usize], pass: &Pass) -> Result<RecordBatch> {
    let (mut parts, mut start) = (Vec::with_capacity(counts.len()), 0);
    for count in counts {
        let prepared = operator.prepare(&rows.slice(start, *count), pass, Combine::Split)?;
        if prepared.late.is_some_and(|late| late.count_set_bits() > 0) {
            return Err(Error::InternalError("a row of several splits that were prepared together is late".into()));
        }
        parts.push(prepared.rows);
        parts.extend(operator.rest()?);
        start += count;
    }
    let schema = operator.signature().prepared.clone();
    Ok(concat_batches(&schema, &parts)?)
}
