//! What the declarations of functions have in common, as Python spells it.

use arrow_schema::Schema;
use pyo3::prelude::*;
use tidemill_core::Result;
use tidemill_core::operator::{KeyedFunctionSpec, LateRows, Timeout};

use crate::error::{Raise, invalid};
use crate::value::Field;

/// The key columns, as functions see them.
pub(super) fn key_fields(py: Python<'_>, spec: &KeyedFunctionSpec) -> PyResult<Vec<Field>> {
    columns(spec, &spec.key).raise(py)?.fields().iter().map(|field| Field::new(py, field)).collect()
}

/// When a group times out.
pub(super) fn group_timeout(py: Python<'_>, timeout: &str) -> PyResult<Timeout> {
    match timeout {
        "NoTimeout" => Ok(Timeout::Never),
        "ProcessingTimeTimeout" => Ok(Timeout::ArmedByBatchTime),
        "EventTimeTimeout" => Ok(Timeout::ArmedByEventTime),
        other => Err(invalid(py, &format!("a group times out by one of Spark's three modes, found {other:?}"))),
    }
}

/// The columns `names` of the operator's input.
pub(super) fn columns(spec: &KeyedFunctionSpec, names: &[String]) -> Result<Schema> {
    let fields = names.iter().map(|name| spec.column(name));
    Ok(Schema::new(fields.collect::<Result<Vec<_>>>()?))
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
