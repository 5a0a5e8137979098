//! Errors of a processor's calls: what the user's code raised, or gave back, with the place where it happened.

use pyo3::prelude::*;
use tidemill_core::Error;

use crate::caller::{passes_untouched, summary, traceback};
use crate::error::{external, invalid};
use crate::held::repr;
use crate::value::Refused;

/// The call that an error arose in.
pub(super) struct Place<'a, 'py> {
    pub(super) operator: &'a str,
    /// The method of the processor.
    pub(super) method: &'a str,
    pub(super) key: &'a Bound<'py, PyAny>,
    /// The chunk of the key's rows, if they all are of one.
    pub(super) chunk: Option<u32>,
}

impl Place<'_, '_> {
    /// The error for what the method raised.
    pub(super) fn raised(&self, error: PyErr) -> Error {
        let py = self.key.py();
        if passes_untouched(py, &error) {
            return external(error);
        }
        let text = format!(
            "method `{}` of operator `{}` raised `{}` for key `{}`\n{}",
            self.method,
            self.operator,
            summary(py, &error),
            repr(self.key),
            traceback(py, &error),
        );
        let raised = invalid(py, &text);
        raised.set_cause(py, Some(error));
        self.located(raised)
    }

    /// The error for what the method gave back.
    pub(super) fn misfit(&self, refused: Refused) -> Error {
        match refused {
            Refused::Raised(error) => self.raised(error),
            Refused::Misfit(misfit) => self.unfit(&misfit.to_string()),
        }
    }

    /// The error for what the method gave back, and why it cannot be emitted.
    pub(super) fn unfit(&self, why: &str) -> Error {
        self.complaint(&format!(
            "cannot emit what method `{}` of operator `{}` gave back for key `{}`: {why}",
            self.method,
            self.operator,
            repr(self.key),
        ))
    }

    /// The error for what is no iterator of rows.
    pub(super) fn not_rows(&self, found: &Bound<'_, PyAny>) -> Error {
        let name = found.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string_lossy().into_owned());
        self.complaint(&format!(
            "method `{}` of operator `{}` gave back `{name}` for key `{}`, expected an iterator of rows\n\
             hint: yield each row, or return iter([…])",
            self.method,
            self.operator,
            repr(self.key),
        ))
    }

    fn complaint(&self, text: &str) -> Error {
        self.located(invalid(self.key.py(), text))
    }

    /// `error` with the attributes that say where it arose.
    fn located(&self, error: PyErr) -> Error {
        let value = error.value(self.key.py());
        let located = value
            .setattr("operator", self.operator)
            .and_then(|()| value.setattr("key", repr(self.key)))
            .and_then(|()| value.setattr("chunk", self.chunk));
        external(located.err().unwrap_or(error))
    }
}
