//! A Python function as the engine's `KeyedFunction`, called row by row (`mapWithState`).
//!
//! Which keys, which rows, in which order, and what becomes of states is decided in the engine. INVARIANT: a `State`
//! that user code kept is retired before the next call.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple, PyType};
use tidemill_core::Result;
use tidemill_core::operator::{KeyedFunction, KeyedFunctionOperator, KeyedFunctionSpec, Returned, Timeout, Visit};

use super::declared::{columns, key_fields, late_rows};
use super::growing::Growing;
use super::state::{Lent, PyState};
use crate::arrow::schema_in;
use crate::caller::{Caller, OnError, Place, unreadable};
use crate::error::{Raise, external, invalid};
use crate::held::{Current, StateKind, retire_if_kept};
use crate::key_rows::Values;
use crate::operator::PyOperator;
use crate::value::{Decoder, Field, Shape, Zone};

/// How the function is called.
#[derive(Clone, Copy)]
pub(crate) enum Arguments {
    /// `f(batchTime, key, value, state)`.
    Four,
    /// `f(value, state)`.
    Two,
}

/// A user's function, and the shapes of what it sees.
pub(crate) struct PythonFunction {
    pub(crate) caller: Caller,
    pub(crate) arguments: Arguments,
    pub(crate) key: Vec<Field>,
    pub(crate) value: Shape,
    /// The columns that `value` is made of.
    pub(crate) value_columns: Vec<String>,
    pub(crate) state: Arc<StateKind>,
    pub(crate) output: Shape,
    pub(crate) output_schema: SchemaRef,
    pub(crate) zone: Arc<Zone>,
}

impl KeyedFunction for PythonFunction {
    fn call(&mut self, visit: &Visit<'_>) -> Result<Returned> {
        Python::attach(|py| Calls::new(py, self, visit)?.run())
    }
}

/// The calls of one visit.
struct Calls<'a, 'py> {
    py: Python<'py>,
    of: &'a PythonFunction,
    visit: &'a Visit<'a>,
    function: &'a Bound<'py, PyAny>,
    batch_time: Bound<'py, PyInt>,
    keys: Vec<Decoder>,
    values: Values,
    state: Bound<'py, PyState>,
    returned: Growing,
}

impl<'a, 'py> Calls<'a, 'py> {
    fn new(py: Python<'py>, of: &'a PythonFunction, visit: &'a Visit<'a>) -> Result<Self> {
        let stored = Arc::new(of.state.shape.decoders(visit.states));
        let state = Bound::new(py, PyState::new(Arc::clone(&of.state), stored)).map_err(external)?;
        Ok(Self {
            py,
            of,
            visit,
            function: of.caller.function.bind(py),
            batch_time: PyInt::new(py, visit.pass.batch_time_ms),
            keys: visit.keys.columns().iter().zip(&of.key).map(|(c, f)| Decoder::new(c, f)).collect(),
            values: Values::new(&of.caller.operator, &of.value_columns, visit.chunks, visit.rows)?,
            state,
            returned: Growing::new(visit.keys.len(), &of.state.shape, &of.output, of.caller.on_error),
        })
    }

    fn run(mut self) -> Result<Returned> {
        let mut start = 0;
        for (key, &end) in (0u32..).zip(self.visit.ends) {
            if let Err(error) = self.visit_key(key, start..end) {
                let reason = self.of.caller.on_error.put_aside(self.py, error)?;
                retire_if_kept(&mut self.state).map_err(external)?;
                self.returned.fail(reason, self.visit.deadlines[key as usize]);
            }
            start = end;
        }
        self.returned.finish(&self.of.output_schema)
    }

    fn visit_key(&mut self, number: u32, rows: Range<usize>) -> Result<()> {
        let place = number as usize;
        let key = self.key(place).map_err(|error| unreadable(self.py, &self.of.caller.operator, error, None))?;
        let exists = self.visit.exists[place];
        let current = if exists { Current::Stored(place) } else { Current::Absent };
        let is_timing_out = self.visit.timing_out;
        self.state.borrow_mut().lend(Lent { key: key.clone().unbind(), current, is_timing_out });
        if is_timing_out {
            let none = self.py.None().into_bound(self.py);
            self.call(number, &key, none, None)?;
        }
        for row in rows {
            let chunk = self.visit.rows[row].chunk;
            let (columns, place) = self.values.at(row, &self.of.value)?;
            let value = self.of.value.decode(columns, self.py, place, &self.of.zone);
            let value = value.map_err(|error| unreadable(self.py, &self.of.caller.operator, error, Some(chunk)))?;
            self.state.borrow_mut().next_call();
            self.call(number, &key, value, Some(chunk))?;
        }
        let lent = self.state.borrow_mut().take_back();
        let current = lent.map_or(Current::Absent, |lent| lent.current);
        let shapes = (&self.of.state.shape, &self.of.output);
        self.returned.settle(self.py, number, shapes, exists, &current).map_err(external)
    }

