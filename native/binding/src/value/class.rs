//! The Python class that rows are shown as: a plain tuple, a `tidemill.rows.Row`, a dict or a dataclass.

use arrow_schema::Fields;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

/// The Python class of the objects that rows become.
pub(super) enum Class {
    /// A plain tuple.
    Tuple,
    /// Made by `tidemill.rows.row_type`.
    Row(Py<PyType>),
    Dict,
    Dataclass {
        class: Py<PyType>,
        calling: Calling,
    },
}

impl Class {
    /// Return the `tidemill.rows.Row` class with these names.
    pub(super) fn row(py: Python<'_>, fields: &Fields) -> PyResult<Self> {
        let class = py.import("tidemill.rows")?.getattr("row_type")?.call1((names(fields),))?;
        Ok(Self::Row(class.cast_into::<PyType>()?.unbind()))
    }

    /// Return a dataclass, which must have these fields.
    pub(super) fn dataclass(class: &Bound<'_, PyType>, fields: &Fields) -> PyResult<Self> {
        Ok(Self::Dataclass { calling: Calling::of(class, fields)?, class: class.clone().unbind() })
    }

    /// Make the object with these values.
    pub(super) fn make<'py>(
        &self,
        names: &[Py<PyString>],
        values: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = values.py();
        match self {
            Class::Tuple => Ok(values.clone().into_any()),
            Class::Row(class) => tuple_of_class(class.bind(py), values),
            Class::Dataclass { class, calling: Calling::InOrder } => class.bind(py).call1(values),
            Class::Dict => Ok(named(names, values)?.into_any()),
            Class::Dataclass { class, calling: Calling::ByName } => {
                class.bind(py).call((), Some(&named(names, values)?))
            }
        }
    }
}

/// How to call a dataclass.
pub(super) enum Calling {
    /// Its parameters are the fields, in this order.
    InOrder,
    ByName,
}

impl Calling {
    fn of(class: &Bound<'_, PyType>, fields: &Fields) -> PyResult<Self> {
        let parameters = class.py().import("inspect")?.getattr("signature")?.call1((class,))?.getattr("parameters")?;
        let found: Vec<String> = parameters.try_iter()?.map(|name| name?.extract()).collect::<PyResult<_>>()?;
        let is_keyword_only = |name: &String| -> PyResult<bool> {
            let parameter = parameters.get_item(name)?;
            parameter.getattr("kind")?.eq(parameter.getattr("KEYWORD_ONLY")?)
        };
        for name in &found {
            if is_keyword_only(name)? {
                return Ok(Self::ByName);
            }
        }
        Ok(if found == names(fields) { Self::InOrder } else { Self::ByName })
    }
}

fn names(fields: &Fields) -> Vec<&str> {
    fields.iter().map(|field| field.name().as_str()).collect()
}

/// Return the dataclasses in the annotations of a dataclass's fields, by field name.
pub(super) fn nested_classes<'py>(
    py: Python<'py>,
    class: Option<&Bound<'py, PyType>>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(class) = class else { return Ok(None) };
    let found = PyDict::new(py);
    let is_dataclass = py.import("dataclasses")?.getattr("is_dataclass")?;
    let Ok(hints) = py.import("typing")?.getattr("get_type_hints")?.call1((class,)) else { return Ok(Some(found)) };
    for (name, hint) in hints.cast_into::<PyDict>()? {
        if let Some(class) = dataclass_in(&hint, &is_dataclass)? {
            found.set_item(name, class)?;
        }
    }
    Ok(Some(found))
}

/// Find the dataclass in an annotation: the annotation itself, or its last argument that is one (`X | None`,
/// `list[X]`).
fn dataclass_in<'py>(
    hint: &Bound<'py, PyAny>,
    is_dataclass: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if hint.is_instance_of::<PyType>() && is_dataclass.call1((hint,))?.is_truthy()? {
        return Ok(Some(hint.clone()));
    }
    let Some(arguments) = hint.getattr_opt("__args__")? else { return Ok(None) };
    let mut found = None;
    for argument in arguments.try_iter()? {
        found = dataclass_in(&argument?, is_dataclass)?.or(found);
    }
    Ok(found)
}

fn named<'py>(names: &[Py<PyString>], values: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyDict>> {
    let named = PyDict::new(values.py());
    for (name, value) in names.iter().zip(values) {
        named.set_item(name, value)?;
    }
    Ok(named)
}

/// Call `tuple.__new__(class, values)` for a subclass of `tuple`.
#[expect(unsafe_code, reason = "a slot of `tuple` is called with the arguments that its `tp_new` takes")]
fn tuple_of_class<'py>(class: &Bound<'py, PyType>, values: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let arguments = PyTuple::new(py, [values])?;
    // SAFETY: `tp_new` of `tuple` is a `newfunc`. `class` is a subtype of `tuple`, because `row_type` makes only such
    // classes. The call returns a new reference, or null with an exception set.
    unsafe {
        let slot = ffi::PyType_GetSlot(&raw mut ffi::PyTuple_Type, ffi::Py_tp_new);
        let new: ffi::newfunc = std::mem::transmute(slot);
        Bound::from_owned_ptr_or_err(py, new(class.as_type_ptr(), arguments.as_ptr(), std::ptr::null_mut()))
    }
}
