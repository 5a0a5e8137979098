//! Errors of a processor's calls: exceptions of the user's code and returned values that do not fit.

use pyo3::prelude::*;
use tidemill_core::Error;

use crate::caller::{self, with_location};
use crate::error::invalid;
use crate::naming::{repr, type_name};
use crate::value::Refused;

/// A call of a processor's method, in which an error may occur.
pub(super) struct MethodCall<'a, 'py> {
    pub(super) operator: &'a str,
    /// The method of the processor.
    pub(super) method: &'a str,
    pub(super) key: &'a Bound<'py, PyAny>,
    /// The chunk of the key's rows, if all of them are in one chunk.
    pub(super) chunk: Option<u32>,
}

impl MethodCall<'_, '_> {
    /// Make the error for an exception of the method.
    pub(super) fn raised(&self, error: PyErr) -> Error {
        caller::raised(&self.described(), self.operator, error, self.at())
    }

    /// Make the error for a returned value that was refused.
    pub(super) fn misfit(&self, refused: Refused) -> Error {
        match refused {
            Refused::Raised(error) => self.raised(error),
            Refused::Misfit(misfit) => self.unfit(&misfit.to_string()),
        }
    }

    /// Make the error for a returned value that cannot be emitted, and why.
    pub(super) fn unfit(&self, why: &str) -> Error {
        let key = repr(self.key);
        self.complaint(&format!("cannot emit the result of {} for key `{key}`: {why}", self.described()))
    }

    /// Make the error for a returned object that is not an iterator of rows.
    pub(super) fn not_rows(&self, found: &Bound<'_, PyAny>) -> Error {
        self.complaint(&format!(
            "{} returned `{}` for key `{}`, expected an iterator of rows\n\
             hint: yield each row, or return iter([…])",
            self.described(),
            type_name(found),
            repr(self.key),
        ))
    }

    fn complaint(&self, text: &str) -> Error {
        with_location(invalid(self.key.py(), text), self.operator, self.at())
    }

    /// The name of the method in messages.
    fn described(&self) -> String {
        format!("method `{}` of operator `{}`", self.method, self.operator)
    }

    fn at(&self) -> caller::CallSite<'_, '_> {
        caller::CallSite { key: self.key, chunk: self.chunk, row: None }
    }
}
