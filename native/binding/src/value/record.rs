//! Rows: fields with names, shown as a `tidemill.rows.Row`, a dataclass or a dict, and taken from tuples, dicts and the like.

use arrow_schema::{FieldRef, Fields};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

use super::kind::Field;
use super::look::{Look, OtherNames};
use super::parse::Refused;
use crate::naming::type_name;

/// Fields with names.
pub(crate) struct Record {
    pub(crate) fields: Vec<Field>,
    names: Vec<Py<PyString>>,
    class: Class,
    others: OtherNames,
}

enum Class {
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
    fn row(py: Python<'_>, fields: &Fields) -> PyResult<Self> {
        let class = py.import("tidemill.rows")?.getattr("row_type")?.call1((names(fields),))?;
        Ok(Self::Row(class.cast_into::<PyType>()?.unbind()))
    }
}

/// How a dataclass is called.
enum Calling {
    /// Its parameters are the fields, in this order.
    InOrder,
    ByName,
}

impl Record {
    /// A record of these fields, shown as `class` (a dataclass) or as a `Row`.
    pub(crate) fn new(py: Python<'_>, fields: &Fields, class: Option<&Bound<'_, PyType>>) -> PyResult<Self> {
        let nested = nested_classes(py, class)?;
        let class = match class {
            Some(class) => Class::Dataclass { calling: Calling::of(class, fields)?, class: class.clone().unbind() },
            None => Class::row(py, fields)?,
        };
        Self::of(py, fields, class, OtherNames::Refused, |field| {
            let class = nested.as_ref().map(|nested| nested.get_item(field)).transpose()?.flatten();
            Ok(Look::of_class(class.map(Bound::cast_into::<PyType>).transpose()?))
        })
    }

    /// A record of what is emitted by a processor: a `Row` may have more names than there are fields.
    pub(crate) fn emitted(py: Python<'_>, fields: &Fields) -> PyResult<Self> {
        Self::nested(py, fields, &Look::Emitted)
    }

    /// A record that is shown as a plain tuple and taken by place alone.
    pub(crate) fn placed(py: Python<'_>, fields: &Fields) -> PyResult<Self> {
        Ok(Self::nested(py, fields, &Look::Placed)?.into_tuple())
    }

    /// A record of these fields, shown as a `Row` of what Arrow has in its cells.
    pub(crate) fn of_arrow(py: Python<'_>, fields: &Fields) -> PyResult<Self> {
        Self::of(py, fields, Class::row(py, fields)?, OtherNames::Refused, |_| Ok(Look::Arrow))
    }

    /// A record within another one, shown as `look` has it.
    pub(super) fn nested(py: Python<'_>, fields: &Fields, look: &Look<'_>) -> PyResult<Self> {
        match look {
            Look::Rows => Self::new(py, fields, None),
            Look::Dataclass(class) => Self::new(py, fields, Some(class)),
            Look::Arrow => Self::of(py, fields, Class::Dict, look.other_names(), |_| Ok(Look::Arrow)),
            Look::Placed => Self::of(py, fields, Class::row(py, fields)?, look.other_names(), |_| Ok(Look::Placed)),
            Look::Emitted => Self::of(py, fields, Class::row(py, fields)?, look.other_names(), |_| Ok(Look::Emitted)),
        }
    }

