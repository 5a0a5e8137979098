//! A Python function as the engine's `KeyedFunction`, called once a key with all its rows (`mapGroupsWithState`,
//! `flatMapGroupsWithState`).

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyType;
use tidemill_core::Result;
use tidemill_core::operator::{KeyedFunction, KeyedFunctionOperator, KeyedFunctionSpec, Returned, Timeout, Visit};

use super::declared::{columns, group_timeout, key_fields, late_rows};
use super::group_state::{Lent, PyGroupState, Rules, Untouched};
use super::growing::Growing;
use crate::arrow::schema_in;
use crate::caller::{Caller, OnError, Place, iterated, unreadable};
use crate::error::{Raise, external, invalid};
use crate::held::{Current, StateKind, retire_if_kept};
use crate::key_rows::{PyKeyRows, RowSource, Values};
use crate::operator::PyOperator;
use crate::value::{Decoder, Field, Shape, Zone};

/// What a call returns.
#[derive(Clone, Copy)]
pub(crate) enum Emits {
    /// One row.
    One,
    /// Something that rows can be taken from; `None`: nothing.
    Many,
}

/// A user's function, and the shapes of what it sees.
pub(crate) struct GroupFunction {
    pub(crate) caller: Caller,
    pub(crate) emits: Emits,
    pub(crate) timeout: Timeout,
    pub(crate) key: Vec<Field>,
    pub(crate) value: Arc<Shape>,
    /// The columns that `value` is made of.
    pub(crate) value_columns: Vec<String>,
    pub(crate) state: Arc<StateKind>,
    pub(crate) output: Shape,
    pub(crate) output_schema: SchemaRef,
    pub(crate) zone: Arc<Zone>,
}

impl KeyedFunction for GroupFunction {
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
    of: &'a GroupFunction,
    visit: &'a Visit<'a>,
    function: &'a Bound<'py, PyAny>,
    keys: Vec<Decoder>,
    rows: Arc<RowSource>,
    state: LentState<'py>,
    returned: Growing,
}

impl<'a, 'py> Calls<'a, 'py> {
    fn new(py: Python<'py>, of: &'a GroupFunction, visit: &'a Visit<'a>) -> Result<Self> {
        let rules = Rules::of(of.timeout, Untouched::Clears, &of.zone, visit.pass);
        let values = Values::new(&of.caller.operator, &of.value_columns, visit.chunks, visit.rows)?;
        Ok(Self {
            py,
            of,
            visit,
            function: of.caller.function.bind(py),
            keys: visit.keys.columns().iter().zip(&of.key).map(|(c, f)| Decoder::new(c, f)).collect(),
            rows: RowSource::new(values, &of.value, &of.zone),
            state: LentState::new(py, &of.state, visit, rules)?,
            returned: Growing::new(visit.keys.len(), &of.state.shape, &of.output, of.caller.on_error),
        })
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
        self.returned.finish(&self.of.output_schema)
    }

    fn visit_key(&mut self, number: u32, rows: Range<usize>) -> Result<()> {
        let place = number as usize;
        let chunk = self.visit.rows.get(rows.start).filter(|_| !rows.is_empty()).map(|row| row.chunk);
        let key = self.key(place).map_err(|error| unreadable(self.py, &self.of.caller.operator, error, chunk))?;
        self.state.lend(&key, place, self.visit);
        let at = Place { key: &key, chunk };
        self.call(number, at, rows).map_err(|error| match error {
            Complaint::Raised(error) => {
                let is_complaint = self.state.is_own_complaint(&error);
                self.of.caller.raised(error, at, is_complaint)
            }
            Complaint::Said(error) => error,
        })?;
        let left = self.state.object.borrow_mut().take_back();
        retire_if_kept(&mut self.state.object).map_err(external)?;
        let shapes = (&self.of.state.shape, &self.of.output);
        let exists = self.visit.exists[place];
        self.returned.settle(self.py, number, shapes, exists, &left.current).map_err(external)?;
        self.returned.arm(left.deadline);
        Ok(())
    }

