//! Converts errors of the engine to the classes of `tidemill.errors`, which are imported on first use.
//!
//! INVARIANT: an exception that a user's function raised passes through as the same object, with its traceback.

use pyo3::exceptions::PyBaseException;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tidemill_core::Error;

/// Converts a `Result` of the engine to a `PyResult`.
pub(crate) trait Raise<T> {
    /// Return the value, or the Python exception for the error.
    fn raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> Raise<T> for tidemill_core::Result<T> {
    fn raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, error))
    }
}

/// The exception for `error`.
pub(crate) fn to_python(py: Python<'_>, error: Error) -> PyErr {
    let (kind, text) = match error {
        Error::InvalidInput(text) => ("InvalidInput", text),
        Error::StoreUnavailable(text) => ("StoreUnavailable", text),
        Error::CorruptState(text) => ("CorruptState", text),
        Error::InternalError(text) => ("InternalError", text),
        Error::External(error) => match error.downcast::<PyErr>() {
            Ok(raised) => return *raised,
            Err(other) => ("InternalError", other.to_string()),
        },
    };
    exception(py, kind, &text).unwrap_or_else(|failed| failed)
}

/// `InvalidInput` with this message.
pub(crate) fn invalid(py: Python<'_>, text: &str) -> PyErr {
    to_python(py, Error::InvalidInput(text.to_owned()))
}

/// Turn Rust panics into `InternalError`s. pyo3 raises a panic by calling its own exception class, which
/// `except Exception` does not catch. Replacing the `__new__` of that class makes Python raise our error instead.
pub(crate) fn raise_panics_as_errors(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.py().get_type::<PanicException>().setattr("__new__", wrap_pyfunction!(panicked, module)?)
}

/// Make the error for a panic with the message `why`.
#[pyfunction]
#[pyo3(signature = (_class, why=None, *_more))]
fn panicked<'py>(
    py: Python<'py>,
    _class: &Bound<'py, PyAny>,
    why: Option<Bound<'py, PyAny>>,
    _more: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let why = match why {
        Some(made) if made.is_instance_of::<PyBaseException>() => return Ok(made), // Python 3.11 calls this twice
        Some(why) => why.str()?.to_string(),
        None => "no reason given".to_owned(),
    };
    let text =
        format!("the engine panicked: {why}\nhint: report this bug, unless memory ran out or Arrow data was invalid");
    Ok(exception(py, "InternalError", &text)?.into_value(py).into_bound(py).into_any())
}

/// Wrap a Python exception in an error that passes through the engine unchanged.
pub(crate) fn external(error: PyErr) -> Error {
    Error::External(Box::new(error))
}

/// Call `class(message, hint)`. The hint is the last line of `text` if that begins with `hint: `.
fn exception(py: Python<'_>, kind: &str, text: &str) -> PyResult<PyErr> {
    let class = py.import("tidemill.errors")?.getattr(kind)?;
    let arguments = match text.rsplit_once("\nhint: ") {
        Some((message, hint)) => PyTuple::new(py, [message, hint])?,
        None => PyTuple::new(py, [text])?,
    };
    Ok(PyErr::from_value(class.call1(arguments)?))
}
