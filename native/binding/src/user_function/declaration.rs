//! The declaration of a user's function: read from the attributes of a bound operator, for all ways of calling it.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyType;
use tidemill_core::Result;
use tidemill_core::operator::{KeyedFunction, KeyedFunctionOperator, KeyedFunctionSpec, LateRows, Timeout, Visit};

use super::returned_builder::ReturnedBuilder;
use crate::arrow::schema_in;
use crate::caller::{Caller, OnError};
use crate::error::{Raise, invalid};
use crate::lent_value::StateKind;
use crate::operator::PyOperator;
use crate::value::{Field, Shape, Zone};

/// The input of an operator: `tidemill.operators.contract.Input`.
#[derive(FromPyObject)]
pub(crate) struct Input<'py> {
    pub(crate) schema: Bound<'py, PyAny>,
    pub(crate) key: Vec<String>,
    pub(crate) event_time: Option<String>,
    pub(crate) late: String,
    pub(crate) time_zone: String,
}

/// The attributes that all bound operators over a function have.
#[derive(FromPyObject)]
struct BoundFunction<'py> {
    name: String,
    input: Input<'py>,
    state: Bound<'py, PyAny>,
    output_schema: Bound<'py, PyAny>,
    on_error: String,
}

/// The attributes of a bound operator that say how a function sees states and outputs.
#[derive(FromPyObject)]
struct DeclaredShapes<'py> {
    state_unnamed: bool,
    state_type: Option<Bound<'py, PyType>>,
    output_unnamed: bool,
}

/// How a function sees states.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum States {
    /// As the operator declares.
    AsDeclared,
    /// As plain tuples; outputs are rows.
    Tuples,
}

/// A user's function, with the parts that all ways of calling it need.
pub(crate) struct UserFunction {
    pub(crate) caller: Caller,
    /// The columns of its rows.
    pub(crate) value_columns: Vec<String>,
    pub(crate) state: Arc<StateKind>,
    pub(crate) output: Shape,
    pub(crate) output_schema: SchemaRef,
    pub(crate) zone: Arc<Zone>,
}

impl UserFunction {
    /// Make an empty result for the calls of a visit.
    pub(super) fn returned_builder(&self, visit: &Visit<'_>) -> ReturnedBuilder {
        ReturnedBuilder::new(visit.keys.len(), &self.state.shape, &self.output, self.caller.on_error)
    }
}

/// Read the declaration of `function` from its bound operator: the part for the engine, and the part for the binding.
pub(super) fn read_declaration(
    operator: &Bound<'_, PyAny>,
    function: Py<PyAny>,
    values: Option<Vec<String>>,
    states: States,
    timeout: Timeout,
) -> PyResult<(KeyedFunctionSpec, UserFunction)> {
    let py = operator.py();
    let BoundFunction { name, input, state, output_schema, on_error } = operator.extract()?;
    let (state, output_schema) = (schema_in(&state)?, Arc::new(schema_in(&output_schema)?));
    let (shape, output) = match states {
        States::Tuples => (Shape::tuple(py, state.fields())?, Shape::record(py, output_schema.fields(), None)?),
        States::AsDeclared => {
            let shapes: DeclaredShapes<'_> = operator.extract()?;
            let shape = Shape::new(py, &state, shapes.state_unnamed, shapes.state_type.as_ref())?;
            (shape, Shape::new(py, &output_schema, shapes.output_unnamed, None)?)
        }
    };
    let spec = KeyedFunctionSpec {
        name: name.clone(),
        key: input.key,
        input: Arc::new(schema_in(&input.schema)?),
        values,
        state: state.fields().clone(),
        output: Arc::clone(&output_schema),
        timeout,
        event_time: input.event_time,
        late: late_rows(py, &input.late)?,
    };
    let zone = Arc::new(Zone::named(py, &input.time_zone)?);
    let user = UserFunction {
        value_columns: spec.value_columns(),
        state: Arc::new(StateKind { operator: name.clone(), shape, zone: Arc::clone(&zone) }),
        caller: Caller { operator: name, function, on_error: OnError::named(py, &on_error)? },
        output,
        output_schema,
        zone,
    };
    Ok((spec, user))
}

/// Make the engine's operator over a function.
pub(super) fn make_operator(
    py: Python<'_>,
    spec: KeyedFunctionSpec,
    function: impl KeyedFunction + 'static,
) -> PyResult<PyOperator> {
    Ok(PyOperator::new(spec.name.clone(), KeyedFunctionOperator::new(spec, function).raise(py)?))
}

/// Return the key columns, as functions see them.
pub(super) fn key_fields(py: Python<'_>, spec: &KeyedFunctionSpec) -> PyResult<Vec<Field>> {
    columns(spec, &spec.key).raise(py)?.fields().iter().map(|field| Field::new(py, field)).collect()
}

/// Parse the timeout of a group function.
pub(super) fn group_timeout(py: Python<'_>, timeout: &str) -> PyResult<Timeout> {
    match timeout {
        "NoTimeout" => Ok(Timeout::Never),
        "ProcessingTimeTimeout" => Ok(Timeout::ArmedByBatchTime),
        "EventTimeTimeout" => Ok(Timeout::ArmedByEventTime),
        other => {
            let modes = "\"NoTimeout\", \"ProcessingTimeTimeout\" or \"EventTimeTimeout\"";
            Err(invalid(py, &format!("`timeout` must be {modes}, found {other:?}")))
        }
    }
}

/// Return the columns `names` of the operator's input.
pub(super) fn columns(spec: &KeyedFunctionSpec, names: &[String]) -> Result<Schema> {
    let fields = names.iter().map(|name| spec.column(name));
    Ok(Schema::new(fields.collect::<Result<Vec<_>>>()?))
}

/// Parse the declaration of what happens to late rows.
pub(crate) fn late_rows(py: Python<'_>, late: &str) -> PyResult<LateRows> {
    match late {
        "drop" | "quarantine" => Ok(LateRows::TakeOut),
        "keep" => Ok(LateRows::Keep),
        other => {
            let text = format!("`late` must be \"drop\", \"quarantine\" or \"keep\", found {other:?}");
            Err(invalid(py, &text))
        }
    }
}
