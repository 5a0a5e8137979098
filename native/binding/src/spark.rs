//! PySpark's classes for our objects and errors, if PySpark is loaded, so that `isinstance` and `except` in functions
//! that were written for PySpark work.

use pyo3::PyClass;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Make an error of class `kind` that `except` clauses for the class `spark` of `pyspark.errors` catch as well.
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

/// Return the `__class__` of an object: the class `name` of PySpark's `module` if that is loaded, else its own class.
pub(crate) fn class_of<'py, T: PyClass>(
    object: &Bound<'py, T>,
    module: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let modules = object.py().import("sys")?.getattr("modules")?;
    let known = modules.call_method1("get", (module,)).and_then(|loaded| loaded.getattr(name));
    Ok(known.unwrap_or_else(|_| PyType::new::<T>(object.py()).into_any()))
}
