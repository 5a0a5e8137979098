//! `State`: the state of one key inside a `mapWithState` function (Spark: `org.apache.spark.streaming.State`).
//!
//! INVARIANT: an object that user code kept beyond its call is retired: using it raises, and it never shows another
//! key.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::lent_value::{Current, Lendable, LentValue, Settable, StateKind, update};
use crate::value::Decoder;

/// The key of a call, with its state, and whether the key is timing out.
pub(crate) struct StateCall {
    pub(crate) key: Py<PyAny>,
    pub(crate) current: Current,
    pub(crate) is_timing_out: bool,
}

/// The state of one key inside a `mapWithState` function (Spark: `org.apache.spark.streaming.State`).
///
/// Values are copied in and out: changing an object that `get` returned, or that was passed to `update`, does not
/// change the state. Using the object after its call has returned raises `InvalidInput` (a `ValueError`).
///
/// >>> import tidemill as tm
/// >>> def total(key, amount, state):
/// ...     state.update((state.getOption or 0) + amount)
/// ...     return (key, state.get)
/// >>> p = tm.Pipeline("spend")
/// >>> grouped = p.read(tm.Rows("user string, amount bigint")).groupBy("user")
/// >>> spend = grouped.mapWithState(
/// ...     tm.StateSpec.function(total), "bigint", "user string, total bigint", value="amount"
/// ... )
/// >>> tm.testing.Tester(p).batch([("a", 1), ("a", 5)]).outputs
/// [('a', 1), ('a', 6)]
#[pyclass(name = "State", module = "tidemill._native")]
pub(crate) struct PyState {
    held: LentValue,
    is_timing_out: bool,
    /// Whether this call removed the state.
    removed: bool,
}

impl PyState {
    /// Make a state that is not lent yet. `stored` are the columns with the rows of `Current::Stored`.
    pub(crate) fn new(kind: Arc<StateKind>, stored: Arc<Vec<Decoder>>) -> Self {
        Self { held: LentValue::new(kind, stored), is_timing_out: false, removed: false }
    }

    /// Lend it to the calls for a key.
    pub(crate) fn lend(&mut self, lent: StateCall) {
        self.removed = false;
        self.is_timing_out = lent.is_timing_out;
        self.held.lend(lent.key, lent.current);
    }

    /// Prepare it for the next call for the key.
    pub(crate) fn next_call(&mut self) {
        self.removed = false;
        self.held.next_call();
    }

    /// Take it back. From now on using it raises.
    pub(crate) fn take_back(&mut self) -> Option<StateCall> {
        let is_timing_out = self.is_timing_out;
        self.held.take_back().map(|(key, current)| StateCall { key, current, is_timing_out })
    }

    /// Whether `error` is the error of its last `update`.
    pub(crate) fn is_own_complaint(&self, py: Python<'_>, error: &PyErr) -> bool {
        self.held.is_own_complaint(py, error)
    }

    /// Return `ValueError` if this call may not `verb` the state any more.
    fn check_open(&self, py: Python<'_>, verb: &str) -> PyResult<()> {
        self.held.check_lent(py)?;
        if self.is_timing_out {
            return Err(PyValueError::new_err(format!("cannot {verb} the state: its key is timing out")));
        }
        if self.removed {
            return Err(PyValueError::new_err(format!("cannot {verb} the state after it has been removed")));
        }
        Ok(())
    }
}

impl Settable for PyState {
    fn held(&mut self) -> &mut LentValue {
        &mut self.held
    }

    fn check_settable(&self, py: Python<'_>) -> PyResult<()> {
        self.check_open(py, "update")
    }
}

impl Lendable for PyState {
    /// The replacement continues with the calls for the same key.
    fn retire(&mut self) -> Self {
        let mut successor = Self { held: self.held.successor(), is_timing_out: false, removed: false };
        if let Some(lent) = self.take_back() {
            successor.lend(lent);
        }
        successor
    }
}

#[pymethods]
impl PyState {
    /// Whether the key has a state. False after `remove`.
    #[getter]
    fn exists(&self, py: Python<'_>) -> PyResult<bool> {
        self.held.exists(py)
    }

    /// The state. Raises `StateNotSet` (a `LookupError`) if there is none.
    #[getter]
    fn get(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.held.get(py)
    }

    /// The state, or None if there is none.
    #[getter(getOption)]
    fn get_option(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.held.value(py)
    }

    /// Whether the key times out. Then this is its last call, and the state is removed afterwards.
    #[getter(isTimingOut)]
    fn is_timing_out(&self, py: Python<'_>) -> PyResult<bool> {
        self.held.check_lent(py)?;
        Ok(self.is_timing_out)
    }

    /// Set the state.
    ///
    /// Raises `InvalidInput` if `new` does not fit the schema of the state, and `ValueError` for None, after `remove`,
    /// and while the key times out.
    fn update(slf: &Bound<'_, Self>, new: &Bound<'_, PyAny>) -> PyResult<()> {
        update(slf, new, PyValueError::new_err)
    }

    /// Remove the state. Raises `ValueError` if it was already removed, and while the key times out.
    fn remove(&mut self, py: Python<'_>) -> PyResult<()> {
        self.check_open(py, "remove")?;
        self.held.set(Current::Absent);
        self.removed = true;
        Ok(())
    }

    fn __str__(&mut self, py: Python<'_>) -> PyResult<String> {
        match self.held.value(py)? {
            Some(value) => Ok(value.bind(py).str()?.to_string_lossy().into_owned()),
            None => Ok("<state not set>".to_owned()),
        }
    }

    fn __repr__(&mut self, py: Python<'_>) -> PyResult<String> {
        self.held.described(py, "State", "<state not set>")
    }
}
