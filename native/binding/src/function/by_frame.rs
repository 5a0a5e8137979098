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
use tidemill_core::operator::{KeyedFunction, Returned, Timeout, Visit};

use super::by_key::LentState;
use super::declared::{States, UserFunction, columns, declared, engine, group_timeout};
use super::group_state::{Rules, Untouched};
use super::growing::Growing;
use crate::arrow::{batch, batch_in, batch_out};
use crate::caller::{OnError, Place, unreadable};
use crate::error::{Raise, external};
use crate::held::retire_if_kept;
use crate::key_rows::Values;
use crate::operator::PyOperator;

/// A user's function over frames.
pub(crate) struct PandasFunction {
    user: UserFunction,
    /// Called with the rows and the keys of a visit, gives what calls the function for one key after the other.
    frames: Py<PyAny>,
    timeout: Timeout,
    key: SchemaRef,
    value: SchemaRef,
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
        let rules = Rules::of(of.timeout, Untouched::Keeps, &of.user.zone, visit.pass);
        let values = Values::new(&of.user.caller.operator, &of.user.value_columns, visit.chunks, visit.rows)?;
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
        let (call, misfit, frames) = made().map_err(|error| unreadable(py, &of.user.caller.operator, error, None))?;
        let on_error = OnError::Fail; // nothing is pending here: the frames of a key are added when its call is over
        let returned = Growing::new(visit.keys.len(), &of.user.state.shape, &of.user.output, on_error);
        Ok(Self {
            py,
            of,
            visit,
            frames,
            call,
            misfit,
            state: LentState::new(py, &of.user.state, visit, rules)?,
            returned,
        })
    }

    fn run(mut self) -> Result<Returned> {
        let mut start = 0;
        for (key, &end) in (0u32..).zip(self.visit.ends) {
            if let Err(error) = self.visit_key(key, start..end) {
                let reason = self.of.user.caller.on_error.put_aside(self.py, error)?;
                retire_if_kept(&mut self.state.object, 1).map_err(external)?;
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
        retire_if_kept(&mut self.state.object, 1).map_err(external)?;
        let shapes = (&self.of.user.state.shape, &self.of.user.output);
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
            return self.of.user.caller.unfit(&value.to_string(), at);
        }
        let is_complaint = self.state.is_own_complaint(&error);
        self.of.user.caller.raised(error, at, is_complaint)
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

/// `applyInPandasWithState`, of a bound operator: `frames` makes the frames and calls the function
/// (`tidemill.operators.pandas_frames`).
#[pyfunction]
pub(crate) fn pandas_with_state(
    py: Python<'_>,
    operator: &Bound<'_, PyAny>,
    function: Py<PyAny>,
    frames: Py<PyAny>,
    timeout: &str,
) -> PyResult<PyOperator> {
    let timeout = group_timeout(py, timeout)?;
    let (spec, user) = declared(operator, function, None, States::Tuples, timeout)?;
    let function = PandasFunction {
        frames,
        timeout,
        key: Arc::new(columns(&spec, &spec.key).raise(py)?),
        value: Arc::new(columns(&spec, &user.value_columns).raise(py)?),
        user,
    };
    engine(py, spec, function)
}
