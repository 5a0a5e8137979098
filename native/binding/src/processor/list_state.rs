//! `ListState`: any number of values for each key, in the order in which they were appended (Spark: `ListState`).
//!
//! Each element is a row of the map, with its position as sub-key. Positions may have gaps and may not begin at 0,
//! because those of expired elements are not reused before the list is empty.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};
use tidemill_core::operator::{Stored, Written};

use super::current_key::{CurrentKey, call_refused};
use super::variable_type::VariableType;
use super::written::Puts;
use crate::arrow::schema_in;
use crate::spark::class_of;
use crate::value::{Decoder, Value};

/// The changes of a key's list in this visit.
#[derive(Default)]
struct Slot {
    /// Whether the stored elements were removed.
    is_cleared: bool,
    appended: Vec<Value>,
}

impl Slot {
    fn is_touched(&self) -> bool {
        self.is_cleared || !self.appended.is_empty()
    }
}

/// Any number of values for each key, in the order in which they were appended (Spark: `ListState`).
///
/// Usable only while the processor is called for a key; otherwise calls raise `CallRefused`.
///
/// >>> import tidemill as tm
/// >>> class Listed(tm.StatefulProcessor):
/// ...     def init(self, handle):
/// ...         self.seen = handle.getListState("seen", "n bigint")
/// ...
/// ...     def handleInputRows(self, key, rows, timerValues):
/// ...         self.seen.appendList([(row.n,) for row in rows])
/// ...         yield (*key, str([n for (n,) in self.seen.get()]))
/// >>> p = tm.Pipeline("lists")
/// >>> seen = p.read(tm.Rows("user string, n bigint")).groupBy("user").transformWithState(
/// ...     Listed(), "user string, seen string", "update", "None"
/// ... )
/// >>> tm.testing.Tester(p).batch([("a", 1), ("a", 2)]).outputs
/// [('a', '[1, 2]')]
#[pyclass(name = "ListState", module = "tidemill._native")]
pub(crate) struct PyListState {
    kind: Arc<VariableType>,
    at: CurrentKey,
    stored: Stored,
    columns: Vec<Decoder>,
    slots: Vec<Slot>,
}

impl PyListState {
    /// From now on, use the key of `at`.
    pub(super) fn follow(&mut self, at: CurrentKey) {
        self.at = at;
    }

    /// Begin a visit. `stored` has the stored rows of its keys.
    pub(super) fn begin(&mut self, stored: &Stored) {
        self.columns = self.kind.value.decoders(&stored.values);
        self.slots.clear();
        self.slots.resize_with(stored.ends.len(), Slot::default);
        self.stored = stored.clone();
    }

    /// Discard the changes of this key, because its calls failed.
    pub(super) fn forget(&mut self, key: usize) {
        self.slots[key] = Slot::default();
    }

    /// Return the changes of all keys, and end the visit.
    pub(super) fn finish(&mut self, py: Python<'_>) -> tidemill_core::Result<Written> {
        let (mut removed, mut positions) = (Vec::new(), Vec::new());
        let mut puts = Puts::new(None, &self.kind.value);
        for (key, slot) in self.slots.iter().enumerate().filter(|(_, slot)| slot.is_touched()) {
            let (first, appended) = (self.first_free(key), slot.appended.len() as i64);
            if slot.is_cleared {
                let is_written_over = |row: &usize| self.position(*row) < appended;
                removed.extend(self.stored.rows_of(key).filter(|row| !is_written_over(row)));
            }
            for (position, value) in (first..).zip(&slot.appended) {
                puts.add(py, key, None, value)?;
                positions.push(position);
            }
        }
        self.slots.clear();
        self.columns.clear();
        let positions: ArrayRef = Arc::new(Int64Array::from(positions));
        puts.finish(removed, vec![positions])
    }

    /// The position of the first appended element.
    fn first_free(&self, key: usize) -> i64 {
        if self.slots[key].is_cleared {
            return 0;
        }
        self.stored.rows_of(key).map(|row| self.position(row) + 1).max().unwrap_or(0)
    }

    fn position(&self, row: usize) -> i64 {
        self.stored.sub_keys.first().map_or(0, |column| column.as_primitive::<Int64Type>().value(row))
    }

