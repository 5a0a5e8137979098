//! The errors of calls of a user's function. Each names the operator, the function and the key.
//!
//! INVARIANT: an exception of the user's code reaches the caller as `InvalidInput` with its traceback. Interrupts pass
//! through unchanged.

use pyo3::exceptions::{PyException, PySystemExit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyString};
use tidemill_core::Error;

use crate::error::{external, invalid};
use crate::naming::{name_of, repr};
use crate::value::Refused;

/// What happens if the calls for a key fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnError {
    /// The pass fails.
    Fail,
    /// The key's rows are quarantined. Its state and deadline stay as they were.
    Quarantine,
}

impl OnError {
    /// Parse Python's spelling.
    pub(crate) fn named(py: Python<'_>, name: &str) -> PyResult<Self> {
        match name {
            "fail" => Ok(Self::Fail),
            "quarantine" => Ok(Self::Quarantine),
            other => Err(invalid(py, &format!("on_error must be \"fail\" or \"quarantine\", found {other:?}"))),
        }
    }

    /// Return the reason, in one line, if the key is to be quarantined for this error; otherwise the error.
    pub(crate) fn reason(self, py: Python<'_>, error: Error) -> Result<String, Error> {
        if self == Self::Fail {
            return Err(error);
        }
        let Error::External(inner) = error else { return Err(error) };
        let raised = inner.downcast::<PyErr>().map_err(Error::External)?;
        match first_line(py, &raised) {
            Some(line) => Ok(line),
            None => Err(external(*raised)),
        }
    }
}

/// The key of a call, the chunk of its rows if it has any, and the place of its row in the chunk if it has just one.
#[derive(Clone, Copy)]
pub(crate) struct CallSite<'a, 'py> {
    pub(crate) key: &'a Bound<'py, PyAny>,
    pub(crate) chunk: Option<u32>,
    pub(crate) row: Option<u32>,
}

/// A user's function.
pub(crate) struct Caller {
    pub(crate) operator: String,
    pub(crate) function: Py<PyAny>,
    pub(crate) on_error: OnError,
}

impl Caller {
    /// Make the error for an exception of the function. `is_complaint`: it is our own error, and its message is
    /// complete.
    pub(crate) fn raised(&self, error: PyErr, at: CallSite<'_, '_>, is_complaint: bool) -> Error {
        let py = at.key.py();
        match is_complaint && !is_interrupt(py, &error) {
            true => with_location(error, &self.operator, at),
            false => raised(&self.described(py), &self.operator, error, at),
        }
    }

    /// Make the error for a returned value that was refused.
    pub(crate) fn misfit(&self, refused: Refused, at: CallSite<'_, '_>) -> Error {
        match refused {
            Refused::Misfit(misfit) => self.unfit(&misfit.to_string(), at),
            Refused::Raised(error) => self.raised(error, at, false),
        }
    }

    /// Make the error for a returned value that cannot be emitted, and why.
    pub(crate) fn unfit(&self, why: &str, at: CallSite<'_, '_>) -> Error {
        let (py, key) = (at.key.py(), repr(at.key));
        let text = format!("cannot emit the result of {} for key `{key}`: {why}", self.described(py));
        with_location(invalid(py, &text), &self.operator, at)
    }

    /// The name of the function in messages.
    fn described(&self, py: Python<'_>) -> String {
        format!("function `{}` of operator `{}`", self.function_name(py), self.operator)
    }

    fn function_name(&self, py: Python<'_>) -> String {
        let function = self.function.bind(py);
        let name = function.getattr("__name__").and_then(|name| name.extract::<String>());
        name.unwrap_or_else(|_| repr(function))
    }
}

/// Make the error for an exception of user code, which messages call `called`.
pub(crate) fn raised(called: &str, operator: &str, error: PyErr, at: CallSite<'_, '_>) -> Error {
    let py = at.key.py();
    if is_interrupt(py, &error) {
        return external(error);
    }
    let (what, trace) = (summary(py, &error), traceback(py, &error));
    let raised = invalid(py, &format!("{called} raised `{what}` for key `{}`\n{trace}", repr(at.key)));
    raised.set_cause(py, Some(error));
    with_location(raised, operator, at)
}

/// Iterate over an object of user code. `None` if it is not iterable. If its own `__iter__` raises, that is an error of
/// the user's code.
pub(crate) fn iterate<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyIterator>>> {
    match given.try_iter() {
        Ok(rows) => Ok(Some(rows)),
        Err(_) if !given.hasattr("__iter__")? && !given.hasattr("__getitem__")? => Ok(None),
        Err(error) => Err(error),
    }
}

/// Iterate over rows. `None` also for text, bytes or a dict, which are single values that are not in a list.
pub(crate) fn iterate_rows<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyIterator>>> {
    let is_one = given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>();
    if is_one || given.is_instance_of::<PyDict>() { Ok(None) } else { iterate(given) }
}

/// Make the error for a cell that Python has no object for.
pub(crate) fn unreadable(py: Python<'_>, operator: &str, error: PyErr, chunk: Option<u32>) -> Error {
    if is_interrupt(py, &error) {
        return external(error);
    }
    let text = format!("operator `{operator}` cannot convert a row to Python objects: {}", error.value(py));
    with_location(invalid(py, &text), operator, CallSite { key: py.None().bind(py), chunk, row: None })
}

/// Set the attributes of an error that say where it occurred.
pub(crate) fn with_location(error: PyErr, operator: &str, at: CallSite<'_, '_>) -> Error {
    let value = error.value(at.key.py());
    let with_location = value
        .setattr("operator", operator)
        .and_then(|()| value.setattr("key", repr(at.key)))
        .and_then(|()| value.setattr("chunk", at.chunk))
        .and_then(|()| value.setattr("row", at.row));
    external(with_location.err().unwrap_or(error))
}

/// Return the first line of an `InvalidInput`, or `None` for any other error.
fn first_line(py: Python<'_>, error: &PyErr) -> Option<String> {
    let class = py.import("tidemill.errors").and_then(|errors| errors.getattr("InvalidInput")).ok()?;
    let value = error.value(py);
    if !value.is_instance(&class).ok()? {
        return None;
    }
    value.getattr("first_line").and_then(|line| line.extract()).ok()
}

/// Whether an exception of user code is an interrupt, not an error. `sys.exit` counts as an error, because nothing was
/// committed and the process must not end with success.
fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    !error.is_instance_of::<PyException>(py) && !error.is_instance_of::<PySystemExit>(py)
}

/// Summarise an error in one line, such as `ZeroDivisionError: division by zero`.
fn summary(py: Python<'_>, error: &PyErr) -> String {
    let name = name_of(&error.get_type(py));
    let text = error.value(py).str().map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
    match text.lines().next() {
        Some(line) if !line.is_empty() => format!("{name}: {line}"),
        _ => name,
    }
}

/// Format the traceback as Python prints it.
fn traceback(py: Python<'_>, error: &PyErr) -> String {
    let lines = || -> PyResult<String> {
        let error = error.clone_ref(py).into_value(py); // keeps the traceback
        let lines = py.import("traceback")?.getattr("format_exception")?.call1((error,))?;
        Ok(lines.extract::<Vec<String>>()?.concat())
    };
    lines().unwrap_or_default().trim_end().to_owned()
}
