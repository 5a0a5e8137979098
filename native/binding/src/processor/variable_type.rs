//! What is the same for a variable of all keys: its name, and what its values look like.

use arrow_schema::Schema;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::caller::iterate;
use crate::error::invalid;
use crate::value::{Refused, Shape, Value, Zone};

/// A variable of a processor.
pub(super) struct VariableType {
    pub(super) operator: String,
    pub(super) name: String,
    /// `value`, `list` or `map`.
    pub(super) what: &'static str,
    pub(super) value: Shape,
    pub(super) zone: Zone,
}

impl VariableType {
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
        self.parse_as(&self.value, object, "value")
    }

    /// `object` as `part` of this variable, `value` or `key`, which is of this shape. As in Spark anything is taken that
    /// can be iterate and gives as many cells.
    pub(super) fn parse_as(&self, shape: &Shape, object: &Bound<'_, PyAny>, part: &str) -> PyResult<Value> {
        let cells = cells(object, shape.width())?;
        let parsed = shape.parse(cells.as_ref().unwrap_or(object), &self.zone);
        parsed.map_err(|refused| self.misfit(object.py(), part, refused))
    }

    fn misfit(&self, py: Python<'_>, part: &str, refused: Refused) -> PyErr {
        match refused {
            Refused::Raised(error) => error,
            Refused::Misfit(misfit) => invalid(py, &format!("{} cannot store the {part}: {misfit}", self.described())),
        }
    }
}

/// What an object gives that is no row but can be iterate, where those are `width` cells.
fn cells<'py>(object: &Bound<'py, PyAny>, width: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    if Shape::is_row(object)? {
        return Ok(None);
    }
    let Some(found) = iterate(object)? else { return Ok(None) };
    let cells: Vec<_> = found.take(width + 1).collect::<PyResult<_>>()?;
    if cells.len() == width { Ok(Some(PyTuple::new(object.py(), cells)?.into_any())) } else { Ok(None) }
}
