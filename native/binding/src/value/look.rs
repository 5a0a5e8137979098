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
    /// As `Rows`, in what is taken by place: Spark's variables and group states.
    Placed,
    /// As `Rows`, in what `transformWithState` emits.
    Emitted,
}

/// What the names of a `Row` are for, and what is done with those that are no fields.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherNames {
    /// The row is refused.
    Refused,
    /// They are left out, where no field lacks its value.
    LeftOut,
    /// The row goes by place, whatever its names.
    ByPlace,
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
            Self::Placed => Self::Placed,
            Self::Emitted => Self::Emitted,
        }
    }

    /// That of maps.
    pub(super) fn maps(&self) -> MapLook {
        match self {
            Self::Rows | Self::Dataclass(_) | Self::Placed | Self::Emitted => MapLook::Dict,
            Self::Arrow => MapLook::Pairs,
        }
    }

    /// What is done with names that are no fields.
    pub(super) fn other_names(&self) -> OtherNames {
        match self {
            Self::Rows | Self::Dataclass(_) | Self::Arrow => OtherNames::Refused,
            Self::Placed => OtherNames::ByPlace,
            Self::Emitted => OtherNames::LeftOut,
        }
    }
}
