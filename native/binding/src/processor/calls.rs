//! The calls of one visit: the processor is called for key after key, or timer after timer, and what it yields is taken.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use tidemill_core::Result;
use tidemill_core::operator::{Answer, Calls, Processor, ProcessorVisit as Visit, RowAt, Stored, TimeMode, Written};

use super::at::At;
use super::complaint::Place;
use super::list_state::PyListState;
use super::map_state::PyMapState;
use super::rows::{Feed, PyRows, RowKind};
use super::timers::PyTimers;
use super::times::{PyExpiredTimerInfo, PyTimerValues};
use super::value_state::PyValueState;
use crate::error::external;
use crate::value::{Builder, Decoder, Field, Shape, Zone};

/// A variable of a processor.
pub(super) enum Variable {
    Value(Py<PyValueState>),
    List(Py<PyListState>),
    Map(Py<PyMapState>),
}

impl Variable {
    pub(super) fn follow(&self, py: Python<'_>, at: &At) -> PyResult<()> {
        match self {
            Self::Value(state) => state.bind(py).try_borrow_mut()?.follow(at.clone()),
            Self::List(state) => state.bind(py).try_borrow_mut()?.follow(at.clone()),
            Self::Map(state) => state.bind(py).try_borrow_mut()?.follow(at.clone()),
        }
        Ok(())
    }

    fn begin(&self, py: Python<'_>, stored: &Stored) -> PyResult<()> {
        match self {
            Self::Value(state) => state.bind(py).try_borrow_mut()?.begin(stored),
            Self::List(state) => state.bind(py).try_borrow_mut()?.begin(stored),
            Self::Map(state) => state.bind(py).try_borrow_mut()?.begin(stored),
        }
        Ok(())
    }

    fn finish(&self, py: Python<'_>) -> Result<Written> {
        match self {
            Self::Value(state) => state.bind(py).try_borrow_mut().map_err(|error| external(error.into()))?.finish(py),
            Self::List(state) => state.bind(py).try_borrow_mut().map_err(|error| external(error.into()))?.finish(py),
            Self::Map(state) => state.bind(py).try_borrow_mut().map_err(|error| external(error.into()))?.finish(py),
        }
    }
}

/// A user's processor, and the shapes of what it sees.
pub(super) struct PythonProcessor {
    pub(super) operator: String,
    pub(super) processor: Py<PyAny>,
    pub(super) time_mode: TimeMode,
    pub(super) key: Vec<Field>,
    pub(super) row: Arc<RowKind>,
    /// Rows of the initial state.
    pub(super) initial: Arc<RowKind>,
    pub(super) variables: Vec<Variable>,
    pub(super) timers: Py<PyTimers>,
    pub(super) at: At,
    pub(super) output: Shape,
    pub(super) output_schema: SchemaRef,
    pub(super) zone: Arc<Zone>,
}

impl Processor for PythonProcessor {
    fn call(&mut self, visit: &Visit<'_>) -> Result<Answer> {
        Python::attach(|py| {
            self.begin(py, visit).map_err(external)?;
            let mut run = Run::new(py, self, visit)?;
            let done = match visit.calls {
                Calls::Rows { chunks, rows, ends } => {
                    let feed = Feed::new(Arc::clone(&self.row), chunks, rows)?;
                    run.rows(&Arc::new(Mutex::new(feed)), rows, ends)
                }
                Calls::Initial { rows, ends } => run.initial(rows, ends),
                Calls::Timers(fires) => run.timers(fires),
            };
            self.at.leave();
            done?;
            run.finish()
        })
    }
}

impl PythonProcessor {
    fn begin(&self, py: Python<'_>, visit: &Visit<'_>) -> PyResult<()> {
        for (variable, stored) in self.variables.iter().zip(visit.stored) {
            variable.begin(py, stored)?;
        }
        if let Some(stored) = visit.stored.last() {
            self.timers.bind(py).try_borrow_mut()?.begin(stored);
        }
        Ok(())
    }
}

/// The calls of one visit.
struct Run<'a, 'py> {
    py: Python<'py>,
    of: &'a PythonProcessor,
    keys: Vec<Decoder>,
    times: Bound<'py, PyTimerValues>,
    outputs: Vec<Builder>,
    emitted_by: Vec<u32>,
}

impl<'a, 'py> Run<'a, 'py> {
    fn new(py: Python<'py>, of: &'a PythonProcessor, visit: &Visit<'_>) -> Result<Self> {
        Ok(Self {
            py,
            of,
            keys: visit.keys.columns().iter().zip(&of.key).map(|(c, f)| Decoder::new(c, f)).collect(),
            times: Bound::new(py, PyTimerValues::of(visit.pass, of.time_mode)).map_err(external)?,
            outputs: of.output.builders(),
            emitted_by: Vec::new(),
        })
    }

    fn rows(&mut self, feed: &Arc<Mutex<Feed>>, rows: &[RowAt], ends: &[usize]) -> Result<()> {
        let method = self.method(intern!(self.py, "handleInputRows"))?;
        let mut start = 0;
        for (number, &end) in (0u32..).zip(ends) {
            let key = self.key(number)?;
            let place = self.place("handleInputRows", &key, one_chunk(&rows[start..end]));
            self.of.at.enter(number as usize);
            let given = self.iterator(feed, start..end).map_err(external)?;
            let answer = method.call1((&key, given, &self.times)).map_err(|error| place.raised(error))?;
            take(self.of, &answer, number, &place, &mut self.outputs, &mut self.emitted_by)?;
            start = end;
        }
        Ok(())
    }

