//! The functions that make operators without user code: `aggregate`, `sessions`, `deduplicate`.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use tidemill_core::Result;
use tidemill_core::aggregate::Function;
use tidemill_core::operator::{
    AggregateOperator, AggregateSpec, Call, Cut, DeduplicateOperator, DeduplicateSpec, Ends, Forget, KeyTimeSpec,
    SessionOperator, SessionSpec, WindowSpec,
};

use crate::arrow::schema_in;
use crate::error::{Raise, invalid};
use crate::operator::PyOperator;

/// Windows as declared in Python. Times are in milliseconds; `cut_ms` is `None` if the column holds windows.
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
                let text = format!(
                    "invalid windows of {size} ms every {slide} ms: expected a slide of at least 1 ms and no longer \
                     than a window"
                );
                return Err(invalid(py, &text));
            }
        };
        Ok(WindowSpec { column: self.column, cut, key: self.key.into(), place: self.place, output: self.output, ends })
    }
}

/// Parse what happens at the end of a window or a key.
fn ends(py: Python<'_>, named: &str) -> PyResult<Ends> {
    match named {
        "never" => Ok(Ends::Never),
        "forgotten" => Ok(Ends::Forgotten),
        "emitted" => Ok(Ends::Emitted),
        other => {
            let text = format!("`ends` must be \"never\", \"forgotten\" or \"emitted\", found {other:?}");
            Err(invalid(py, &text))
        }
    }
}

/// Return `InvalidInput` if a window or session column cannot stand at `place` among the key columns.
fn check_position(py: Python<'_>, what: &str, place: usize, key_columns: usize) -> PyResult<()> {
    if place <= key_columns {
        return Ok(());
    }
    Err(invalid(py, &format!("{what} position {place} is out of range: there are {key_columns} key columns")))
}

/// (output column, function, input column or None for a count of rows).
type DeclaredFunction = (String, String, Option<String>);

/// Parse the aggregate functions. `by` and `parameters` are by output column.
fn calls(
    functions: Vec<DeclaredFunction>,
    by: Option<HashMap<String, String>>,
    parameters: Option<HashMap<String, u32>>,
) -> Result<Vec<Call>> {
    let (mut by, parameters) = (by.unwrap_or_default(), parameters.unwrap_or_default());
    let call = |(output, function, column): DeclaredFunction| {
        let by = by.remove(&output);
        let function = Function::named(&function, parameters.get(&output).copied())?;
        Ok(Call { output, function, column, by })
    };
    functions.into_iter().map(call).collect()
}

/// Make the operator for aggregates by session.
#[pyfunction]
#[pyo3(signature = (name, key, input_schema, functions, column, gap_ms, place, by=None, parameters=None))]
#[expect(clippy::too_many_arguments, reason = "the stub fixes the signature")]
pub(crate) fn sessions(
    py: Python<'_>,
    name: &str,
    key: Vec<String>,
    input_schema: &Bound<'_, PyAny>,
    functions: Vec<DeclaredFunction>,
    column: String,
    gap_ms: i64,
    place: usize,
    by: Option<HashMap<String, String>>,
    parameters: Option<HashMap<String, u32>>,
) -> PyResult<PyOperator> {
    if gap_ms < 1 {
        return Err(invalid(py, &format!("the gap between sessions must be at least 1 ms, found {gap_ms} ms")));
    }
    check_position(py, "session", place, key.len())?;
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

/// Make the operator for running aggregates.
#[pyfunction]
#[pyo3(signature = (name, key, input_schema, functions, window=None, by=None, parameters=None, key_time=None))]
#[expect(clippy::too_many_arguments, reason = "the stub fixes the signature")]
pub(crate) fn aggregate(
    py: Python<'_>,
    name: &str,
    key: Vec<String>,
    input_schema: &Bound<'_, PyAny>,
    functions: Vec<DeclaredFunction>,
    window: Option<DeclaredWindow>,
    by: Option<HashMap<String, String>>,
    parameters: Option<HashMap<String, u32>>,
    key_time: Option<(String, String)>,
) -> PyResult<PyOperator> {
    let key_time = match key_time {
        None => None,
        Some((column, named)) => Some(KeyTimeSpec { column, ends: ends(py, &named)? }),
    };
    if let Some(window) = &window {
        check_position(py, "window", window.place, key.len())?;
    }
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

/// Make the operator that passes the first row of each key.
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
            let text = "`forget` must be \"never\", \"at_event_time\", or \"after\" with a delay in ms";
            let delay = delay_ms.map_or_else(|| "no delay".to_owned(), |ms| format!("a delay of {ms} ms"));
            return Err(invalid(py, &format!("{text}, found {forget:?} with {delay}")));
        }
    };
    let input = Arc::new(schema_in(input_schema)?);
    let spec = DeduplicateSpec { name: name.to_owned(), key, input, event_time, forget };
    Ok(PyOperator::new(name.to_owned(), DeduplicateOperator::new(spec).raise(py)?))
}
