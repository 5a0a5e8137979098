//! Names of Python objects in messages.

use pyo3::prelude::*;
use pyo3::types::PyType;

/// The `repr` of an object.
pub(crate) fn repr(object: &Bound<'_, PyAny>) -> String {
    object.repr().map_or_else(|_| "(its repr raised)".to_owned(), |text| text.to_string_lossy().into_owned())
}

/// The name of an object's type.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    name_of(&object.get_type())
}

/// The name of a type.
pub(crate) fn name_of(class: &Bound<'_, PyType>) -> String {
    class.name().map_or_else(|_| "?".to_owned(), |name| name.to_string_lossy().into_owned())
}
