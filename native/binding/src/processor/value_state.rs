//! `ValueState`: one value for each key (Spark: `ValueState`).

use std::sync::Arc;

use pyo3::prelude::*;
use tidemill_core::operator::{Stored, Written};

use super::current_key::CurrentKey;
use super::variable_type::VariableType;
use super::written::Puts;
use crate::arrow::schema_in;
use crate::spark::class_of;
use crate::value::{Decoder, Value};

/// The change of a key's value in this visit.
enum Slot {
    AsStored,
    Updated(Value),
    Cleared,
}

/// One value for each key (Spark: `ValueState`).
///
/// Usable only while the processor is called for a key; otherwise calls raise `CallRefused`. Values are tuples, copied
/// in and out: changing an object that was passed or returned does not change the state.
///
/// >>> import tidemill as tm
/// >>> class Last(tm.StatefulProcessor):
/// ...     def init(self, handle):
/// ...         self.last = handle.getValueState("last", "n bigint")
/// ...
/// ...     def handleInputRows(self, key, rows, timerValues):
/// ...         before = self.last.get()
/// ...         for row in rows:
/// ...             self.last.update((row.n,))
/// ...         yield (*key, str(before), str(self.last.get()))
/// >>> p = tm.Pipeline("values")
/// >>> changes = p.read(tm.Rows("user string, n bigint")).groupBy("user").transformWithState(
/// ...     Last(), "user string, before string, after string", "update", "None"
/// ... )
/// >>> tester = tm.testing.Tester(p)
/// >>> tester.batch([("a", 1), ("a", 2)]).outputs, tester.batch([("a", 3)]).outputs
/// ([('a', 'None', '(2,)')], [('a', '(2,)', '(3,)')])
#[pyclass(name = "ValueState", module = "tidemill._native")]
pub(crate) struct PyValueState {
    kind: Arc<VariableType>,
    at: CurrentKey,
    stored: Stored,
    columns: Vec<Decoder>,
    slots: Vec<Slot>,
}

impl PyValueState {
    /// From now on, use the key of `at`.
    pub(super) fn follow(&mut self, at: CurrentKey) {
        self.at = at;
    }

    /// Begin a visit. `stored` has the stored rows of its keys.
    pub(super) fn begin(&mut self, stored: &Stored) {
        self.columns = self.kind.value.decoders(&stored.values);
        self.slots.clear();
        self.slots.resize_with(stored.ends.len(), || Slot::AsStored);
        self.stored = stored.clone();
    }

    /// Discard the change of this key, because its calls failed.
    pub(super) fn forget(&mut self, key: usize) {
        self.slots[key] = Slot::AsStored;
    }

    /// Return the changes of all keys, and end the visit.
    pub(super) fn finish(&mut self, py: Python<'_>) -> tidemill_core::Result<Written> {
        let mut removed = Vec::new();
        let mut puts = Puts::new(None, &self.kind.value);
        for (key, slot) in self.slots.drain(..).enumerate() {
            match slot {
                Slot::AsStored => {}
                Slot::Updated(value) => puts.add(py, key, None, &value)?,
                Slot::Cleared => removed.extend(self.stored.rows_of(key)),
            }
        }
        self.columns.clear();
        puts.finish(removed, Vec::new())
    }

    fn key(&self, py: Python<'_>) -> PyResult<usize> {
        self.at.key(py, || self.kind.described())
    }
}

#[pymethods]
impl PyValueState {
    #[new]
    fn new(py: Python<'_>, operator: &str, name: &str, value: &Bound<'_, PyAny>, time_zone: &str) -> PyResult<Self> {
        let kind = VariableType::new(py, operator, name, "value", &schema_in(value)?, time_zone)?;
        let (kind, at) = (Arc::new(kind), CurrentKey::default());
        Ok(Self { kind, at, stored: Stored::default(), columns: Vec::new(), slots: Vec::new() })
    }

    /// PySpark's class, so that `isinstance` checks of processors succeed.
    #[getter(__class__)]
    fn class<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        class_of(slf, "pyspark.sql.streaming.stateful_processor", "ValueState")
    }

    /// Return whether the key has a value.
    fn exists(&self, py: Python<'_>) -> PyResult<bool> {
        let key = self.at.key(py, || format!("Error checking value state exists: {}", self.kind.described()))?;
        Ok(match &self.slots[key] {
            Slot::AsStored => !self.stored.rows_of(key).is_empty(),
            Slot::Updated(_) => true,
            Slot::Cleared => false,
        })
    }

    /// Return the value as a tuple, or None if there is none.
    fn get<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = self.key(py)?;
        match &self.slots[key] {
            Slot::AsStored => match self.stored.rows_of(key).next() {
                Some(row) => self.kind.value.decode(&self.columns, py, row, &self.kind.zone).map(Some),
                None => Ok(None),
            },
            Slot::Updated(value) => self.kind.value.show(py, value, &self.kind.zone).map(Some),
            Slot::Cleared => Ok(None),
        }
    }

    /// Set the value. Raises `InvalidInput` if it does not fit the schema.
    #[pyo3(name = "update")]
    #[expect(non_snake_case, reason = "Spark's name of the argument")]
    fn update(slf: &Bound<'_, Self>, newValue: &Bound<'_, PyAny>) -> PyResult<()> {
        let (kind, key) = {
            let state = slf.try_borrow()?;
            (Arc::clone(&state.kind), state.key(slf.py())?)
        };
        // Not borrowed here, because reading the value may run user code that uses this state.
        let value = kind.parse(newValue)?;
        slf.try_borrow_mut()?.slots[key] = Slot::Updated(value);
        Ok(())
    }

    /// Remove the value.
    fn clear(&mut self, py: Python<'_>) -> PyResult<()> {
        let key = self.key(py)?;
        self.slots[key] = Slot::Cleared;
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<{}>", self.kind.described())
    }
}