    /// The rows of the stored elements that were not removed, in order.
    fn kept(&self, key: usize) -> Vec<usize> {
        if self.slots[key].is_cleared {
            return Vec::new();
        }
        let mut rows: Vec<usize> = self.stored.rows_of(key).collect();
        rows.sort_unstable_by_key(|&row| self.position(row));
        rows
    }

    fn key(&self, py: Python<'_>) -> PyResult<usize> {
        self.at.key(py, || self.kind.described())
    }
}

/// Append all of `values`, or none of them after an error. `replaces`: remove the present elements first.
fn append(slf: &Bound<'_, PyListState>, values: &Bound<'_, PyAny>, replaces: bool) -> PyResult<()> {
    let py = slf.py();
    let (kind, key) = {
        let state = slf.try_borrow()?;
        (Arc::clone(&state.kind), state.key(py)?)
    };
    // Not borrowed here, because reading the values may run user code that uses this state.
    let parsed = values.try_iter()?.map(|value| kind.parse(&value?)).collect::<PyResult<Vec<_>>>()?;
    if parsed.is_empty() {
        let text = format!("{} cannot store an empty list", kind.described());
        return Err(call_refused(py, &text, Some("call clear() to empty the state")));
    }
    let slot = &mut slf.try_borrow_mut()?.slots[key];
    if replaces {
        *slot = Slot { is_cleared: true, appended: parsed };
    } else {
        slot.appended.extend(parsed);
    }
    Ok(())
}

#[pymethods]
#[expect(non_snake_case, reason = "Spark's names of the arguments")]
impl PyListState {
    #[new]
    fn new(py: Python<'_>, operator: &str, name: &str, value: &Bound<'_, PyAny>, time_zone: &str) -> PyResult<Self> {
        let kind = VariableType::new(py, operator, name, "list", &schema_in(value)?, time_zone)?;
        let (kind, at) = (Arc::new(kind), CurrentKey::default());
        Ok(Self { kind, at, stored: Stored::default(), columns: Vec::new(), slots: Vec::new() })
    }

    /// PySpark's class, so that `isinstance` checks of processors succeed.
    #[getter(__class__)]
    fn class<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        class_of(slf, "pyspark.sql.streaming.stateful_processor", "ListState")
    }

    /// Return whether the list has elements.
    fn exists(&self, py: Python<'_>) -> PyResult<bool> {
        let key = self.at.key(py, || format!("Error checking value state exists: {}", self.kind.described()))?;
        let slot = &self.slots[key];
        Ok(!slot.appended.is_empty() || (!slot.is_cleared && !self.stored.rows_of(key).is_empty()))
    }

    /// Return an iterator over the current elements, as tuples. Later changes do not affect it.
    fn get<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let key = self.key(py)?;
        let elements = PyList::empty(py);
        for row in self.kept(key) {
            elements.append(self.kind.value.decode(&self.columns, py, row, &self.kind.zone)?)?;
        }
        for value in &self.slots[key].appended {
            elements.append(self.kind.value.show(py, value, &self.kind.zone)?)?;
        }
        elements.try_iter()
    }

    /// Replace all elements. Raises `CallRefused` for an empty list, `InvalidInput` if an element does not fit.
    fn put(slf: &Bound<'_, Self>, newState: &Bound<'_, PyAny>) -> PyResult<()> {
        append(slf, newState, true)
    }

    /// Append one element. Raises `InvalidInput` if it does not fit the schema.
    #[pyo3(name = "appendValue")]
    fn append_value(slf: &Bound<'_, Self>, newState: &Bound<'_, PyAny>) -> PyResult<()> {
        append(slf, PyList::new(slf.py(), [newState])?.as_any(), false)
    }

    /// Append all elements of a list, or none of them after an error.
    ///
    /// Raises `CallRefused` for an empty list, and `InvalidInput` if an element does not fit.
    #[pyo3(name = "appendList")]
    fn append_list(slf: &Bound<'_, Self>, newState: &Bound<'_, PyAny>) -> PyResult<()> {
        append(slf, newState, false)
    }

    /// Remove all elements.
    fn clear(&mut self, py: Python<'_>) -> PyResult<()> {
        let key = self.key(py)?;
        self.slots[key] = Slot { is_cleared: true, appended: Vec::new() };
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<{}>", self.kind.described())
    }
}
