//! The functions that make operators: `aggregate`, `sessions`, `deduplicate`, `map_with_state`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::Schema;
use pyo3::prelude::*;
use pyo3::types::PyType;
use tidemill_core::Result;
use tidemill_core::aggregate::Function;
use tidemill_core::operator::{
    AggregateOperator, AggregateSpec, Call, Cut, DeduplicateOperator, DeduplicateSpec, Ends, Forget, KeyTimeSpec,
    KeyedFunctionOperator, KeyedFunctionSpec, LateRows, SessionOperator, SessionSpec, Timeout, WindowSpec,
};

use crate::arrow::schema_in;
use crate::caller::{Caller, OnError};
use crate::error::{Raise, invalid};
use crate::held::StateKind;
use crate::operator::PyOperator;
use crate::operator_function::{Arguments, PythonFunction};
use crate::operator_group::{Emits, GroupFunction};
use crate::operator_pandas::PandasFunction;
use crate::value::{Field, Shape, Zone};

/// Windows as Python declares them; times are milliseconds, None where the column holds windows.
#[derive(FromPyObject)]
pub(crate) struct DeclaredWindow {
    column: String,
    cut_ms: Option<(i64, i64, i64)>,
    key: (String, String),
    place: usize,
    output: String,
    ends: String,
}

impl DeclaredWindow {
    fn spec(self, py: Python<'_>) -> PyResult<WindowSpec> {
        let ends = ends(py, &self.ends)?;
        let us = |ms: i64| ms.saturating_mul(1_000);
        let cut = match self.cut_ms {
            None => Cut::AsGiven,
            Some((size, slide, start)) if slide >= 1 && size >= slide => {
                Cut::Every { size_us: us(size), slide_us: us(slide), start_us: us(start) }
            }
            Some((size, slide, _)) => {
                return Err(invalid(py, &format!("a window of {size} ms by {slide} ms is none")));
            }
        };
        Ok(WindowSpec { column: self.column, cut, key: self.key.into(), place: self.place, output: self.output, ends })
    }
}

/// What the end of a window or a key is.
fn ends(py: Python<'_>, named: &str) -> PyResult<Ends> {
    match named {
        "never" => Ok(Ends::Never),
        "forgotten" => Ok(Ends::Forgotten),
        "emitted" => Ok(Ends::Emitted),
        other => {
            let text = format!("windows end \"never\", \"forgotten\" or \"emitted\", found {other:?}");
            Err(invalid(py, &text))
        }
    }
}

/// (output column, function, input column or None for a count of rows).
type Declared = (String, String, Option<String>);

/// What is computed; by output column what a value is chosen by, and the parameter, for functions that have one.
fn calls(
    functions: Vec<Declared>,
    by: Option<HashMap<String, String>>,
    parameters: Option<HashMap<String, u32>>,
) -> Result<Vec<Call>> {
    let (mut by, parameters) = (by.unwrap_or_default(), parameters.unwrap_or_default());
    let call = |(output, function, column): Declared| {
        let by = by.remove(&output);
        let function = Function::named(&function, parameters.get(&output).copied())?;
        Ok(Call { output, function, column, by })
    };
    functions.into_iter().map(call).collect()
}

/// Aggregates by session.
#[pyfunction]
#[pyo3(signature = (name, key, input_schema, functions, column, gap_ms, place, by=None, parameters=None))]
#[expect(clippy::too_many_arguments, reason = "the stub fixes the signature")]
pub(crate) fn sessions(
    py: Python<'_>,
    name: &str,
    key: Vec<String>,
    input_schema: &Bound<'_, PyAny>,
    functions: Vec<Declared>,
    column: String,
    gap_ms: i64,
    place: usize,
    by: Option<HashMap<String, String>>,
    parameters: Option<HashMap<String, u32>>,
) -> PyResult<PyOperator> {
    if gap_ms < 1 || place > key.len() {
        let text = format!("sessions with a gap of {gap_ms} ms at place {place} of {} key columns are none", key.len());
        return Err(invalid(py, &text));
    }
    let spec = SessionSpec {
        name: name.to_owned(),
        key,
        input: Arc::new(schema_in(input_schema)?),
        functions: calls(functions, by, parameters).raise(py)?,
        column,
        gap_us: gap_ms.saturating_mul(1_000),
        place,
    };
    Ok(PyOperator::new(name.to_owned(), SessionOperator::new(&spec).raise(py)?))
}

