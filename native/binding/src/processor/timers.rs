//! `Timers`: the timers of a key, for the processor's handle (Spark: `registerTimer`, `deleteTimer`, `listTimers`).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, Int64Array};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tidemill_core::operator::{Stored, Written};

use super::current_key::{CurrentKey, call_refused};

/// A timer in this visit.
#[derive(Clone, Copy)]
struct Timer {
    /// Its row, if it is stored.
    stored: Option<usize>,
    is_set: bool,
}

/// The timers of a key by expiry.
type ByExpiry = BTreeMap<i64, Timer>;

/// The timers of a key, which the processor's handle uses. With `is_off` (the time mode is None) all calls raise
/// `CallRefused`.
#[pyclass(name = "Timers", module = "tidemill._native")]
pub(crate) struct PyTimers {
    operator: String,
    /// Whether the time mode is None.
    is_off: bool,
    at: CurrentKey,
    stored: Stored,
    /// `None`: as stored.
    slots: Vec<Option<ByExpiry>>,
}

impl PyTimers {
    /// From now on, use the key of `at`.
    pub(super) fn follow(&mut self, at: CurrentKey) {
        self.at = at;
    }

    /// Begin a visit. `stored` has the stored timers of its keys.
    pub(super) fn begin(&mut self, stored: &Stored) {
        self.slots.clear();
        self.slots.resize_with(stored.ends.len(), || None);
        self.stored = stored.clone();
    }

    /// Remove a timer that has fired, whatever its call did.
    pub(super) fn remove_fired(&mut self, key: usize, expiry_ms: i64) {
        if let Some(timer) = self.timers(key).get_mut(&expiry_ms) {
            timer.is_set = false;
        }
    }

    /// Discard the changes of this key, because its calls failed.
    pub(super) fn forget(&mut self, key: usize) {
        self.slots[key] = None;
    }

    /// Return the changes of all keys, and end the visit.
    pub(super) fn finish(&mut self) -> Written {
        let (mut removed, mut keys, mut expiries) = (Vec::new(), Vec::new(), Vec::new());
        for (key, timers) in (0u32..).zip(self.slots.drain(..)) {
            for (expiry_ms, timer) in timers.into_iter().flatten() {
                match (timer.stored, timer.is_set) {
                    (Some(row), false) => removed.push(row),
                    (None, true) => {
                        keys.push(key);
                        expiries.push(expiry_ms);
                    }
                    (Some(_), true) | (None, false) => {}
                }
            }
        }
        removed.sort_unstable();
        Written { removed, keys, sub_keys: vec![Arc::new(Int64Array::from(expiries))], values: Vec::new() }
    }

    fn timers(&mut self, key: usize) -> &mut ByExpiry {
        let stored = &self.stored;
        self.slots[key].get_or_insert_with(|| {
            let Some(expiries) = stored.sub_keys.first().and_then(|column| column.as_primitive_opt::<Int64Type>())
            else {
                return ByExpiry::new();
            };
            let timer = |row: usize| (expiries.value(row), Timer { stored: Some(row), is_set: true });
            stored.rows_of(key).filter(|&row| expiries.is_valid(row)).map(timer).collect()
        })
    }

    fn key(&self, py: Python<'_>, method: &str) -> PyResult<usize> {
        if self.is_off {
            let text = format!("operator `{}`: {method} is not available with timeMode \"None\"", self.operator);
            return Err(call_refused(py, &text, Some("use timeMode \"ProcessingTime\" or \"EventTime\"")));
        }
        self.at.key(py, || format!("{method} of operator `{}`", self.operator))
    }
}

#[pymethods]
impl PyTimers {
    #[new]
    fn new(operator: &str, is_off: bool) -> Self {
        let operator = operator.to_owned();
        Self { operator, is_off, at: CurrentKey::default(), stored: Stored::default(), slots: Vec::new() }
    }

    /// Register a timer at this time, ms since the epoch. An existing timer stays.
    fn register(&mut self, py: Python<'_>, expiry_ms: i64) -> PyResult<()> {
        let key = self.key(py, "registerTimer")?;
        self.timers(key).entry(expiry_ms).or_insert(Timer { stored: None, is_set: true }).is_set = true;
        Ok(())
    }

    /// Delete the timer at this time. An unknown timer is not an error.
    fn delete(&mut self, py: Python<'_>, expiry_ms: i64) -> PyResult<()> {
        let key = self.key(py, "deleteTimer")?;
        if let Some(timer) = self.timers(key).get_mut(&expiry_ms) {
            timer.is_set = false;
        }
        Ok(())
    }

    /// Return the times of all timers in ascending order, including a timer that is firing.
    fn list<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let key = self.key(py, "listTimers")?;
        PyList::new(
            py,
            self.timers(key).iter().filter(|(_, timer)| timer.is_set).map(|(&ms, _)| ms).collect::<Vec<_>>(),
        )
    }
}
