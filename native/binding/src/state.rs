//! `State`: the state of one key inside a `mapWithState` function (Spark: `org.apache.spark.streaming.State`).
//!
//! One object is lent to call after call. INVARIANT: an object that user code kept beyond its call is retired: it
//! raises, and sees no other key. What `get` gives and `update` takes are values: changing them changes no state.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::invalid;
use crate::value::{Decoder, Refused, Shape, Value, Zone};

/// What is the same for the states of all keys of an operator.
pub(crate) struct StateKind {
    pub(crate) operator: String,
    pub(crate) shape: Shape,
    pub(crate) zone: Arc<Zone>,
}

/// The state of a key between two calls.
pub(crate) enum Current {
    Absent,
    /// A row of the stored states.
    Stored(usize),
    Updated(Value),
}

/// The key that a call is about, and what it may do.
pub(crate) struct Lent {
    pub(crate) key: Py<PyAny>,
    pub(crate) current: Current,
    pub(crate) is_timing_out: bool,
}

/// The state of one key inside a `mapWithState` function.
#[pyclass(name = "State", module = "tidemill._native")]
pub(crate) struct PyState {
    kind: Arc<StateKind>,
    stored: Arc<Vec<Decoder>>,
    /// `None`: retired.
    lent: Option<Lent>,
    /// Whether this call removed the state.
    removed: bool,
    /// The object for the current value, where it has been asked for.
    shown: Option<Py<PyAny>>,
    /// The complaint of the last `update`, to be told from what else the function raises.
    refused: Option<Py<PyAny>>,
}

impl PyState {
    /// A state that is lent to nobody yet; `stored` are the columns that `Current::Stored` speaks of.
    pub(crate) fn new(kind: Arc<StateKind>, stored: Arc<Vec<Decoder>>) -> Self {
        Self { kind, stored, lent: None, removed: false, shown: None, refused: None }
    }

    /// Another one of the same operator.
    pub(crate) fn successor(&self) -> Self {
        Self::new(Arc::clone(&self.kind), Arc::clone(&self.stored))
    }

    /// Lends it to the calls of a key.
    pub(crate) fn lend(&mut self, lent: Lent) {
        self.shown = None;
        self.removed = false;
        self.lent = Some(lent);
    }

    /// Makes it ready for the next call of the key. Objects that can be changed are made anew for each call.
    pub(crate) fn next_call(&mut self) {
        self.removed = false;
        if self.shown.is_some() && !self.kind.shape.is_frozen() {
            self.shown = None;
        }
    }

    /// Takes it back; from now on it raises.
    pub(crate) fn take_back(&mut self) -> Option<Lent> {
        self.shown = None;
        self.refused = None;
        self.lent.take()
    }

    /// Whether `error` is the complaint of its last `update`.
    pub(crate) fn is_own_complaint(&self, py: Python<'_>, error: &PyErr) -> bool {
        self.refused.as_ref().is_some_and(|refused| refused.is(error.value(py)))
    }

    fn lent(&self, py: Python<'_>) -> PyResult<&Lent> {
        self.lent.as_ref().ok_or_else(|| ended(py))
    }

    fn value(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let lent = self.lent.as_ref().ok_or_else(|| ended(py))?;
        if let Some(shown) = &self.shown {
            return Ok(Some(shown.clone_ref(py)));
        }
        let (shape, zone) = (&self.kind.shape, &self.kind.zone);
        let object = match &lent.current {
            Current::Absent => return Ok(None),
            Current::Stored(row) => shape.decode(&self.stored, py, *row, zone)?,
            Current::Updated(value) => shape.show(py, value, zone)?,
        };
        self.shown = Some(object.clone().unbind());
        Ok(Some(object.unbind()))
    }

    /// `ValueError` where this call may not `verb` the state any more.
    fn check_open(&self, py: Python<'_>, verb: &str) -> PyResult<()> {
        if self.lent(py)?.is_timing_out {
            return Err(PyValueError::new_err(format!("cannot {verb} the state: its key is timing out")));
        }
        if self.removed {
            return Err(PyValueError::new_err(format!("cannot {verb} the state after it has been removed")));
        }
        Ok(())
    }

    fn set(&mut self, current: Current) {
        self.shown = None;
        if let Some(lent) = &mut self.lent {
            lent.current = current;
        }
    }

    fn misfit(&self, py: Python<'_>, refused: Refused) -> PyErr {
        let (misfit, key) = match (refused, self.lent(py)) {
            (Refused::Raised(error), _) | (_, Err(error)) => return error,
            (Refused::Misfit(misfit), Ok(lent)) => (misfit, repr(lent.key.bind(py))),
        };
        invalid(py, &format!("cannot keep the state of key `{key}` of operator `{}`: {misfit}", self.kind.operator))
    }
}

#[pymethods]
impl PyState {
    #[getter]
    fn exists(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(!matches!(self.lent(py)?.current, Current::Absent))
    }

    #[getter]
    fn get(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.value(py)? {
            Some(value) => Ok(value),
            None => {
                let class = py.import("tidemill.errors")?.getattr("StateNotSet")?;
                Err(PyErr::from_value(class.call1(("the state is not set: ask `exists`, or use `getOption`",))?))
            }
        }
    }

    #[getter(getOption)]
    fn get_option(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.value(py)
    }

    #[getter(isTimingOut)]
    fn is_timing_out(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.lent(py)?.is_timing_out)
    }

    fn update(slf: &Bound<'_, Self>, new: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let kind = {
            let state = slf.try_borrow()?;
            state.check_open(py, "update")?;
            if new.is_none() {
                return Err(PyValueError::new_err("cannot update the state with None: `remove()` it instead"));
            }
            Arc::clone(&state.kind)
        };
        // Not borrowed here: reading `new` may run user code that asks this state.
        let parsed = kind.shape.parse(new, &kind.zone);
        let mut state = slf.try_borrow_mut()?;
        match parsed {
            Ok(value) => {
                state.check_open(py, "update")?;
                state.set(Current::Updated(value));
                Ok(())
            }
            Err(refused) => {
                let error = state.misfit(py, refused);
                state.refused = Some(error.value(py).clone().into_any().unbind());
                Err(error)
            }
        }
    }

    fn remove(&mut self, py: Python<'_>) -> PyResult<()> {
        self.check_open(py, "remove")?;
        self.set(Current::Absent);
        self.removed = true;
        Ok(())
    }

    fn __str__(&mut self, py: Python<'_>) -> PyResult<String> {
        match self.value(py)? {
            Some(value) => Ok(value.bind(py).str()?.to_string_lossy().into_owned()),
            None => Ok("<state not set>".to_owned()),
        }
    }

    fn __repr__(&mut self, py: Python<'_>) -> PyResult<String> {
        if self.lent.is_none() {
            return Ok("<State of a call that has returned>".to_owned());
        }
        Ok(format!("State({})", self.value(py)?.map_or_else(|| "<state not set>".to_owned(), |v| repr(v.bind(py)))))
    }
}

/// The `repr` of a key or value, for messages.
pub(crate) fn repr(object: &Bound<'_, PyAny>) -> String {
    object.repr().map_or_else(|_| "(its repr raised)".to_owned(), |text| text.to_string_lossy().into_owned())
}

fn ended(py: Python<'_>) -> PyErr {
    invalid(py, "this State belongs to a call that has returned: keep what `get` gives, not the State")
}
