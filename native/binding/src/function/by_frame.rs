//! A Python function over pandas frames as the engine's `KeyedFunction` (`applyInPandasWithState`).
//!
//! Frames are made, and what comes back is checked, in Python (`tidemill.operators.pandas_frames`), for all keys of a
//! visit from the same arrays; here are states, timeouts, and what becomes of a key whose call fails.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tidemill_core::Result;
use tidemill_core::operator::{KeyedFunction, KeyedFunctionOperator, KeyedFunctionSpec, Returned, Timeout, Visit};

use super::by_key::LentState;
use super::declared::{columns, group_timeout, late_rows};
use super::group_state::{Rules, Untouched};
use super::growing::Growing;
use crate::arrow::{batch, batch_in, batch_out, schema_in};
use crate::caller::{Caller, OnError, Place, unreadable};
use crate::error::{Raise, external};
use crate::held::{StateKind, retire_if_kept};
use crate::key_rows::Values;
use crate::operator::PyOperator;
use crate::value::{Shape, Zone};

/// A user's function over frames.
pub(crate) struct PandasFunction {
    pub(crate) caller: Caller,
    /// Called with the rows and the keys of a visit, gives what calls the function for one key after the other.
    pub(crate) frames: Py<PyAny>,
    pub(crate) timeout: Timeout,
    pub(crate) key: SchemaRef,
    pub(crate) value: SchemaRef,
    pub(crate) value_columns: Vec<String>,
    pub(crate) state: Arc<StateKind>,
    pub(crate) output: Shape,
    pub(crate) zone: Arc<Zone>,
}

impl KeyedFunction for PandasFunction {
    fn call(&mut self, visit: &Visit<'_>) -> Result<Returned> {
        Python::attach(|py| Calls::new(py, self, visit)?.run())
    }

    fn is_called_for_initial_states(&self) -> bool {
        true
    }
}

/// The calls of one visit.
struct Calls<'a, 'py> {
    py: Python<'py>,
    of: &'a PandasFunction,
    visit: &'a Visit<'a>,
    frames: Bound<'py, PyAny>,
    call: Bound<'py, PyAny>,
    misfit: Bound<'py, PyAny>,
    state: LentState<'py>,
    returned: Growing,
}

impl<'a, 'py> Calls<'a, 'py> {
    fn new(py: Python<'py>, of: &'a PandasFunction, visit: &'a Visit<'a>) -> Result<Self> {
        let rules = Rules::of(of.timeout, Untouched::Keeps, &of.zone, visit.pass);
        let values = Values::new(&of.caller.operator, &of.value_columns, visit.chunks, visit.rows)?;
        let rows = if visit.rows.is_empty() {
            arrow_array::RecordBatch::new_empty(Arc::clone(&of.value))
        } else {
            batch(Arc::clone(&of.value), values.all()?, visit.rows.len())?
        };
        let keys = batch(Arc::clone(&of.key), visit.keys.columns().to_vec(), visit.keys.len())?;
        let made = || -> PyResult<_> {
            let frames = of.frames.bind(py).call1((batch_out(py, &rows)?, batch_out(py, &keys)?))?;
            Ok((frames.getattr("call")?, frames.getattr("misfit")?, frames))
        };
        let (call, misfit, frames) = made().map_err(|error| unreadable(py, &of.caller.operator, error, None))?;
        let on_error = OnError::Fail; // nothing is pending here: the frames of a key are added when its call is over
        let returned = Growing::new(visit.keys.len(), &of.state.shape, &of.output, on_error);
        Ok(Self { py, of, visit, frames, call, misfit, state: LentState::new(py, &of.state, visit, rules)?, returned })
    }