    /// One column: the scalar; several: a tuple.
    fn key(&self, place: usize) -> PyResult<Bound<'py, PyAny>> {
        match self.keys.as_slice() {
            [only] => only.get(self.py, place, &self.of.zone),
            columns => Ok(Decoder::tuple(columns, self.py, place, &self.of.zone)?.into_any()),
        }
    }

    /// The call, and all rows that it gives: a generator runs until it ends.
    fn call(&mut self, number: u32, at: Place<'_, 'py>, rows: Range<usize>) -> std::result::Result<(), Complaint> {
        let rows = Bound::new(self.py, PyKeyRows::new(Arc::clone(&self.rows), rows))?;
        let answer = self.function.call1((at.key, rows, &self.state.object))?;
        match self.of.emits {
            Emits::One => self.emit(number, &answer, at),
            Emits::Many if answer.is_none() => Ok(()),
            Emits::Many => {
                let Some(rows) = iterated(&answer)? else {
                    let why = format!("found a `{}`, expected something to iterate over", answer.get_type());
                    return Err(Complaint::Said(self.of.caller.unfit(&why, at)));
                };
                for row in rows {
                    self.emit(number, &row?, at)?;
                }
                Ok(())
            }
        }
    }

    fn emit(&mut self, number: u32, row: &Bound<'py, PyAny>, at: Place<'_, 'py>) -> std::result::Result<(), Complaint> {
        let emitted = self.returned.emit(number, row, &self.of.output, &self.of.zone);
        emitted.map_err(|refused| Complaint::Said(self.of.caller.misfit(refused, at)))
    }
}

/// Why a call failed.
enum Complaint {
    /// The function raised.
    Raised(PyErr),
    /// What it gave does not fit.
    Said(tidemill_core::Error),
}

impl From<PyErr> for Complaint {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

/// The `GroupState` that is lent to call after call.
pub(crate) struct LentState<'py> {
    pub(crate) object: Bound<'py, PyGroupState>,
}

impl<'py> LentState<'py> {
    /// That of a visit.
    pub(crate) fn new(py: Python<'py>, kind: &Arc<StateKind>, visit: &Visit<'_>, rules: Rules) -> Result<Self> {
        let stored = Arc::new(kind.shape.decoders(visit.states));
        let state = PyGroupState::new(Arc::clone(kind), stored, Arc::new(rules));
        Ok(Self { object: Bound::new(py, state).map_err(external)? })
    }

    /// Lends it to the call for the key at `place`.
    pub(crate) fn lend(&self, key: &Bound<'py, PyAny>, place: usize, visit: &Visit<'_>) {
        let current = if visit.exists[place] { Current::Stored(place) } else { Current::Absent };
        self.object.borrow_mut().lend(Lent {
            key: key.clone().unbind(),
            current,
            has_timed_out: visit.timing_out,
            deadline: visit.deadlines[place],
        });
    }

    /// Whether `error` is the complaint of its last `update`.
    pub(crate) fn is_own_complaint(&self, error: &PyErr) -> bool {
        self.object.try_borrow().is_ok_and(|state| state.is_own_complaint(self.object.py(), error))
    }
}

/// `mapGroupsWithState` and `flatMapGroupsWithState` over a Python function.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the stub fixes the signature")]
pub(crate) fn groups_with_state(
    py: Python<'_>,
    name: &str,
    key: Vec<String>,
    input_schema: &Bound<'_, PyAny>,
    function: Py<PyAny>,
    emits: &str,
    state_schema: &Bound<'_, PyAny>,
    state_unnamed: bool,
    state_type: Option<&Bound<'_, PyType>>,
    output_schema: &Bound<'_, PyAny>,
    output_unnamed: bool,
    timeout: &str,
    event_time: Option<String>,
    late: &str,
    time_zone: &str,
    on_error: &str,
) -> PyResult<PyOperator> {
    let emits = match emits {
        "one" => Emits::One,
        "many" => Emits::Many,
        other => return Err(invalid(py, &format!("a call emits \"one\" row or \"many\", found {other:?}"))),
    };
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
    let state_shape = Shape::new(py, &state, state_unnamed, state_type)?;
    let function = GroupFunction {
        caller: Caller { operator: name.to_owned(), function, on_error: OnError::named(py, on_error)? },
        emits,
        timeout: spec.timeout,
        key: key_fields(py, &spec)?,
        value: Arc::new(Shape::new(py, &columns(&spec, &value_columns).raise(py)?, false, None)?),
        value_columns,
        state: Arc::new(StateKind { operator: name.to_owned(), shape: state_shape, zone: Arc::clone(&zone) }),
        output: Shape::new(py, &output, output_unnamed, None)?,
        output_schema: output,
        zone,
    };
    Ok(PyOperator::new(name.to_owned(), KeyedFunctionOperator::new(spec, function).raise(py)?))
}
