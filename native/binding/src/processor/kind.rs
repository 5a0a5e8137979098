//! What is the same for a variable of all keys: its name, and what its values look like.

use arrow_schema::Schema;
use pyo3::prelude::*;

use crate::error::invalid;
use crate::value::{Refused, Shape, Value, Zone};

/// A variable of a processor.
pub(super) struct Kind {
    pub(super) operator: String,
    pub(super) name: String,
    /// `value`, `list` or `map`.
    pub(super) what: &'static str,
    pub(super) value: Shape,
    pub(super) zone: Zone,
}

impl Kind {
    /// The variable `name` with values of these columns.
    pub(super) fn new(
        py: Python<'_>,
        operator: &str,
        name: &str,
        what: &'static str,
        value: &Schema,
        time_zone: &str,
    ) -> PyResult<Self> {
        Ok(Self {
            operator: operator.to_owned(),
            name: name.to_owned(),
            what,
            value: Shape::tuple(py, value.fields())?,
            zone: Zone::named(py, time_zone)?,
        })
    }

    /// `value state `count` of operator `spend``.
    pub(super) fn described(&self) -> String {
        format!("{} state `{}` of operator `{}`", self.what, self.name, self.operator)
    }

    /// `object` as a value of this variable.
    pub(super) fn parse(&self, object: &Bound<'_, PyAny>) -> PyResult<Value> {
        let parsed = self.value.parse(object, &self.zone);
        parsed.map_err(|refused| self.misfit(object.py(), "value", refused))
    }

    /// The complaint for an object that does not fit; `part` is `value` or `key`.
    pub(super) fn misfit(&self, py: Python<'_>, part: &str, refused: Refused) -> PyErr {
        match refused {
            Refused::Raised(error) => error,
            Refused::Misfit(misfit) => invalid(py, &format!("{} cannot take the {part}: {misfit}", self.described())),
        }
    }
}
