//! A Python function as the engine's `KeyedFunction`, called once for each key with all its rows
//! (`mapGroupsWithState`, `flatMapGroupsWithState`).

use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;
use tidemill_core::Result;
use tidemill_core::operator::{KeyedFunction, Returned, Timeout, Visit};

use super::declaration::{States, UserFunction, columns, group_timeout, key_fields, make_operator, read_declaration};
use super::group_state::{Rules, Untouched};
use super::key_calls::{KeyCalls, call_each_key, first_chunk};
use super::lent_state::LentState;
use super::returned_builder::ReturnedBuilder;
use crate::caller::{CallSite, iterate_rows, unreadable};
use crate::error::{Raise, invalid};
use crate::key_rows::{PyKeyRows, RowSource, Values};
use crate::lent_value::KeyOutcome;
use crate::naming::type_name;
use crate::operator::PyOperator;
use crate::value::{Decoder, Field, Shape};

/// What a call returns.
#[derive(Clone, Copy)]
pub(crate) enum Emits {
    /// One row.
    One,
    /// An iterable of rows, or `None` for no rows.
    Many,
}

/// A user's function, and the shapes of its arguments.
pub(crate) struct GroupFunction {
    user: UserFunction,
    emits: Emits,
    timeout: Timeout,
    key: Vec<Field>,
    value: Arc<Shape>,
}

impl KeyedFunction for GroupFunction {
    fn call(&mut self, visit: &Visit<'_>) -> Result<Returned> {
        Python::attach(|py| {
            let mut returned = self.user.returned_builder(visit);
            call_each_key(py, &mut Calls::new(py, self, visit)?, visit, &self.user, &mut returned)?;
            returned.finish(&self.user.output_schema)
        })
    }

    fn is_called_for_initial_states(&self) -> bool {
        true
    }
}

/// The calls of one visit.
struct Calls<'a, 'py> {
    py: Python<'py>,
    of: &'a GroupFunction,
    visit: &'a Visit<'a>,
    function: &'a Bound<'py, PyAny>,
    keys: Vec<Decoder>,
    rows: Arc<RowSource>,
    state: LentState<'py>,
}

impl<'a, 'py> Calls<'a, 'py> {
    fn new(py: Python<'py>, of: &'a GroupFunction, visit: &'a Visit<'a>) -> Result<Self> {
        let rules = Rules::of(of.timeout, Untouched::Clears, &of.user.zone, visit.pass);
        let values = Values::new(&of.user.caller.operator, &of.user.value_columns, visit.chunks, visit.rows)?;
        Ok(Self {
            py,
            of,
            visit,
            function: of.user.caller.function.bind(py),
            keys: visit.keys.columns().iter().zip(&of.key).map(|(c, f)| Decoder::new(c, f)).collect(),
            rows: RowSource::new(values, &of.value, &of.user.zone),
            state: LentState::new(py, &of.user.state, visit, rules)?,
        })
    }

    /// Call the function, and emit all rows that it returns. A generator runs to its end.
    fn call_once(
        &self,
        number: u32,
        at: CallSite<'_, 'py>,
        rows: Range<usize>,
        to: &mut ReturnedBuilder,
    ) -> std::result::Result<(), Complaint> {
        let rows = Bound::new(self.py, PyKeyRows::new(Arc::clone(&self.rows), rows))?;
        let answer = self.function.call1((at.key, rows, &self.state.object))?;
        match self.of.emits {
            Emits::One => self.emit(number, &answer, at, to),
            Emits::Many if answer.is_none() => Ok(()),
            Emits::Many => {
                let Some(rows) = iterate_rows(&answer)? else {
                    let why = format!("found a `{}`, expected an iterable of rows", type_name(&answer));
                    return Err(Complaint::Said(self.of.user.caller.unfit(&why, at)));
                };
                for row in rows {
                    self.emit(number, &row?, at, to)?;
                }
                Ok(())
            }
        }
    }

    fn emit(
        &self,
        number: u32,
        row: &Bound<'py, PyAny>,
        at: CallSite<'_, 'py>,
        to: &mut ReturnedBuilder,
    ) -> std::result::Result<(), Complaint> {
        let emitted = to.emit(number, None, row, &self.of.user.output, &self.of.user.zone);
        emitted.map_err(|refused| Complaint::Said(self.of.user.caller.misfit(refused, at)))
    }
}

impl KeyCalls for Calls<'_, '_> {
    fn call(&mut self, number: u32, rows: Range<usize>, to: &mut ReturnedBuilder) -> Result<KeyOutcome> {
        let place = number as usize;
        let chunk = first_chunk(self.visit, &rows);
        let key = Decoder::key(&self.keys, self.py, place, &self.of.user.zone);
        let key = key.map_err(|error| unreadable(self.py, &self.of.user.caller.operator, error, chunk))?;
        self.state.lend(&key, place, self.visit);
        let at = CallSite { key: &key, chunk, row: None };
        self.call_once(number, at, rows, to).map_err(|error| match error {
            Complaint::Raised(error) => {
                let is_complaint = self.state.is_own_complaint(&error);
                self.of.user.caller.raised(error, at, is_complaint)
            }
            Complaint::Said(error) => error,
        })?;
        self.state.take_back()
    }

    fn retire(&mut self) -> PyResult<()> {
        self.state.retire()
    }
}

/// Why a call failed.
enum Complaint {
    /// The function raised.
    Raised(PyErr),
    /// It returned a value that does not fit.
    Said(tidemill_core::Error),
}

impl From<PyErr> for Complaint {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

/// Make the operator for `mapGroupsWithState` or `flatMapGroupsWithState` from a bound operator.
#[pyfunction]
pub(crate) fn groups_with_state(
    py: Python<'_>,
    operator: &Bound<'_, PyAny>,
    function: Py<PyAny>,
    emits: &str,
    timeout: &str,
) -> PyResult<PyOperator> {
    let emits = match emits {
        "one" => Emits::One,
        "many" => Emits::Many,
        other => return Err(invalid(py, &format!("`emits` must be \"one\" or \"many\", found {other:?}"))),
    };
    let timeout = group_timeout(py, timeout)?;
    let (spec, user) = read_declaration(operator, function, None, States::AsDeclared, timeout)?;
    let function = GroupFunction {
        emits,
        timeout,
        key: key_fields(py, &spec)?,
        value: Arc::new(Shape::new(py, &columns(&spec, &user.value_columns).raise(py)?, false, None)?),
        user,
    };
    make_operator(py, spec, function)
}
