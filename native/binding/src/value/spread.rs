//! Splits a Python object into the fields of a `Record`: tuples, `Row`s, lists, dicts and dataclasses.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use super::class::Class;
use super::kind::{Field, Record};
use super::look::OtherNames;
use super::refused::Refused;
use crate::naming::type_name;

impl Record {
    /// Call `take` for each field with its object in `object`, in order; `None` if the name is missing.
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

    /// Whether `spread` supports such an object.
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

    /// Return the names in `__fields__`, one for each item. Empty if it has no names, or is read by position only.
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

    /// Whether a row with the names `given` (empty: it has no names) is read by name, not by position.
    fn goes_by_name(&self, object: &Bound<'_, PyAny>, given: &[String]) -> Result<bool, Refused> {
        if given.is_empty() || self.others == OtherNames::ByPosition {
            return Ok(false);
        }
        let is_known = given.iter().all(|name| self.is_field(name));
        let is_whole = || self.has_all(|name| given.iter().any(|one| one == name));
        if is_known || self.others == OtherNames::Ignored && is_whole() {
            return Ok(true);
        }
        Err(self.other_names(object, given))
    }

    /// Return an error if a dataclass has fields that the record lacks. It may omit fields.
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

    /// Whether `given` is true for every field.
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
        if self.others == OtherNames::Ignored && self.has_all(has) {
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

fn is_dataclass(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.hasattr(intern!(object.py(), "__dataclass_fields__"))? && !object.is_instance_of::<PyType>())
}
