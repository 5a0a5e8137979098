//! The argument tuple of one call after another. The tuple is reused while no other code holds it.
//!
//! INVARIANT: a tuple that the called code kept is never changed. It is dropped before references to its items are
//! counted.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyErr, ffi};

use crate::lent_value::references;

/// The tuple of the last call, if there was one and no other code holds it.
pub(super) struct ArgumentTuple<'py>(Option<Bound<'py, PyTuple>>);

impl<'py> ArgumentTuple<'py> {
    /// Start without a tuple.
    pub(super) fn new() -> Self {
        Self(None)
    }

    /// Return a tuple of `items`. Every call must have the same number of items.
    pub(super) fn fill<const N: usize>(
        &mut self,
        py: Python<'py>,
        items: [Bound<'py, PyAny>; N],
    ) -> PyResult<&Bound<'py, PyTuple>> {
        match self.0.take().filter(|tuple| references(tuple) == 1) {
            Some(tuple) => {
                put(&tuple, items)?;
                Ok(self.0.insert(tuple))
            }
            None => Ok(self.0.insert(PyTuple::new(py, items)?)),
        }
    }

    /// Return, after a call, how many references it has to each item: 1, or 0 if the called code kept the tuple.
    pub(super) fn holds(&mut self) -> isize {
        self.0.take_if(|tuple| references(tuple) > 1);
        self.0.is_some().into()
    }
}

/// Replace the items of the tuple.
#[expect(unsafe_code, reason = "only C can put items into a tuple; it refuses where others hold it")]
fn put<const N: usize>(tuple: &Bound<'_, PyTuple>, items: [Bound<'_, PyAny>; N]) -> PyResult<()> {
    for (place, item) in (0..).zip(items) {
        // SAFETY: the tuple is a live object, and the reference to `item` is given away. A place that it does not have,
        // and a tuple that others hold, are errors.
        if unsafe { ffi::PyTuple_SetItem(tuple.as_ptr(), place, item.into_ptr()) } != 0 {
            return Err(PyErr::fetch(tuple.py()));
        }
    }
    Ok(())
}
