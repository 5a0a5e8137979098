//! A Python function as the engine's `KeyedFunction`, called for each row (`mapWithState`).
//!
//! INVARIANT: a `State` that user code kept is retired before the next call.

use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyInt;
use tidemill_core::Result;
use tidemill_core::operator::{KeyedFunction, Returned, Timeout, Visit};

use super::argument_tuple::ArgumentTuple;
use super::declaration::{States, UserFunction, columns, key_fields, make_operator, read_declaration};
use super::key_calls::{KeyCalls, call_each_key};
use super::returned_builder::ReturnedBuilder;
use super::state::{PyState, StateCall};
use crate::caller::{CallSite, unreadable};
use crate::error::{Raise, external, invalid};
use crate::key_rows::Values;
use crate::lent_value::{Current, KeyOutcome, retire_if_kept};
use crate::operator::PyOperator;
use crate::value::{Decoder, Field, Shape};

/// How the function is called.
#[derive(Clone, Copy)]
pub(crate) enum Arguments {
    /// `f(batchTime, key, value, state)`.
    Four,
    /// `f(key, value, state)`.
    Three,
    /// `f(value, state)`.
    Two,
}

/// A user's function, and the shapes of its arguments.
pub(crate) struct PythonFunction {
    user: UserFunction,
    arguments: Arguments,
    key: Vec<Field>,
    value: Shape,
}

impl KeyedFunction for PythonFunction {
    fn call(&mut self, visit: &Visit<'_>) -> Result<Returned> {
        Python::attach(|py| {
            let mut returned = self.user.returned_builder(visit);
            call_each_key(py, &mut Calls::new(py, self, visit)?, visit, &self.user, &mut returned)?;
            returned.finish(&self.user.output_schema)
        })
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
    /// The arguments; `state` is among them.
    passed: ArgumentTuple<'py>,
}

impl<'a, 'py> Calls<'a, 'py> {
    fn new(py: Python<'py>, of: &'a PythonFunction, visit: &'a Visit<'a>) -> Result<Self> {
        let stored = Arc::new(of.user.state.shape.decoders(visit.states));
        let state = Bound::new(py, PyState::new(Arc::clone(&of.user.state), stored)).map_err(external)?;
        Ok(Self {
            py,
            of,
            visit,
            function: of.user.caller.function.bind(py),
            batch_time: PyInt::new(py, visit.pass.batch_time_ms),
            keys: visit.keys.columns().iter().zip(&of.key).map(|(c, f)| Decoder::new(c, f)).collect(),
            values: Values::new(&of.user.caller.operator, &of.user.value_columns, visit.chunks, visit.rows)?,
            state,
            passed: ArgumentTuple::new(),
        })
    }

    fn call_once(
        &mut self,
        number: u32,
        key: &Bound<'py, PyAny>,
        value: Bound<'py, PyAny>,
        of: Option<u32>,
        to: &mut ReturnedBuilder,
    ) -> Result<()> {
        let from = of.map(|place| self.visit.rows[place as usize]);
        let at = CallSite { key, chunk: from.map(|at| at.chunk), row: from.map(|at| at.row) };
        let state = self.state.clone().into_any();
        let passed = match self.of.arguments {
            Arguments::Four => {
                self.passed.fill(self.py, [self.batch_time.clone().into_any(), key.clone(), value, state])
            }
            Arguments::Three => self.passed.fill(self.py, [key.clone(), value, state]),
            Arguments::Two => self.passed.fill(self.py, [value, state]),
        };
        let answer = passed.and_then(|passed| self.function.call1(passed)).map_err(|error| {
            let is_complaint = self.state.try_borrow().is_ok_and(|state| state.is_own_complaint(self.py, &error));
            self.of.user.caller.raised(error, at, is_complaint)
        })?;
        self.retire().map_err(external)?;
        if answer.is_none() {
            return Ok(());
        }
        let emitted = to.emit(number, of, &answer, &self.of.user.output, &self.of.user.zone);
        emitted.map_err(|refused| self.of.user.caller.misfit(refused, at))
    }
}

impl KeyCalls for Calls<'_, '_> {
    fn call(&mut self, number: u32, rows: Range<usize>, to: &mut ReturnedBuilder) -> Result<KeyOutcome> {
        let place = number as usize;
        let key = Decoder::key(&self.keys, self.py, place, &self.of.user.zone);
        let key = key.map_err(|error| unreadable(self.py, &self.of.user.caller.operator, error, None))?;
        let current = if self.visit.exists[place] { Current::Stored(place) } else { Current::Absent };
        let is_timing_out = self.visit.timing_out;
        self.state.borrow_mut().lend(StateCall { key: key.clone().unbind(), current, is_timing_out });
        if is_timing_out {
            let none = self.py.None().into_bound(self.py);
            self.call_once(number, &key, none, None, to)?;
        }
        for row in rows {
            let from = self.visit.rows[row];
            let (columns, place) = self.values.at(row, &self.of.value)?;
            let value = self.of.value.decode(columns, self.py, place, &self.of.user.zone);
            let value =
                value.map_err(|error| unreadable(self.py, &self.of.user.caller.operator, error, Some(from.chunk)))?;
            self.state.borrow_mut().next_call();
            #[expect(clippy::cast_possible_truncation, reason = "rows of a pass are numbered by u32")]
            self.call_once(number, &key, value, Some(row as u32), to)?;
        }
        let lent = self.state.borrow_mut().take_back();
        let current = lent.map_or(Current::Absent, |lent| lent.current);
        Ok(KeyOutcome { current, deadline: None }) // the engine sets the deadline
    }

    fn retire(&mut self) -> PyResult<()> {
        let ours = 1 + self.passed.holds();
        retire_if_kept(&mut self.state, ours)
    }
}

/// Make the operator for `mapWithState` from a bound operator.
#[pyfunction]
pub(crate) fn map_with_state(
    py: Python<'_>,
    operator: &Bound<'_, PyAny>,
    function: Py<PyAny>,
    arguments: u8,
    value: Option<String>,
    timeout_ms: Option<i64>,
    clock: &str,
) -> PyResult<PyOperator> {
    let is_one_column = value.is_some();
    let values = value.map(|column| vec![column]);
    let (spec, user) =
        read_declaration(operator, function, values, States::AsDeclared, timeout(py, timeout_ms, clock)?)?;
    let function = PythonFunction {
        arguments: called_with(py, arguments)?,
        key: key_fields(py, &spec)?,
        value: Shape::new(py, &columns(&spec, &user.value_columns).raise(py)?, is_one_column, None)?,
        user,
    };
    make_operator(py, spec, function)
}

fn timeout(py: Python<'_>, timeout_ms: Option<i64>, clock: &str) -> PyResult<Timeout> {
    match (timeout_ms, clock) {
        (None, "batch" | "event") => Ok(Timeout::Never),
        (Some(ms), "batch") => Ok(Timeout::BatchTime(ms)),
        (Some(ms), "event") => Ok(Timeout::EventTime(ms)),
        (_, other) => {
            Err(invalid(py, &format!("the clock of a timeout must be \"batch\" or \"event\", found {other:?}")))
        }
    }
}

fn called_with(py: Python<'_>, arguments: u8) -> PyResult<Arguments> {
    match arguments {
        4 => Ok(Arguments::Four),
        3 => Ok(Arguments::Three),
        2 => Ok(Arguments::Two),
        other => Err(invalid(py, &format!("`arguments` must be 4, 3 or 2, found {other}"))),
    }
}