    fn of<'py>(
        py: Python<'py>,
        fields: &Fields,
        class: Class,
        others: OtherNames,
        look: impl Fn(&str) -> PyResult<Look<'py>>,
    ) -> PyResult<Self> {
        let names = fields.iter().map(|field| PyString::intern(py, field.name()).unbind()).collect();
        let field = |field: &FieldRef| Field::looking(py, field, &look(field.name())?);
        Ok(Self { fields: fields.iter().map(field).collect::<PyResult<_>>()?, names, class, others })
    }

    /// The same, shown as a plain tuple and taken by place alone.
    pub(crate) fn into_tuple(self) -> Self {
        Self { class: Class::Tuple, ..self }
    }

    /// Whether its objects cannot be changed by who is given them.
    pub(super) fn is_frozen(&self) -> bool {
        matches!(self.class, Class::Row(_) | Class::Tuple) && self.fields.iter().all(|field| field.kind.is_frozen())
    }

    /// The object that has these values.
    pub(super) fn make<'py>(&self, values: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = values.py();
        match &self.class {
            Class::Tuple => Ok(values.clone().into_any()),
            Class::Row(class) => tuple_of_class(class.bind(py), values),
            Class::Dataclass { class, calling: Calling::InOrder } => class.bind(py).call1(values),
            Class::Dict => Ok(self.named(values)?.into_any()),
            Class::Dataclass { class, calling: Calling::ByName } => class.bind(py).call((), Some(&self.named(values)?)),
        }
    }

    fn named<'py>(&self, values: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyDict>> {
        let named = PyDict::new(values.py());
        for (name, value) in self.names.iter().zip(values) {
            named.set_item(name, value)?;
        }
        Ok(named)
    }

    /// Hands the object of each field of `object` to `take`, in order; `None` where a name is missing.
    pub(crate) fn spread<'py>(
        &self,
        object: &Bound<'py, PyAny>,
        take: impl FnMut(&Field, Option<&Bound<'py, PyAny>>) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let names = self.names.iter();
        if let Ok(tuple) = object.cast::<PyTuple>() {
            let given = self.given_names(tuple)?;
            if self.goes_by_name(object, &given)? {
                let place = |field: &Field| given.iter().position(|name| *name == field.name);
                return self.each(self.fields.iter().map(|f| place(f).map(|at| tuple.get_item(at)).transpose()), take);
            }
            self.check_length(object, tuple.len())?;
            return self.each(tuple.iter().map(|item| Ok(Some(item))), take);
        }
        if let Ok(list) = object.cast::<PyList>() {
            self.check_length(object, list.len())?;
            return self.each(list.iter().map(|item| Ok(Some(item))), take);
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            self.check_names(dict)?;
            return self.each(names.map(|name| dict.get_item(name)), take);
        }
        if is_dataclass(object)? {
            let items = names.map(|name| object.getattr_opt(name)).collect::<PyResult<Vec<_>>>()?;
            if items.iter().any(Option::is_none) {
                self.check_fields(object)?;
            }
            return self.each(items.into_iter().map(Ok), take);
        }
        Err(Refused::misfit(self.described(), object))
    }

    /// Whether `spread` knows such an object.
    pub(super) fn takes(object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let is_known = object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>();
        Ok(is_known || object.is_instance_of::<PyDict>() || is_dataclass(object)?)
    }

    fn each<'py>(
        &self,
        items: impl Iterator<Item = PyResult<Option<Bound<'py, PyAny>>>>,
        mut take: impl FnMut(&Field, Option<&Bound<'py, PyAny>>) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        for (field, item) in self.fields.iter().zip(items) {
            take(field, item?.as_ref())?;
        }
        Ok(())
    }

    /// The names in `__fields__`, one for each item; none where it has none, or goes by place alone.
    fn given_names(&self, tuple: &Bound<'_, PyTuple>) -> PyResult<Vec<String>> {
        let py = tuple.py();
        let is_own = match &self.class {
            Class::Row(class) => tuple.get_type().is(class.bind(py)),
            Class::Tuple => true,
            Class::Dataclass { .. } | Class::Dict => false,
        };
        if is_own || tuple.is_exact_instance_of::<PyTuple>() {
            return Ok(Vec::new());
        }
        let Some(names) = tuple.getattr_opt(intern!(py, "__fields__"))? else { return Ok(Vec::new()) };
        let names = names.extract::<Vec<String>>().unwrap_or_default();
        Ok(if names.len() == tuple.len() { names } else { Vec::new() })
    }

    /// Whether a row of the names `given` (none: it has no names) goes by name, else by place.
    fn goes_by_name(&self, object: &Bound<'_, PyAny>, given: &[String]) -> Result<bool, Refused> {
        if given.is_empty() || self.others == OtherNames::ByPlace {
            return Ok(false);
        }
        let is_known = given.iter().all(|name| self.is_field(name));
        let is_whole = || self.has_all(|name| given.iter().any(|one| one == name));
        if is_known || self.others == OtherNames::LeftOut && is_whole() {
            return Ok(true);
        }
        Err(self.other_names(object, given))
    }

    /// A dataclass that lacks a field has no other ones.
    fn check_fields(&self, object: &Bound<'_, PyAny>) -> Result<(), Refused> {
        let names = object.getattr(intern!(object.py(), "__dataclass_fields__"))?.try_iter()?;
        let given = names.map(|name| name?.extract()).collect::<PyResult<Vec<String>>>()?;
        if given.iter().all(|name| self.is_field(name)) { Ok(()) } else { Err(self.other_names(object, &given)) }
    }

    fn other_names(&self, object: &Bound<'_, PyAny>, given: &[String]) -> Refused {
        let found = format!("a `{}` with the names ({})", type_name(object), given.join(", "));
        Refused::misfit_described(self.described(), found)
    }

    fn is_field(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }

    /// Whether every field is `given`.
    fn has_all(&self, given: impl Fn(&str) -> bool) -> bool {
        self.fields.iter().all(|field| given(&field.name))
    }

    fn check_length(&self, object: &Bound<'_, PyAny>, found: usize) -> Result<(), Refused> {
        if found == self.fields.len() {
            return Ok(());
        }
        Err(Refused::misfit_described(self.described(), format!("a `{}` of length {found}", type_name(object))))
    }

    fn check_names(&self, dict: &Bound<'_, PyDict>) -> Result<(), Refused> {
        let has = |name: &str| dict.contains(name).unwrap_or(false);
        if self.others == OtherNames::LeftOut && self.has_all(has) {
            return Ok(());
        }
        for key in dict.keys() {
            let name = key.extract::<String>().ok();
            if !name.is_some_and(|name| self.is_field(&name)) {
                let found = format!("a `dict` with the name {}", key.repr()?);
                return Err(Refused::misfit_described(self.described(), found));
            }
        }
        Ok(())
    }

    fn described(&self) -> String {
        let fields: Vec<String> = self.fields.iter().map(|field| format!("{} {}", field.name, field.ddl())).collect();
        format!("({})", fields.join(", "))
    }
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

