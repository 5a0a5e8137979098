//! What the map of a keyed function holds for the keys of a visit.
//!
//! If the function arms deadlines itself, a row of the map can be a deadline without a state; a last column of booleans
//! says which rows are states. Otherwise every row is a state, and the map has no such column.

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;

use super::spec::Timeout;
use crate::error::Result;
use crate::key::Keys;
use crate::map::{Found, Rows};
use crate::operator::columns::keys_of;
use crate::operator::groups::places_without;

/// States and deadlines by key number.
pub(super) struct KeyStates {
    /// Whether the map has a row.
    pub(super) found: Vec<bool>,
    /// Whether the row is a state.
    pub(super) exists: Vec<bool>,
    /// State columns.
    pub(super) states: Vec<ArrayRef>,
    pub(super) updated_at: Vec<i64>,
    pub(super) deadline: Vec<Option<i64>>,
    is_armed: bool,
}

impl KeyStates {
    /// Return the result of a look-up.
    pub(super) fn of_found(found: Found, timeout: Timeout) -> Self {
        let mut states = found.values;
        let marker = if timeout.is_armed() { states.pop() } else { None };
        let exists = match &marker {
            None => found.found.clone(),
            Some(marker) => {
                let marker = marker.as_boolean();
                found.found.iter().enumerate().map(|(row, &found)| found && marker.value(row)).collect()
            }
        };
        Self {
            found: found.found,
            exists,
            states,
            updated_at: found.updated_at,
            deadline: found.deadline,
            is_armed: timeout.is_armed(),
        }
    }

    /// Return the keys of `rows`, which are all in the map, except those `excluded`, with their states. Both arguments
    /// are sorted.
    pub(super) fn of_rows(rows: Rows, excluded: &Keys, timeout: Timeout) -> Result<(Keys, Self)> {
        let keys = keys_of(&rows.keys, rows.len())?;
        let left = places_without(&keys, excluded);
        let (keys, rows) = if left.len() == keys.len() { (keys, rows) } else { (keys.take(&left)?, rows.take(&left)?) };
        let Rows { values, updated_at, deadline, .. } = rows;
        let found = Found { found: vec![true; left.len()], values, updated_at, deadline };
        Ok((keys, Self::of_found(found, timeout)))
    }

    /// Whether a key can have a deadline without a state.
    pub(super) fn may_be_armed_alone(&self) -> bool {
        self.is_armed
    }
}
