//! The calls of one visit: for each key or timer, call the processor and collect its output.
//!
//! INVARIANT: if keys may be quarantined, a key whose call failed is not called again in the visit, and changes
//! nothing. Its variables and timers stay as stored, and the output of its earlier timers is dropped.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tidemill_core::Result;
use tidemill_core::operator::{Answer, Cause, Processor, ProcessorVisit as Visit, RowAt, Stored, TimeMode, Written};

use super::call_site::MethodCall;
use super::current_key::CurrentKey;
use super::frames::{FrameKind, Frames};
use super::list_state::PyListState;
use super::map_state::PyMapState;
use super::shown::{InitialKind, KeyKind, Keys, RowKind};
use super::timers::PyTimers;
use super::times::{PyExpiredTimerInfo, PyTimerValues};
use super::value_state::PyValueState;
use crate::caller::{OnError, iterate_rows, unreadable};
use crate::error::external;
use crate::key_rows::{PyKeyRows, RowSource, Values};
use crate::value::{Builder, Refused, Shape, Zone};

/// A variable of a processor.
pub(super) enum Variable {
    Value(Py<PyValueState>),
    List(Py<PyListState>),
    Map(Py<PyMapState>),
}

impl Variable {
    pub(super) fn follow(&self, py: Python<'_>, at: &CurrentKey) -> PyResult<()> {
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

    fn forget(&self, py: Python<'_>, key: usize) -> PyResult<()> {
        match self {
            Self::Value(state) => state.bind(py).try_borrow_mut()?.forget(key),
            Self::List(state) => state.bind(py).try_borrow_mut()?.forget(key),
            Self::Map(state) => state.bind(py).try_borrow_mut()?.forget(key),
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

/// A user's processor, and the shapes of its arguments.
pub(super) struct PythonProcessor {
    pub(super) operator: String,
    pub(super) on_error: OnError,
    pub(super) processor: Py<PyAny>,
    pub(super) time_mode: TimeMode,
    pub(super) key: KeyKind,
    pub(super) row: RowKind,
    pub(super) initial: InitialKind,
    /// How to convert rows to pandas frames; `None`: the processor is given rows.
    pub(super) frames: Option<FrameKind>,
    pub(super) variables: Vec<Variable>,
    pub(super) timers: Py<PyTimers>,
    pub(super) at: CurrentKey,
    pub(super) output: Shape,
    pub(super) output_schema: SchemaRef,
    /// The time zone of what rows hold: aware times.
    pub(super) aware: Arc<Zone>,
    /// The time zone of all else.
    pub(super) zone: Zone,
}

impl Processor for PythonProcessor {
    fn call(&mut self, visit: &Visit<'_>) -> Result<Answer> {
        Python::attach(|py| {
            self.begin(py, visit).map_err(external)?;
            let mut calls = Calls::new(py, self, visit)?;
            let done = match visit.cause {
                Cause::Rows { rows, ends, .. } => calls.rows(rows, ends),
                Cause::Initial { ends, .. } => calls.initial(ends),
                Cause::Timers(fires) => calls.timers(fires),
            };
            self.at.leave();
            done?;
            calls.finish()
        })
    }
}

impl PythonProcessor {
    /// The rows that a visit has; of timers there are none.
    fn source(&self, visit: &Visit<'_>) -> Result<Option<Arc<RowSource>>> {
        match visit.cause {
            Cause::Rows { chunks, rows, .. } => {
                let values = Values::new(&self.operator, &self.row.columns, chunks, rows)?;
                Ok(Some(RowSource::new(values, &self.row.shape, &self.aware)))
            }
            Cause::Initial { rows, .. } => {
                let values = Values::of_batch(&self.initial.shown(rows)?);
                Ok(Some(RowSource::new(values, &self.initial.shape, &self.aware)))
            }
            Cause::Timers(_) => Ok(None),
        }
    }

    fn timers<'py>(&self, py: Python<'py>) -> PyResult<PyRefMut<'py, PyTimers>> {
        Ok(self.timers.bind(py).try_borrow_mut()?)
    }

    /// Adds a row from the processor, whole or not at all, so that its key can be quarantined.
    fn parse(&self, row: &Bound<'_, PyAny>, outputs: &mut [Builder]) -> std::result::Result<(), Refused> {
        if self.on_error == OnError::Fail {
            return self.output.parse_into(row, &self.zone, outputs);
        }
        let parsed = self.output.parse(row, &self.zone)?;
        self.output.append(row.py(), &parsed, outputs).map_err(Refused::Raised)
    }

    /// Discards all changes of this key in this visit.
    fn forget(&self, py: Python<'_>, key: usize) -> PyResult<()> {
        self.variables.iter().try_for_each(|variable| variable.forget(py, key))?;
        self.timers(py)?.forget(key);
        Ok(())
    }

    fn begin(&self, py: Python<'_>, visit: &Visit<'_>) -> PyResult<()> {
        for (variable, stored) in self.variables.iter().zip(visit.stored) {
            variable.begin(py, stored)?;
        }
        if let Some(stored) = visit.stored.last() {
            self.timers(py)?.begin(stored);
        }
        Ok(())
    }
}

/// How rows get to the processor and back.
enum Exchange<'py> {
    Rows { source: Option<Arc<RowSource>>, outputs: Vec<Builder>, emitted_by: Vec<u32> },
    Frames(Frames<'py>),
}

/// The calls of one visit.
struct Calls<'a, 'py> {
    py: Python<'py>,
    of: &'a PythonProcessor,
    keys: Keys<'a>,
    times: Bound<'py, PyTimerValues>,
    /// The method that this visit calls.
    method: &'static str,
    exchange: Exchange<'py>,
    /// The expiry of each timer that fired, and how many rows were emitted in all when its call had ended.
    fired: Vec<(i64, usize)>,
    /// The keys whose calls failed, and why.
    failed: BTreeMap<u32, String>,
}

impl<'a, 'py> Calls<'a, 'py> {
    fn new(py: Python<'py>, of: &'a PythonProcessor, visit: &Visit<'_>) -> Result<Self> {
        let exchange = match &of.frames {
            Some(kind) => Exchange::Frames(Frames::open(py, kind, &of.operator, &of.row.columns, &of.initial, visit)?),
            None => Exchange::Rows { source: of.source(visit)?, outputs: of.output.builders(), emitted_by: Vec::new() },
        };
        Ok(Self {
            py,
            of,
            keys: Keys::of(&of.key, visit, &of.aware, &of.zone),
            times: Bound::new(py, PyTimerValues::of(visit.pass, of.time_mode)).map_err(external)?,
            method: match visit.cause {
                Cause::Rows { .. } => "handleInputRows",
                Cause::Initial { .. } => "handleInitialState",
                Cause::Timers(_) => "handleExpiredTimer",
            },
            exchange,
            fired: Vec::new(),
            failed: BTreeMap::new(),
        })
    }

    fn rows(&mut self, rows: &[RowAt], ends: &[usize]) -> Result<()> {
        let method = self.method()?;
        let mut start = 0;
        for (number, &end) in (0u32..).zip(ends) {
            let called = self.call_with_rows(&method, number, start..end, one_chunk(&rows[start..end]));
            self.unless_failed(number, called)?;
            start = end;
        }
        Ok(())
    }

    fn call_with_rows(
        &mut self,
        method: &Bound<'py, PyAny>,
        number: u32,
        rows: Range<usize>,
        chunk: Option<u32>,
    ) -> Result<()> {
        let key = self.key_of_rows(number, chunk)?;
        let place = self.place(&key, chunk);
        self.of.at.enter(number as usize);
        let given = self.given(rows)?;
        let answer = method.call1((&key, given, &self.times)).map_err(|error| place.raised(error))?;
        self.take(number, &answer, &place)
    }

    /// One call a row, or one a key with a frame; nothing is emitted.
    fn initial(&self, ends: &[usize]) -> Result<()> {
        let method = self.method()?;
        let mut start = 0;
        for (number, &end) in (0u32..).zip(ends) {
            let key = self.key_of_rows(number, None)?;
            let place = self.place(&key, None);
            self.of.at.enter(number as usize);
            for given in self.given_initially(start..end)?.try_iter().map_err(external)? {
                let given = given.map_err(|error| place.raised(error))?;
                method.call1((&key, given, &self.times)).map_err(|error| place.raised(error))?;
            }
            start = end;
        }
        Ok(())
    }

    fn given(&self, rows: Range<usize>) -> Result<Bound<'py, PyAny>> {
        match &self.exchange {
            Exchange::Rows { source: Some(source), .. } => {
                let rows = Bound::new(self.py, PyKeyRows::new(Arc::clone(source), rows)).map_err(external)?;
                Ok(rows.into_any())
            }
            Exchange::Rows { source: None, .. } => Ok(PyList::empty(self.py).into_any()),
            Exchange::Frames(frames) => frames.rows(rows),
        }
    }

    fn given_initially(&self, rows: Range<usize>) -> Result<Bound<'py, PyAny>> {
        match &self.exchange {
            Exchange::Rows { .. } => self.given(rows),
            Exchange::Frames(frames) => Ok(PyList::new(self.py, [frames.whole(rows)?]).map_err(external)?.into_any()),
        }
    }