    fn run(mut self) -> Result<Returned> {
        let mut start = 0;
        for (key, &end) in (0u32..).zip(self.visit.ends) {
            if let Err(error) = self.visit_key(key, start..end) {
                let reason = self.of.caller.on_error.put_aside(self.py, error)?;
                retire_if_kept(&mut self.state.object).map_err(external)?;
                self.returned.fail(reason, self.visit.deadlines[key as usize]);
            }
            start = end;
        }
        let finished = self.frames.call_method0("finish").map_err(|error| self.unfinished(error))?;
        let taken = || -> PyResult<_> {
            let (rows, counts): (Bound<'_, PyAny>, Vec<(u32, usize)>) = finished.extract()?;
            Ok((batch_in(&rows)?, counts))
        };
        let (outputs, counts) = taken().map_err(external)?;
        let emitted_by = counts.into_iter().flat_map(|(key, rows)| std::iter::repeat_n(key, rows)).collect();
        self.returned.finish_with(outputs, emitted_by)
    }

    fn visit_key(&mut self, number: u32, rows: Range<usize>) -> Result<()> {
        let place = number as usize;
        let key = self.frames.call_method1("key", (number,)).map_err(external)?;
        self.state.lend(&key, place, self.visit);
        let answer = self.call.call1((number, &key, rows.start, rows.end, &self.state.object));
        answer.map_err(|error| self.complaint(error, &key, self.chunk(&rows)))?;
        let left = self.state.object.borrow_mut().take_back();
        retire_if_kept(&mut self.state.object).map_err(external)?;
        let shapes = (&self.of.state.shape, &self.of.output);
        let exists = self.visit.exists[place];
        self.returned.settle(self.py, number, shapes, exists, &left.current).map_err(external)?;
        self.returned.arm(left.deadline);
        Ok(())
    }

    fn chunk(&self, rows: &Range<usize>) -> Option<u32> {
        self.visit.rows.get(rows.start).filter(|_| !rows.is_empty()).map(|row| row.chunk)
    }

    /// The error for a call: it raised, or what it gave does not fit.
    fn complaint(&self, error: PyErr, key: &Bound<'py, PyAny>, chunk: Option<u32>) -> tidemill_core::Error {
        let at = Place { key, chunk };
        let value = error.value(self.py);
        if value.is_instance(&self.misfit).unwrap_or(false) {
            return self.of.caller.unfit(&value.to_string(), at);
        }
        let is_complaint = self.state.is_own_complaint(&error);
        self.of.caller.raised(error, at, is_complaint)
    }

    /// The error for frames that did not fit when those of all keys were put together: it carries the number of a key.
    fn unfinished(&self, error: PyErr) -> tidemill_core::Error {
        let number =
            error.value(self.py).getattr("args").and_then(|args| args.cast_into::<PyTuple>().map_err(Into::into));
        let number = number.and_then(|args| args.get_item(1)?.extract::<u32>());
        let Ok(number) = number else { return external(error) };
        let place = number as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.visit.ends[before]);
        match self.frames.call_method1("key", (number,)) {
            Ok(key) => self.complaint(error, &key, self.chunk(&(start..self.visit.ends[place]))),
            Err(error) => external(error),
        }
    }
}

/// `applyInPandasWithState`: `frames` makes the frames and calls the function (`tidemill.operators.pandas_frames`).
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the stub fixes the signature")]
pub(crate) fn pandas_with_state(
    py: Python<'_>,
    name: &str,
    key: Vec<String>,
    input_schema: &Bound<'_, PyAny>,
    function: Py<PyAny>,
    frames: Py<PyAny>,
    state_schema: &Bound<'_, PyAny>,
    output_schema: &Bound<'_, PyAny>,
    timeout: &str,
    event_time: Option<String>,
    late: &str,
    time_zone: &str,
    on_error: &str,
) -> PyResult<PyOperator> {
    let (state, output) = (schema_in(state_schema)?, Arc::new(schema_in(output_schema)?));
    let spec = KeyedFunctionSpec {
        name: name.to_owned(),
        key,
        input: Arc::new(schema_in(input_schema)?),
        values: None,
        state: state.fields().clone(),
        output: Arc::clone(&output),
        timeout: group_timeout(py, timeout)?,
        event_time,
        late: late_rows(py, late)?,
    };
    let zone = Arc::new(Zone::named(py, time_zone)?);
    let value_columns = spec.value_columns();
    let state_shape = Shape::tuple(py, state.fields())?;
    let function = PandasFunction {
        caller: Caller { operator: name.to_owned(), function, on_error: OnError::named(py, on_error)? },
        frames,
        timeout: spec.timeout,
        key: Arc::new(columns(&spec, &spec.key).raise(py)?),
        value: Arc::new(columns(&spec, &value_columns).raise(py)?),
        value_columns,
        state: Arc::new(StateKind { operator: name.to_owned(), shape: state_shape, zone: Arc::clone(&zone) }),
        output: Shape::record(py, output.fields(), None)?,
        zone,
    };
    Ok(PyOperator::new(name.to_owned(), KeyedFunctionOperator::new(spec, function).raise(py)?))
}
