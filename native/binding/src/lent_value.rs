//! The value of a key's state while a user's call runs, for `State` and `GroupState`.
//!
//! One object is lent to one call after another.
//! INVARIANT: values are copied in and out, so that changing an object never changes the state.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::False;
use pyo3::{PyClass, ffi};

use crate::error::invalid;
use crate::naming::repr;
use crate::spark::raised;
use crate::value::{Decoder, Refused, Shape, Value, Zone};

/// The parts that the states of all keys of an operator share.
pub(crate) struct StateKind {
    pub(crate) operator: String,
    pub(crate) shape: Shape,
    pub(crate) zone: Arc<Zone>,
}

/// The state of a key between two calls.
pub(crate) enum Current {
    Absent,
    /// The row of the stored states.
    Stored(usize),
    Updated(Value),
}

/// The state and the deadline of a key after its calls.
pub(crate) struct KeyOutcome {
    pub(crate) current: Current,
    pub(crate) deadline: Option<i64>,
}

/// The state of the key that the object is lent to. Without a key it is retired: using it raises.
pub(crate) struct LentValue {
    kind: Arc<StateKind>,
    /// The columns with the rows of `Current::Stored`.
    stored: Arc<Vec<Decoder>>,
    lent: Option<(Py<PyAny>, Current)>,
    /// The object for the current value, if the user's code has read it.
    shown: Option<Py<PyAny>>,
    /// The error of the last `update`, so that it is recognised if the function raises it.
    refused: Option<Py<PyAny>>,
}

impl LentValue {
    /// Make an object that is not lent yet.
    pub(crate) fn new(kind: Arc<StateKind>, stored: Arc<Vec<Decoder>>) -> Self {
        Self { kind, stored, lent: None, shown: None, refused: None }
    }

    /// Make another object for the same operator.
    pub(crate) fn successor(&self) -> Self {
        Self::new(Arc::clone(&self.kind), Arc::clone(&self.stored))
    }

    /// Lend it to the calls for a key.
    pub(crate) fn lend(&mut self, key: Py<PyAny>, current: Current) {
        self.shown = None;
        self.lent = Some((key, current));
    }

    /// Prepare it for the next call for the key. An object that user code can change is created again for each call.
    pub(crate) fn next_call(&mut self) {
        if self.shown.is_some() && !self.kind.shape.is_frozen() {
            self.shown = None;
        }
    }

    /// Take it back. From now on using it raises.
    pub(crate) fn take_back(&mut self) -> Option<(Py<PyAny>, Current)> {
        self.shown = None;
        self.refused = None;
        self.lent.take()
    }

    /// Whether `error` is the error of its last `update`.
    pub(crate) fn is_own_complaint(&self, py: Python<'_>, error: &PyErr) -> bool {
        self.refused.as_ref().is_some_and(|refused| refused.is(error.value(py)))
    }

    /// Return `InvalidInput` if it is retired.
    pub(crate) fn check_lent(&self, py: Python<'_>) -> PyResult<()> {
        self.current(py).map(|_| ())
    }

    /// Whether there is a state.
    pub(crate) fn exists(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(!matches!(self.current(py)?, Current::Absent))
    }

    /// Whether user code has set the state in this call and not removed it since.
    pub(crate) fn is_updated(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(matches!(self.current(py)?, Current::Updated(_)))
    }

    /// The object for the state, if there is one.
    pub(crate) fn value(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if let (Some(_), Some(shown)) = (&self.lent, &self.shown) {
            return Ok(Some(shown.clone_ref(py)));
        }
        let (shape, zone) = (&self.kind.shape, &self.kind.zone);
        let object = match self.current(py)? {
            Current::Absent => return Ok(None),
            Current::Stored(row) => shape.decode(&self.stored, py, *row, zone)?,
            Current::Updated(value) => shape.show(py, value, zone)?,
        };
        self.shown = Some(object.clone().unbind());
        Ok(Some(object.unbind()))
    }

    /// The object for the state. `StateNotSet` if there is none.
    pub(crate) fn get(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.value(py)? {
            Some(value) => Ok(value),
            None => {
                let kind = py.import("tidemill.errors")?.getattr("StateNotSet")?;
                let text = "the state is not set: check `exists` first, or use `getOption`";
                Err(raised(py, &kind, "PySparkValueError", text, None))
            }
        }
    }

