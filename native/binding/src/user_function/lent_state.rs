//! The `GroupState` that is lent to one call of a visit after another.

use std::sync::Arc;

use pyo3::prelude::*;
use tidemill_core::Result;
use tidemill_core::operator::Visit;

use super::group_state::{GroupCall, PyGroupState, Rules};
use crate::error::external;
use crate::lent_value::{Current, KeyOutcome, StateKind, retire_if_kept};

/// One object for all calls. It is replaced when the called code keeps it.
pub(super) struct LentState<'py> {
    pub(super) object: Bound<'py, PyGroupState>,
}

impl<'py> LentState<'py> {
    /// Make the object for a visit.
    pub(super) fn new(py: Python<'py>, kind: &Arc<StateKind>, visit: &Visit<'_>, rules: Rules) -> Result<Self> {
        let stored = Arc::new(kind.shape.decoders(visit.states));
        let state = PyGroupState::new(Arc::clone(kind), stored, Arc::new(rules));
        Ok(Self { object: Bound::new(py, state).map_err(external)? })
    }

    /// Lend it to the call for the key at `place`.
    pub(super) fn lend(&self, key: &Bound<'py, PyAny>, place: usize, visit: &Visit<'_>) {
        let current = if visit.exists[place] { Current::Stored(place) } else { Current::Absent };
        self.object.borrow_mut().lend(GroupCall {
            key: key.clone().unbind(),
            current,
            has_timed_out: visit.timing_out,
            deadline: visit.deadlines[place],
        });
    }

    /// Take it back from a call that has returned.
    pub(super) fn take_back(&mut self) -> Result<KeyOutcome> {
        let outcome = self.object.borrow_mut().take_back();
        self.retire().map_err(external)?;
        Ok(outcome)
    }

    /// Replace the object if the code of the last call kept it.
    pub(super) fn retire(&mut self) -> PyResult<()> {
        retire_if_kept(&mut self.object, 1)
    }

    /// Whether `error` is the error of its last `update`.
    pub(super) fn is_own_complaint(&self, error: &PyErr) -> bool {
        self.object.try_borrow().is_ok_and(|state| state.is_own_complaint(self.object.py(), error))
    }
}
