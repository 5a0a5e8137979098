//! How the structs and maps within a row are shown. There are several ways, because Spark has them.

use pyo3::prelude::*;
use pyo3::types::PyType;

/// How structs and maps are shown.
pub(crate) enum Look<'py> {
    /// Structs as `Row`s, maps as dicts.
    Rows,
    /// Structs as instances of this dataclass, maps as dicts.
    Dataclass(Bound<'py, PyType>),
    /// Structs as dicts, maps as lists of pairs, like Arrow's scalars and the rows of Spark's `transformWithState`.
    Arrow,
    /// Like `Rows`, but read by position, as Spark does for variables and group states.
    Placed,
    /// Like `Rows`, in the output of `transformWithState`.
    Emitted,
}

/// How the names of a `Row` are used, and what happens to names that are not fields.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherNames {
    /// The row is refused.
    Refused,
    /// They are ignored if every field has a value.
    Ignored,
    /// The row is read by position, whatever its names.
    ByPosition,
}

/// How a map is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapLook {
    Dict,
    Pairs,
}

impl<'py> Look<'py> {
    /// This dataclass, or `Rows` without one.
    pub(super) fn of_class(class: Option<Bound<'py, PyType>>) -> Self {
        class.map_or(Self::Rows, Self::Dataclass)
    }

    /// The look of the keys of a map. A dataclass applies only to values.
    pub(super) fn of_map_keys(&self) -> Self {
        match self {
            Self::Rows | Self::Dataclass(_) => Self::Rows,
            Self::Arrow => Self::Arrow,
            Self::Placed => Self::Placed,
            Self::Emitted => Self::Emitted,
        }
    }

    /// The look of maps.
    pub(super) fn maps(&self) -> MapLook {
        match self {
            Self::Rows | Self::Dataclass(_) | Self::Placed | Self::Emitted => MapLook::Dict,
            Self::Arrow => MapLook::Pairs,
        }
    }

    /// What happens to names that are not fields.
    pub(super) fn other_names(&self) -> OtherNames {
        match self {
            Self::Rows | Self::Dataclass(_) | Self::Arrow => OtherNames::Refused,
            Self::Placed => OtherNames::ByPosition,
            Self::Emitted => OtherNames::Ignored,
        }
    }
}
