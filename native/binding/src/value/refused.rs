//! Why a Python object was refused as a value, and where within it: the messages that users see.

use pyo3::prelude::*;

use crate::naming::{repr, type_name};

/// Why an object was refused.
pub(crate) enum Refused {
    /// It does not fit its type.
    Misfit(Box<Misfit>),
    /// Reading it raised.
    Raised(PyErr),
}

/// What did not fit, and where.
pub(crate) struct Misfit {
    /// The path from the inside out: `.name` for a field, `[n]` for an item.
    path: Vec<String>,
    expected: String,
    found: String,
}

impl Refused {
    /// Refuse `object`, because it is not what was `expected`.
    pub(super) fn misfit(expected: String, object: &Bound<'_, PyAny>) -> Self {
        Self::misfit_described(expected, described(object))
    }

    pub(super) fn misfit_described(expected: String, found: String) -> Self {
        Self::Misfit(Box::new(Misfit { path: Vec::new(), expected, found }))
    }

    /// Add a segment to the front of the path.
    pub(crate) fn at(mut self, segment: impl FnOnce() -> String) -> Self {
        if let Self::Misfit(misfit) = &mut self {
            misfit.path.push(segment());
        }
        self
    }
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path: String = self.path.iter().rev().map(String::as_str).collect();
        match path.trim_start_matches('.') {
            "" => write!(f, "found {}, expected {}", self.found, self.expected),
            path => write!(f, "field `{path}` is {}, expected {}", self.found, self.expected),
        }
    }
}

/// Describe an object by its type and a short form of its value.
pub(crate) fn described(object: &Bound<'_, PyAny>) -> String {
    const LONGEST: usize = 60;
    if object.is_none() {
        return "None".to_owned();
    }
    let text = repr(object);
    let short: String = text.chars().take(LONGEST).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("`{}` {short}{dots}", type_name(object))
}