/// Running aggregates.
#[pyfunction]
#[pyo3(signature = (name, key, input_schema, functions, window=None, by=None, parameters=None, key_time=None))]
#[expect(clippy::too_many_arguments, reason = "the stub fixes the signature")]
pub(crate) fn aggregate(
    py: Python<'_>,
    name: &str,
    key: Vec<String>,
    input_schema: &Bound<'_, PyAny>,
    functions: Vec<Declared>,
    window: Option<DeclaredWindow>,
    by: Option<HashMap<String, String>>,
    parameters: Option<HashMap<String, u32>>,
    key_time: Option<(String, String)>,
) -> PyResult<PyOperator> {
    let key_time = match key_time {
        None => None,
        Some((column, named)) => Some(KeyTimeSpec { column, ends: ends(py, &named)? }),
    };
    let spec = AggregateSpec {
        name: name.to_owned(),
        key,
        input: Arc::new(schema_in(input_schema)?),
        functions: calls(functions, by, parameters).raise(py)?,
        window: window.map(|window| window.spec(py)).transpose()?,
        key_time,
    };
    Ok(PyOperator::new(name.to_owned(), AggregateOperator::new(&spec).raise(py)?))
}

/// The first row of each key.
#[pyfunction]
pub(crate) fn deduplicate(
    py: Python<'_>,
    name: &str,
    key: Vec<String>,
    input_schema: &Bound<'_, PyAny>,
    event_time: Option<String>,
    forget: &str,
    delay_ms: Option<i64>,
) -> PyResult<PyOperator> {
    let forget = match (forget, delay_ms) {
        ("never", None) => Forget::Never,
        ("at_event_time", None) => Forget::AtEventTime,
        ("after", Some(delay_ms)) => Forget::After(delay_ms),
        _ => {
            let text = "keys are forgotten \"never\", \"at_event_time\", or \"after\" so many ms";
            return Err(invalid(py, &format!("{text}, found {forget:?} and {delay_ms:?}")));
        }
    };
    let input = Arc::new(schema_in(input_schema)?);
    let spec = DeduplicateSpec { name: name.to_owned(), key, input, event_time, forget };
    Ok(PyOperator::new(name.to_owned(), DeduplicateOperator::new(spec).raise(py)?))
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

/// The key columns, as functions see them.
fn key_fields(py: Python<'_>, spec: &KeyedFunctionSpec) -> PyResult<Vec<Field>> {
    columns(spec, &spec.key).raise(py)?.fields().iter().map(|field| Field::new(py, field)).collect()
}

fn group_timeout(py: Python<'_>, timeout: &str) -> PyResult<Timeout> {
    match timeout {
        "NoTimeout" => Ok(Timeout::Never),
        "ProcessingTimeTimeout" => Ok(Timeout::ArmedByBatchTime),
        "EventTimeTimeout" => Ok(Timeout::ArmedByEventTime),
        other => Err(invalid(py, &format!("a group times out by one of Spark's three modes, found {other:?}"))),
    }
}

/// The columns `names` of the operator's input.
fn columns(spec: &KeyedFunctionSpec, names: &[String]) -> Result<Schema> {
    let fields = names.iter().map(|name| spec.column(name));
    Ok(Schema::new(fields.collect::<Result<Vec<_>>>()?))
}

fn timeout(py: Python<'_>, timeout_ms: Option<i64>, clock: &str) -> PyResult<Timeout> {
    match (timeout_ms, clock) {
        (None, "batch" | "event") => Ok(Timeout::Never),
        (Some(ms), "batch") => Ok(Timeout::BatchTime(ms)),
        (Some(ms), "event") => Ok(Timeout::EventTime(ms)),
        (_, other) => Err(invalid(py, &format!("a timeout goes by the clock \"batch\" or \"event\", found {other:?}"))),
    }
}

/// What is done with late rows, as Python declares it.
pub(crate) fn late_rows(py: Python<'_>, late: &str) -> PyResult<LateRows> {
    match late {
        "drop" | "quarantine" => Ok(LateRows::TakeOut),
        "keep" => Ok(LateRows::Keep),
        other => {
            let text = format!("late rows are for \"drop\", \"quarantine\" or \"keep\", found {other:?}");
            Err(invalid(py, &text))
        }
    }
}

fn called_with(py: Python<'_>, arguments: u8) -> PyResult<Arguments> {
    match arguments {
        4 => Ok(Arguments::Four),
        2 => Ok(Arguments::Two),
        other => Err(invalid(py, &format!("a function is called with 4 arguments or with 2, found {other}"))),
    }
}
