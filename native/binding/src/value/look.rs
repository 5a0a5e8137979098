//! What the structs and maps within a row become: there are several kinds of rows, since Spark has as many.

use pyo3::prelude::*;
use pyo3::types::PyType;

/// How structs and maps are shown.
pub(crate) enum Look<'py> {
    /// Structs as `Row`s, maps as dicts.
    Rows,
    /// Structs as instances of this dataclass, maps as dicts.
    Dataclass(Bound<'py, PyType>),
    /// Structs as dicts, maps as lists of pairs: as Arrow has them, and so Spark's `transformWithState`.
    Arrow,
}

/// How a map is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapLook {
    Dict,
    Pairs,
}

impl<'py> Look<'py> {
    /// This dataclass, or `Row`s where there is none.
    pub(super) fn of_class(class: Option<Bound<'py, PyType>>) -> Self {
        class.map_or(Self::Rows, Self::Dataclass)
    }

    /// That of the keys of a map: a dataclass is one of values.
    pub(super) fn of_map_keys(&self) -> Self {
        match self {
            Self::Rows | Self::Dataclass(_) => Self::Rows,
            Self::Arrow => Self::Arrow,
        }
    }

    /// That of maps.
    pub(super) fn maps(&self) -> MapLook {
        match self {
            Self::Rows | Self::Dataclass(_) => MapLook::Dict,
            Self::Arrow => MapLook::Pairs,
        }
    }
}
