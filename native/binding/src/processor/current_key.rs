//! The key of a processor's current call, which all its variables share, and the error of a variable between calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;

use crate::spark::raised;

/// The number of the current call's key.
///
/// INVARIANT: there is no key between calls, so that a variable that user code kept, or uses in `init` or `close`,
/// never shows one.
#[derive(Clone, Default)]
pub(super) struct CurrentKey(Arc<AtomicUsize>);

impl CurrentKey {
    /// Begin a call for this key.
    #[inline]
    pub(super) fn enter(&self, key: usize) {
        self.0.store(key + 1, Ordering::Relaxed);
    }

    /// End the call.
    #[inline]
    pub(super) fn leave(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Return the key of the call. `CallRefused` between calls; `what` begins its message.
    #[inline]
    pub(super) fn key(&self, py: Python<'_>, what: impl FnOnce() -> String) -> PyResult<usize> {
        self.0.load(Ordering::Relaxed).checked_sub(1).ok_or_else(|| {
            let text = format!("{} can only be used while the processor is called for a key", what());
            let hint = "use it in handleInputRows, handleExpiredTimer or handleInitialState, unless `init` deleted it";
            call_refused(py, &text, Some(hint))
        })
    }
}

/// Make a `CallRefused` with this message and hint.
pub(super) fn call_refused(py: Python<'_>, text: &str, hint: Option<&str>) -> PyErr {
    match py.import("tidemill.errors").and_then(|errors| errors.getattr("CallRefused")) {
        Ok(kind) => raised(py, &kind, "PySparkRuntimeError", text, hint),
        Err(failed) => failed,
    }
}
