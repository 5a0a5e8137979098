//! The parts of a variable that all keys share: its name and the shape of its values.

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
    /// Declare the variable `name` with values of these columns.
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

    /// The subject of messages, such as ``value state `count` of operator `spend` ``.
    pub(super) fn described(&self) -> String {
        format!("{} state `{}` of operator `{}`", self.what, self.name, self.operator)
    }

    /// Parse `object` as a value of this variable.
    pub(super) fn parse(&self, object: &Bound<'_, PyAny>) -> PyResult<Value> {
        self.parse_as(&self.value, object, "value")
    }

    /// Parse `object` as `part` of this variable (`value` or `key`) with this shape. As in Spark, any iterable with the
    /// right number of cells is accepted.
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

/// Return the cells of an iterable that is not a row, if there are `width` of them.
fn cells<'py>(object: &Bound<'py, PyAny>, width: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    if Shape::is_row(object)? {
        return Ok(None);
    }
    let Some(found) = iterate(object)? else { return Ok(None) };
    let cells: Vec<_> = found.take(width + 1).collect::<PyResult<_>>()?;
    if cells.len() == width { Ok(Some(PyTuple::new(object.py(), cells)?.into_any())) } else { Ok(None) }
}