    /// Set the state to `value`. `object` is the immutable Python object for it.
    fn set_as(&mut self, value: Value, object: &Bound<'_, PyAny>) {
        self.set(Current::Updated(value));
        self.shown = Some(object.clone().unbind());
    }

    /// Set or remove the state.
    pub(crate) fn set(&mut self, new: Current) {
        self.shown = None;
        if let Some((_, current)) = &mut self.lent {
            *current = new;
        }
    }

    /// Return the error for an argument of `update`. An exception that user code raised while it was read stays as it
    /// is.
    fn refuse(&mut self, py: Python<'_>, refused: Refused) -> PyErr {
        let error = match (refused, &self.lent) {
            (Refused::Raised(error), _) => return error,
            (Refused::Misfit(_), None) => ended(py),
            (Refused::Misfit(misfit), Some((key, _))) => {
                let (key, operator) = (repr(key.bind(py)), &self.kind.operator);
                invalid(py, &format!("cannot store the state of key `{key}` of operator `{operator}`: {misfit}"))
            }
        };
        self.refused = Some(error.value(py).clone().into_any().unbind());
        error
    }

    /// Return the name of its class with `(value)`, or `nothing`, or that it is retired.
    pub(crate) fn described(&mut self, py: Python<'_>, class: &str, nothing: &str) -> PyResult<String> {
        if self.lent.is_none() {
            return Ok(format!("<{class} of a call that has returned>"));
        }
        Ok(format!("{class}({})", self.value(py)?.map_or_else(|| nothing.to_owned(), |value| repr(value.bind(py)))))
    }

    fn current(&self, py: Python<'_>) -> PyResult<&Current> {
        self.lent.as_ref().map(|(_, current)| current).ok_or_else(|| ended(py))
    }
}

fn ended(py: Python<'_>) -> PyErr {
    invalid(
        py,
        "this State belongs to a call that has returned\nhint: keep the value that `get` returns, not the State",
    )
}

/// An object that is lent to one call of user code after another.
pub(crate) trait Lendable: PyClass<Frozen = False> + Into<PyClassInitializer<Self>> {
    /// Retire it, so that using it raises, and return its replacement.
    fn retire(&mut self) -> Self;
}

/// A state that user code may set.
pub(crate) trait Settable: PyClass<Frozen = False> {
    /// The value that it lends.
    fn held(&mut self) -> &mut LentValue;

    /// Return an error if the state may not be set now.
    fn check_settable(&self, py: Python<'_>) -> PyResult<()>;

    /// Called after the state was set.
    fn was_set(&mut self) {}
}

/// Set the state to `new`. `none` makes the error for None.
pub(crate) fn update<T: Settable>(
    slf: &Bound<'_, T>,
    new: &Bound<'_, PyAny>,
    none: impl Fn(&'static str) -> PyErr,
) -> PyResult<()> {
    let py = slf.py();
    let kind = {
        let mut state = slf.try_borrow_mut()?;
        state.check_settable(py)?;
        if new.is_none() {
            return Err(none("cannot update the state with None: call `remove()` instead"));
        }
        let held = state.held();
        if held.kind.shape.is_shown_as(new) {
            let value = held.kind.shape.parse(new, &held.kind.zone).map_err(|refused| held.refuse(py, refused))?;
            held.set_as(value, new);
            state.was_set();
            return Ok(());
        }
        Arc::clone(&held.kind)
    };
    // Not borrowed here, because reading `new` may run user code that uses this state.
    let parsed = kind.shape.parse(new, &kind.zone);
    let mut state = slf.try_borrow_mut()?;
    match parsed {
        Ok(value) => {
            state.check_settable(py)?;
            state.held().set(Current::Updated(value));
            state.was_set();
            Ok(())
        }
        Err(refused) => Err(state.held().refuse(py, refused)),
    }
}

/// The number of references to an object.
#[expect(unsafe_code, reason = "a reference count is read while the interpreter is held")]
pub(crate) fn references<T>(object: &Bound<'_, T>) -> isize {
    // SAFETY: the pointer is that of a live object.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) }
}

/// Replace an object that user code has kept, that is, one with more references than `ours`.
pub(crate) fn retire_if_kept<T: Lendable>(object: &mut Bound<'_, T>, ours: isize) -> PyResult<()> {
    if references(object) <= ours {
        return Ok(());
    }
    let successor = object.try_borrow_mut()?.retire();
    *object = Bound::new(object.py(), successor)?;
    Ok(())
}
