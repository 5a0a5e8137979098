//! A Python function over pandas frames as the engine's `KeyedFunction` (`applyInPandasWithState`).
//!
//! Python code (`tidemill.operators.pandas_frames`) makes the frames and checks returned frames, for all keys of a
//! visit from the same arrays. This file handles states, timeouts, and keys whose call fails.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use pyo3::intern;
use pyo3::prelude::*;
use tidemill_core::Result;
use tidemill_core::operator::{KeyedFunction, Returned, Timeout, Visit};

use super::declaration::{States, UserFunction, columns, group_timeout, make_operator, read_declaration};
use super::group_state::{Rules, Untouched};
use super::key_calls::{KeyCalls, call_each_key, first_chunk};
use super::lent_state::LentState;
use super::returned_builder::ReturnedBuilder;
use crate::arrow::{batch, batch_out};
use crate::caller::{CallSite, OnError, unreadable};
use crate::error::{Raise, external};
use crate::key_rows::Values;
use crate::lent_value::KeyOutcome;
use crate::operator::PyOperator;
use crate::returned_frames::{self, Unfinished};

/// A user's function over frames.
pub(crate) struct PandasFunction {
    user: UserFunction,
    /// Called with the rows and the keys of a visit; returns the object that calls the function for each key.
    frames: Py<PyAny>,
    timeout: Timeout,
    key: SchemaRef,
    value: SchemaRef,
}

impl KeyedFunction for PandasFunction {
    fn call(&mut self, visit: &Visit<'_>) -> Result<Returned> {
        Python::attach(|py| {
            let on_error = OnError::Fail; // nothing is buffered here: frames of a key are added after its call
            let mut returned =
                ReturnedBuilder::new(visit.keys.len(), &self.user.state.shape, &self.user.output, on_error);
            let mut calls = Calls::new(py, self, visit)?;
            call_each_key(py, &mut calls, visit, &self.user, &mut returned)?;
            let (rows, emitted_by) = returned_frames::finish(&calls.frames).map_err(|error| calls.unfinished(error))?;
            returned.finish_with(rows, emitted_by)
        })
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
    state: LentState<'py>,
}

impl<'a, 'py> Calls<'a, 'py> {
    fn new(py: Python<'py>, of: &'a PandasFunction, visit: &'a Visit<'a>) -> Result<Self> {
        let rules = Rules::of(of.timeout, Untouched::Keeps, &of.user.zone, visit.pass);
        let values = Values::new(&of.user.caller.operator, &of.user.value_columns, visit.chunks, visit.rows)?;
        let rows = if visit.rows.is_empty() {
            arrow_array::RecordBatch::new_empty(Arc::clone(&of.value))
        } else {
            batch(Arc::clone(&of.value), py.detach(|| values.all())?, visit.rows.len())?
        };
        let keys = batch(Arc::clone(&of.key), visit.keys.columns().to_vec(), visit.keys.len())?;
        let made = || -> PyResult<_> {
            let frames = of.frames.bind(py).call1((batch_out(py, &rows)?, batch_out(py, &keys)?))?;
            Ok((frames.getattr("call")?, frames))
        };
        let (call, frames) = made().map_err(|error| unreadable(py, &of.user.caller.operator, error, None))?;
        let state = LentState::new(py, &of.user.state, visit, rules)?;
        Ok(Self { py, of, visit, frames, call, state })
    }

    /// Make the error for a call that raised, or returned a value that does not fit.
    fn complaint(&self, error: PyErr, key: &Bound<'py, PyAny>, chunk: Option<u32>) -> tidemill_core::Error {
        let at = CallSite { key, chunk, row: None };
        if let Some(why) = returned_frames::misfit(&self.frames, &error) {
            return self.of.user.caller.unfit(&why, at);
        }
        let is_complaint = self.state.is_own_complaint(&error);
        self.of.user.caller.raised(error, at, is_complaint)
    }

    /// Make the error for frames that did not fit when the frames of all keys were converted together.
    fn unfinished(&self, (error, number): Unfinished) -> tidemill_core::Error {
        let Some(number) = number else { return external(error) };
        let place = number as usize;
        let start = place.checked_sub(1).map_or(0, |before| self.visit.ends[before]);
        let chunk = first_chunk(self.visit, &(start..self.visit.ends[place]));
        match self.key(number, chunk) {
            Ok(key) => self.complaint(error, &key, chunk),
            Err(error) => error,
        }
    }

    fn key(&self, number: u32, chunk: Option<u32>) -> Result<Bound<'py, PyAny>> {
        let key = self.frames.call_method1(intern!(self.py, "key"), (number,));
        key.map_err(|error| unreadable(self.py, &self.of.user.caller.operator, error, chunk))
    }
}

impl KeyCalls for Calls<'_, '_> {
    fn call(&mut self, number: u32, rows: Range<usize>, _to: &mut ReturnedBuilder) -> Result<KeyOutcome> {
        let chunk = first_chunk(self.visit, &rows);
        let key = self.key(number, chunk)?;
        self.state.lend(&key, number as usize, self.visit);
        let answer = self.call.call1((number, &key, rows.start, rows.end, &self.state.object));
        answer.map_err(|error| self.complaint(error, &key, chunk))?;
        self.state.take_back()
    }

    fn retire(&mut self) -> PyResult<()> {
        self.state.retire()
    }
}

/// Make the operator for `applyInPandasWithState` from a bound operator. `frames` makes the frames and calls the
/// function (`tidemill.operators.pandas_frames`).
#[pyfunction]
pub(crate) fn pandas_with_state(
    py: Python<'_>,
    operator: &Bound<'_, PyAny>,
    function: Py<PyAny>,
    frames: Py<PyAny>,
    timeout: &str,
) -> PyResult<PyOperator> {
    let timeout = group_timeout(py, timeout)?;
    let (spec, user) = read_declaration(operator, function, None, States::Tuples, timeout)?;
    let function = PandasFunction {
        frames,
        timeout,
        key: Arc::new(columns(&spec, &spec.key).raise(py)?),
        value: Arc::new(columns(&spec, &user.value_columns).raise(py)?),
        user,
    };
    make_operator(py, spec, function)
}
