//! The readers of files: each takes a path, bytes, or a Python file, and options as an object with named attributes.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

mod ahead;
mod input;
mod options;
mod parquet;
mod ranges;
mod texts;

create_exception!(
    tidemill._native,
    Unreadable,
    PyException,
    "A file is not what its format says. Its arguments are the reason, the line or None, and a hint or None."
);

/// Register the readers.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Unreadable", module.py().get_type::<Unreadable>())?;
    module.add_function(wrap_pyfunction!(texts::csv_files, module)?)?;
    module.add_function(wrap_pyfunction!(texts::csv_names, module)?)?;
    module.add_function(wrap_pyfunction!(texts::json_files, module)?)?;
    module.add_function(wrap_pyfunction!(texts::json_shapes, module)?)?;
    module.add_function(wrap_pyfunction!(texts::values_of_texts, module)?)?;
    module.add_function(wrap_pyfunction!(options::check_time_pattern, module)?)?;
    module.add_function(wrap_pyfunction!(options::charset, module)?)?;
    module.add_class::<parquet::PyParquetFile>()?;
    module.add_class::<parquet::PyParquetRows>()?;
    module.add_class::<texts::PyJsonShapes>()?;
    module.add_class::<ahead::PyTextAhead>()?;
    module.add_class::<texts::PyTextFiles>()?;
    module.add_class::<texts::PyTextReader>()
}