    /// One call a row; nothing is emitted.
    fn initial(&mut self, rows: &RecordBatch, ends: &[usize]) -> Result<()> {
        let method = self.method(intern!(self.py, "handleInitialState"))?;
        let all: Vec<RowAt> = (0u32..).take(rows.num_rows()).map(|row| RowAt { chunk: 0, row }).collect();
        let kind = Arc::clone(&self.of.initial);
        let feed = Arc::new(Mutex::new(Feed::named_by_place(kind, rows, &all)));
        let mut start = 0;
        for (number, &end) in (0u32..).zip(ends) {
            let key = self.key(number)?;
            let place = self.place("handleInitialState", &key, None);
            self.of.at.enter(number as usize);
            for row in self.iterator(&feed, start..end).and_then(|rows| rows.try_iter()).map_err(external)? {
                let row = row.map_err(|error| place.raised(error))?;
                method.call1((&key, row, &self.times)).map_err(|error| place.raised(error))?;
            }
            start = end;
        }
        Ok(())
    }

    fn method(&self, name: &Bound<'py, PyString>) -> Result<Bound<'py, PyAny>> {
        self.of.processor.bind(self.py).getattr(name).map_err(external)
    }

    fn timers(&mut self, fires: &[(u32, i64)]) -> Result<()> {
        let method = self.method(intern!(self.py, "handleExpiredTimer"))?;
        for &(number, expiry_ms) in fires {
            let key = self.key(number)?;
            let place = self.place("handleExpiredTimer", &key, None);
            self.of.at.enter(number as usize);
            let named = self.named(&key, expiry_ms).map_err(external)?;
            let answer = method.call((), Some(&named)).map_err(|error| place.raised(error))?;
            take(self.of, &answer, number, &place, &mut self.outputs, &mut self.emitted_by)?;
            let mut timers = self.of.timers.bind(self.py).try_borrow_mut().map_err(|error| external(error.into()))?;
            timers.fired(number as usize, expiry_ms);
        }
        Ok(())
    }

    fn iterator(&self, feed: &Arc<Mutex<Feed>>, rows: Range<usize>) -> PyResult<Bound<'py, PyAny>> {
        Ok(Bound::new(self.py, PyRows { feed: Arc::clone(feed), rows })?.into_any())
    }

    fn named(&self, key: &Bound<'py, PyAny>, expiry_ms: i64) -> PyResult<Bound<'py, PyDict>> {
        let named = PyDict::new(self.py);
        named.set_item(intern!(self.py, "key"), key)?;
        named.set_item(intern!(self.py, "timerValues"), &self.times)?;
        named.set_item(intern!(self.py, "expiredTimerInfo"), Bound::new(self.py, PyExpiredTimerInfo { expiry_ms })?)?;
        Ok(named)
    }

    /// Always a tuple, as in PySpark.
    fn key(&self, number: u32) -> Result<Bound<'py, PyAny>> {
        let key: PyResult<Bound<'py, PyTuple>> = Decoder::tuple(&self.keys, self.py, number as usize, &self.of.zone);
        Ok(key.map_err(external)?.into_any())
    }

    fn place<'p>(&self, method: &'p str, key: &'p Bound<'py, PyAny>, chunk: Option<u32>) -> Place<'p, 'py>
    where
        'a: 'p,
    {
        Place { operator: &self.of.operator, method, key, chunk }
    }

    fn finish(self) -> Result<Answer> {
        let mut written: Vec<Written> =
            self.of.variables.iter().map(|variable| variable.finish(self.py)).collect::<Result<_>>()?;
        let mut timers = self.of.timers.bind(self.py).try_borrow_mut().map_err(|error| external(error.into()))?;
        written.push(timers.finish());
        let columns = self.outputs.into_iter().map(|builder| Ok(builder.finish()?)).collect::<Result<_>>()?;
        let outputs = crate::arrow::batch(self.of.output_schema.clone(), columns, self.emitted_by.len())?;
        Ok(Answer { written, outputs, emitted_by: self.emitted_by })
    }
}

/// Takes all that a call gives back.
fn take(
    of: &PythonProcessor,
    answer: &Bound<'_, PyAny>,
    key: u32,
    place: &Place<'_, '_>,
    outputs: &mut [Builder],
    emitted_by: &mut Vec<u32>,
) -> Result<()> {
    let items = answer.try_iter().map_err(|_| place.not_rows(answer))?;
    for item in items {
        let item = item.map_err(|error| place.raised(error))?;
        of.output.parse_into(&item, &of.zone, outputs).map_err(|refused| place.misfit(refused))?;
        emitted_by.push(key);
    }
    Ok(())
}

/// The chunk that all the rows are of, if it is one.
fn one_chunk(rows: &[RowAt]) -> Option<u32> {
    let chunk = rows.first()?.chunk;
    rows.iter().all(|row| row.chunk == chunk).then_some(chunk)
}
