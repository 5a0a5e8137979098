//! What PySpark's own code knows our objects and errors as, where it is loaded: `isinstance` and `except` of functions that
//! were written for it.

use pyo3::PyClass;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The error of class `kind` (of `tidemill.errors` or of Python) that `except` for `spark` of `pyspark.errors` catches too.
pub(crate) fn raised<'py>(
    py: Python<'py>,
    kind: &Bound<'py, PyAny>,
    spark: &str,
    text: &str,
    hint: Option<&str>,
) -> PyErr {
    let made = || {
        let function = py.import("tidemill.errors")?.getattr("raised_by_state")?;
        let error = match hint {
            Some(hint) => function.call1((kind, spark, text, hint))?,
            None => function.call1((kind, spark, text))?,
        };
        Ok(PyErr::from_value(error))
    };
    made().unwrap_or_else(|failed: PyErr| failed)
}

/// The class of `module` that PySpark has for such an object, if that is loaded, or else its own class: its `__class__`.
pub(crate) fn class_of<'py, T: PyClass>(
    object: &Bound<'py, T>,
    module: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let modules = object.py().import("sys")?.getattr("modules")?;
    let known = modules.call_method1("get", (module,)).and_then(|loaded| loaded.getattr(name));
    Ok(known.unwrap_or_else(|_| PyType::new::<T>(object.py()).into_any()))
}