    /// Takes all that a call gives back.
    fn take(&mut self, key: u32, answer: &Bound<'py, PyAny>, place: &MethodCall<'_, '_>) -> Result<()> {
        match &mut self.exchange {
            Exchange::Frames(frames) => frames.take(key, answer, place),
            Exchange::Rows { outputs, emitted_by, .. } => {
                let rows = iterate_rows(answer).map_err(|error| place.raised(error))?;
                for item in rows.ok_or_else(|| place.not_rows(answer))? {
                    let item = item.map_err(|error| place.raised(error))?;
                    self.of.parse(&item, outputs).map_err(|refused| place.misfit(refused))?;
                    emitted_by.push(key);
                }
                Ok(())
            }
        }
    }

    /// How many rows the calls of this visit have emitted.
    fn emitted_so_far(&self) -> PyResult<usize> {
        match &self.exchange {
            Exchange::Rows { emitted_by, .. } => Ok(emitted_by.len()),
            Exchange::Frames(frames) => frames.taken(),
        }
    }

    fn method(&self) -> Result<Bound<'py, PyAny>> {
        self.of.processor.bind(self.py).getattr(self.method).map_err(external)
    }

    fn timers(&mut self, fires: &[(u32, i64)]) -> Result<()> {
        let method = self.method()?;
        for &(number, expiry_ms) in fires {
            if self.failed.contains_key(&number) {
                continue;
            }
            let called = self.call_with_timer(&method, number, expiry_ms);
            let emitted = self.emitted_so_far().map_err(external)?;
            self.fired.push((expiry_ms, emitted));
            if self.unless_failed(number, called)? {
                self.of.timers(self.py).map_err(external)?.remove_fired(number as usize, expiry_ms);
            }
        }
        Ok(())
    }

    fn call_with_timer(&mut self, method: &Bound<'py, PyAny>, number: u32, expiry_ms: i64) -> Result<()> {
        let key = self.key(number, None)?;
        let place = self.place(&key, None);
        self.of.at.enter(number as usize);
        let named = self.named(&key, expiry_ms).map_err(external)?;
        let answer = method.call((), Some(&named)).map_err(|error| place.raised(error))?;
        self.take(number, &answer, &place)
    }

    /// Whether a call has succeeded. If it failed and its key is to be quarantined, discard all changes of the key.
    fn unless_failed(&mut self, number: u32, called: Result<()>) -> Result<bool> {
        let Err(error) = called else { return Ok(true) };
        let reason = self.of.on_error.reason(self.py, error)?;
        self.of.forget(self.py, number as usize).map_err(external)?;
        self.failed.insert(number, reason);
        Ok(false)
    }

    fn named(&self, key: &Bound<'py, PyAny>, expiry_ms: i64) -> PyResult<Bound<'py, PyDict>> {
        let named = PyDict::new(self.py);
        named.set_item(intern!(self.py, "key"), key)?;
        named.set_item(intern!(self.py, "timerValues"), &self.times)?;
        named.set_item(intern!(self.py, "expiredTimerInfo"), Bound::new(self.py, PyExpiredTimerInfo { expiry_ms })?)?;
        Ok(named)
    }

    /// The key that a call with rows is about; with frames it is what pandas makes of it, as in PySpark.
    fn key_of_rows(&self, number: u32, chunk: Option<u32>) -> Result<Bound<'py, PyAny>> {
        match &self.exchange {
            Exchange::Rows { .. } => self.key(number, chunk),
            Exchange::Frames(frames) => {
                frames.key(number).map_err(|error| unreadable(self.py, &self.of.operator, error, chunk))
            }
        }
    }

    fn key(&self, number: u32, chunk: Option<u32>) -> Result<Bound<'py, PyAny>> {
        let key = self.keys.get(self.py, number as usize);
        key.map_err(|error| unreadable(self.py, &self.of.operator, error, chunk))
    }

    fn place<'p>(&self, key: &'p Bound<'py, PyAny>, chunk: Option<u32>) -> MethodCall<'p, 'py>
    where
        'a: 'p,
    {
        MethodCall { operator: &self.of.operator, method: self.method, key, chunk }
    }

    fn finish(mut self) -> Result<Answer> {
        let mut written: Vec<Written> =
            self.of.variables.iter().map(|variable| variable.finish(self.py)).collect::<Result<_>>()?;
        written.push(self.of.timers(self.py).map_err(external)?.finish());
        let failed = std::mem::take(&mut self.failed);
        let fired = std::mem::take(&mut self.fired);
        let (mut outputs, mut emitted_by) = self.emitted()?;
        let mut expiries_ms = Vec::with_capacity(if fired.is_empty() { 0 } else { emitted_by.len() });
        for (expiry_ms, end) in fired {
            expiries_ms.resize(end, expiry_ms);
        }
        if !failed.is_empty() {
            let stays: BooleanArray = emitted_by.iter().map(|key| Some(!failed.contains_key(key))).collect();
            outputs = filter_record_batch(&outputs, &stays)?;
            let mut stay = stays.values().iter();
            expiries_ms.retain(|_| stay.next() == Some(true));
            emitted_by.retain(|key| !failed.contains_key(key));
        }
        Ok(Answer { written, outputs, emitted_by, expiries_ms, failed: failed.into_iter().collect() })
    }

    fn emitted(self) -> Result<(RecordBatch, Vec<u32>)> {
        let (columns, emitted_by) = match self.exchange {
            Exchange::Rows { outputs, emitted_by, .. } => (outputs, emitted_by),
            Exchange::Frames(ref frames) => {
                return frames.finish().map_err(|(error, number)| {
                    let Some(number) = number else { return external(error) };
                    match self.key_of_rows(number, None) {
                        Ok(key) => frames.complaint(error, &self.place(&key, None)),
                        Err(error) => error,
                    }
                });
            }
        };
        let columns = columns.into_iter().map(Builder::finish).collect::<Result<_>>()?;
        let outputs = crate::arrow::batch(self.of.output_schema.clone(), columns, emitted_by.len())?;
        Ok((outputs, emitted_by))
    }
}

/// Returns the chunk of the rows, if all rows are in the same chunk.
fn one_chunk(rows: &[RowAt]) -> Option<u32> {
    let chunk = rows.first()?.chunk;
    rows.iter().all(|row| row.chunk == chunk).then_some(chunk)
}