    /// One column: the scalar; several: a tuple.
    fn key(&self, place: usize) -> PyResult<Bound<'py, PyAny>> {
        match self.keys.as_slice() {
            [only] => only.get(self.py, place, &self.of.zone),
            columns => Ok(Decoder::tuple(columns, self.py, place, &self.of.zone)?.into_any()),
        }
    }

    fn call(
        &mut self,
        number: u32,
        key: &Bound<'py, PyAny>,
        value: Bound<'py, PyAny>,
        chunk: Option<u32>,
    ) -> Result<()> {
        let at = Place { key, chunk };
        let answer = self.arguments(key, value).and_then(|arguments| self.function.call1(arguments));
        let answer = answer.map_err(|error| {
            let is_complaint = self.state.try_borrow().is_ok_and(|state| state.is_own_complaint(self.py, &error));
            self.of.caller.raised(error, at, is_complaint)
        })?;
        retire_if_kept(&mut self.state).map_err(external)?;
        if answer.is_none() {
            return Ok(());
        }
        let emitted = self.returned.emit(number, &answer, &self.of.output, &self.of.zone);
        emitted.map_err(|refused| self.of.caller.misfit(refused, at))
    }

    fn arguments(&self, key: &Bound<'py, PyAny>, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let state = self.state.clone().into_any();
        match self.of.arguments {
            Arguments::Four => PyTuple::new(self.py, [self.batch_time.clone().into_any(), key.clone(), value, state]),
            Arguments::Two => PyTuple::new(self.py, [value, state]),
        }
    }
}

/// `mapWithState` over a Python function.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the stub fixes the signature")]
pub(crate) fn map_with_state(
    py: Python<'_>,
    name: &str,
    key: Vec<String>,
    input_schema: &Bound<'_, PyAny>,
    value: Option<String>,
    function: Py<PyAny>,
    arguments: u8,
    state_schema: &Bound<'_, PyAny>,
    state_unnamed: bool,
    state_type: Option<&Bound<'_, PyType>>,
    output_schema: &Bound<'_, PyAny>,
    output_unnamed: bool,
    timeout_ms: Option<i64>,
    clock: &str,
    event_time: Option<String>,
    late: &str,
    time_zone: &str,
    on_error: &str,
) -> PyResult<PyOperator> {
    let is_one_column = value.is_some();
    let (state, output) = (schema_in(state_schema)?, Arc::new(schema_in(output_schema)?));
    let spec = KeyedFunctionSpec {
        name: name.to_owned(),
        key,
        input: Arc::new(schema_in(input_schema)?),
        values: value.map(|column| vec![column]),
        state: state.fields().clone(),
        output: Arc::clone(&output),
        timeout: timeout(py, timeout_ms, clock)?,
        event_time,
        late: late_rows(py, late)?,
    };
    let zone = Arc::new(Zone::named(py, time_zone)?);
    let value_columns = spec.value_columns();
    let state_shape = Shape::new(py, &state, state_unnamed, state_type)?;
    let function = PythonFunction {
        caller: Caller { operator: name.to_owned(), function, on_error: OnError::named(py, on_error)? },
        arguments: called_with(py, arguments)?,
        key: key_fields(py, &spec)?,
        value: Shape::new(py, &columns(&spec, &value_columns).raise(py)?, is_one_column, None)?,
        value_columns,
        state: Arc::new(StateKind { operator: name.to_owned(), shape: state_shape, zone: Arc::clone(&zone) }),
        output: Shape::new(py, &output, output_unnamed, None)?,
        output_schema: output,
        zone,
    };
    Ok(PyOperator::new(name.to_owned(), KeyedFunctionOperator::new(spec, function).raise(py)?))
}

fn timeout(py: Python<'_>, timeout_ms: Option<i64>, clock: &str) -> PyResult<Timeout> {
    match (timeout_ms, clock) {
        (None, "batch" | "event") => Ok(Timeout::Never),
        (Some(ms), "batch") => Ok(Timeout::BatchTime(ms)),
        (Some(ms), "event") => Ok(Timeout::EventTime(ms)),
        (_, other) => Err(invalid(py, &format!("a timeout goes by the clock \"batch\" or \"event\", found {other:?}"))),
    }
}

fn called_with(py: Python<'_>, arguments: u8) -> PyResult<Arguments> {
    match arguments {
        4 => Ok(Arguments::Four),
        2 => Ok(Arguments::Two),
        other => Err(invalid(py, &format!("a function is called with 4 arguments or with 2, found {other}"))),
    }
}