fn is_dataclass(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.hasattr(intern!(object.py(), "__dataclass_fields__"))? && !object.is_instance_of::<PyType>())
}

fn names(fields: &Fields) -> Vec<&str> {
    fields.iter().map(|field| field.name().as_str()).collect()
}

/// The dataclasses that fields of a dataclass are annotated with, by field name.
fn nested_classes<'py>(py: Python<'py>, class: Option<&Bound<'py, PyType>>) -> PyResult<Option<Bound<'py, PyDict>>> {
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

/// The dataclass that an annotation speaks of: itself, or the last of its arguments that is one (`X | None`, `list[X]`).
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

/// `tuple.__new__(class, values)`, for a class below `tuple`.
#[expect(unsafe_code, reason = "a slot of `tuple` is called with the arguments that its `tp_new` takes")]
fn tuple_of_class<'py>(class: &Bound<'py, PyType>, values: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let arguments = PyTuple::new(py, [values])?;
    // SAFETY: `tp_new` of `tuple` is a `newfunc`; `class` is a subtype of `tuple` (`row_type` makes no other), and a new
    // reference or an exception comes back.
    unsafe {
        let slot = ffi::PyType_GetSlot(&raw mut ffi::PyTuple_Type, ffi::Py_tp_new);
        let new: ffi::newfunc = std::mem::transmute(slot);
        Bound::from_owned_ptr_or_err(py, new(class.as_type_ptr(), arguments.as_ptr(), std::ptr::null_mut()))
    }
}
