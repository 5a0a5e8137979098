//! `transform_with_state`: makes the operator over a Python processor.

use std::sync::Arc;

use arrow_schema::{Fields, Schema};
use pyo3::prelude::*;
use tidemill_core::Result;
use tidemill_core::operator::{ProcessorOperator, ProcessorSpec, TimeMode, Variable as MapOf};

use super::calls::{PythonProcessor, Variable};
use super::current_key::CurrentKey;
use super::frames::FrameKind;
use super::list_state::PyListState;
use super::map_state::PyMapState;
use super::shown::{InitialKind, KeyKind, RowKind};
use super::timers::PyTimers;
use super::value_state::PyValueState;
use crate::arrow::schema_in;
use crate::caller::OnError;
use crate::error::{Raise, invalid};
use crate::naming::type_name;
use crate::operator::PyOperator;
use crate::user_function::{Input, late_rows};
use crate::value::{Shape, Zone};

/// A variable as declared in Python.
#[derive(FromPyObject)]
pub(crate) struct DeclaredVariable<'py> {
    map: String,
    sub_key: Bound<'py, PyAny>,
    value: Bound<'py, PyAny>,
    ttl_ms: Option<i64>,
    state: Bound<'py, PyAny>,
}

impl DeclaredVariable<'_> {
    fn map_of(&self) -> PyResult<MapOf> {
        let fields = |schema: &Bound<'_, PyAny>| Ok::<Fields, PyErr>(schema_in(schema)?.fields().clone());
        let (sub_key, value) = (fields(&self.sub_key)?, fields(&self.value)?);
        Ok(MapOf { map: self.map.clone(), sub_key, value, ttl_ms: self.ttl_ms })
    }

    fn variable(&self) -> PyResult<Variable> {
        if let Ok(state) = self.state.cast::<PyValueState>() {
            return Ok(Variable::Value(state.clone().unbind()));
        }
        if let Ok(state) = self.state.cast::<PyListState>() {
            return Ok(Variable::List(state.clone().unbind()));
        }
        if let Ok(state) = self.state.cast::<PyMapState>() {
            return Ok(Variable::Map(state.clone().unbind()));
        }
        let found = type_name(&self.state);
        Err(invalid(
            self.state.py(),
            &format!("a variable must be a ValueState, ListState or MapState, found `{found}`"),
        ))
    }
}

/// The initial state as declared in Python.
#[derive(FromPyObject)]
pub(crate) struct Initial<'py> {
    stored: Bound<'py, PyAny>,
    shown: Bound<'py, PyAny>,
    places: Vec<usize>,
}

impl Initial<'_> {
    /// The columns of its map beside the key.
    fn stored(&self) -> PyResult<Fields> {
        Ok(schema_in(&self.stored)?.fields().clone())
    }

    /// The rows that the processor is given; without an initial state they have no columns.
    fn kind(initial: Option<&Self>, py: Python<'_>) -> PyResult<InitialKind> {
        let schema = initial.map_or_else(|| Ok(Schema::empty()), |initial| schema_in(&initial.shown))?;
        let shape = Arc::new(Shape::of_arrow(py, schema.fields())?);
        let places = initial.map_or_else(Vec::new, |initial| initial.places.clone());
        Ok(InitialKind { shape, schema: Arc::new(schema), places })
    }
}

/// The attributes of the bound operator.
#[derive(FromPyObject)]
struct BoundProcessor<'py> {
    name: String,
    input: Input<'py>,
    time_mode: String,
    output_schema: Bound<'py, PyAny>,
    /// The event time column of the output.
    event_time: Option<String>,
    on_error: String,
}

/// Make the operator over a processor. The variables are the objects that its `init` was given.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the arguments from Python objects")]
pub(crate) fn transform_with_state(
    py: Python<'_>,
    operator: &Bound<'_, PyAny>,
    processor: Py<PyAny>,
    variables: Vec<DeclaredVariable<'_>>,
    timers: &Bound<'_, PyTimers>,
    initial: Option<Initial<'_>>,
    frames: Option<Py<PyAny>>,
) -> PyResult<PyOperator> {
    let BoundProcessor { name, input, time_mode, output_schema, event_time, on_error } = operator.extract()?;
    let output = Arc::new(schema_in(&output_schema)?);
    let spec = ProcessorSpec {
        name: name.clone(),
        key: input.key,
        input: Arc::new(schema_in(&input.schema)?),
        variables: variables.iter().map(DeclaredVariable::map_of).collect::<PyResult<_>>()?,
        initial: initial.as_ref().map(Initial::stored).transpose()?,
        time_mode: mode(py, &time_mode)?,
        event_time: input.event_time,
        late: late_rows(py, &input.late)?,
        output: Arc::clone(&output),
        output_event_time: event_time,
    };
    let at = CurrentKey::default();
    let shown = spec.value_columns();
    let (key, row) = (columns(&spec, &spec.key).raise(py)?, columns(&spec, &shown).raise(py)?);
    let frames = frames.map(|open| FrameKind { open, key: Arc::new(key.clone()), row: Arc::new(row.clone()) });
    let processor = PythonProcessor {
        operator: name.clone(),
        on_error: OnError::named(py, &on_error)?,
        processor,
        frames,
        time_mode: spec.time_mode,
        key: KeyKind::new(py, &key)?,
        row: RowKind { shape: Arc::new(Shape::of_arrow(py, row.fields())?), columns: shown },
        initial: Initial::kind(initial.as_ref(), py)?,
        variables: variables.iter().map(DeclaredVariable::variable).collect::<PyResult<_>>()?,
        timers: timers.clone().unbind(),
        at: at.clone(),
        output: Shape::emitted(py, output.fields())?,
        output_schema: output,
        aware: Arc::new(Zone::aware(py, &input.time_zone)?),
        zone: Zone::named(py, &input.time_zone)?,
    };
    for variable in &processor.variables {
        variable.follow(py, &at)?;
    }
    timers.try_borrow_mut()?.follow(at);
    Ok(PyOperator::new(name, ProcessorOperator::new(spec, processor).raise(py)?))
}

/// Return the columns `names` of the operator's input.
fn columns(spec: &ProcessorSpec, names: &[String]) -> Result<Schema> {
    let fields = names.iter().map(|name| spec.column(name));
    Ok(Schema::new(fields.collect::<Result<Vec<_>>>()?))
}

fn mode(py: Python<'_>, name: &str) -> PyResult<TimeMode> {
    match name {
        "None" => Ok(TimeMode::None),
        "ProcessingTime" => Ok(TimeMode::ProcessingTime),
        "EventTime" => Ok(TimeMode::EventTime),
        other => {
            let text = format!("timeMode must be \"None\", \"ProcessingTime\" or \"EventTime\", found {other:?}");
            Err(invalid(py, &text))
        }
    }
}
