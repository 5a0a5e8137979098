//! Which key a processor's call is about, known to all its variables, and the complaint of one that is asked between
//! calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;

use crate::spark::raised;

/// The number of the key that a call is about. INVARIANT: between calls there is none, so a variable that user code
/// kept, or that `init` and `close` ask, sees no key.
#[derive(Clone, Default)]
pub(super) struct CurrentKey(Arc<AtomicUsize>);

impl CurrentKey {
    /// A call about this key begins.
    #[inline]
    pub(super) fn enter(&self, key: usize) {
        self.0.store(key + 1, Ordering::Relaxed);
    }

    /// The call has ended.
    #[inline]
    pub(super) fn leave(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The key of the call; `CallRefused` that `what` cannot be used between calls.
    #[inline]
    pub(super) fn key(&self, py: Python<'_>, what: impl FnOnce() -> String) -> PyResult<usize> {
        self.0.load(Ordering::Relaxed).checked_sub(1).ok_or_else(|| {
            let text = format!("{} can only be used while the processor is called for a key", what());
            let hint = "use it in handleInputRows, handleExpiredTimer or handleInitialState, unless `init` deleted it";
            call_refused(py, &text, Some(hint))
        })
    }
}

/// `CallRefused` with this message and hint.
pub(super) fn call_refused(py: Python<'_>, text: &str, hint: Option<&str>) -> PyErr {
    match py.import("tidemill.errors").and_then(|errors| errors.getattr("CallRefused")) {
        Ok(kind) => raised(py, &kind, "PySparkRuntimeError", text, hint),
        Err(failed) => failed,
    }
}
