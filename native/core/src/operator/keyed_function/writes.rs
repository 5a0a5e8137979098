//! The rows that a pass writes to the map of a keyed function, given the new state and deadline of each key.
//!
//! INVARIANT: a state that the function did not update keeps its `updated_at`, and its row is rewritten only if its
//! deadline changed. A key that never had a row gets no tombstone. Nothing is written for a key whose calls failed.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, new_null_array};
use arrow_select::interleave::interleave;

use super::key_states::KeyStates;
use super::visit::{Fate, Returned};
use crate::error::Result;
use crate::key::Keys;
use crate::map::Changes;

/// The sources of a written state.
const OLD: usize = 0;
const NEW: usize = 1;
const NOTHING: usize = 2;

/// The rows to write, as picks from old and new states.
pub(super) struct StateWrites<'a> {
    keys: &'a Keys,
    known: &'a KeyStates,
    new: &'a [ArrayRef],
    rows: Vec<Row>,
}

struct Row {
    key: u32,
    /// (`OLD`, key), (`NEW`, row) or (`NOTHING`, 0).
    state: (usize, usize),
    updated_at: i64,
    deadline: Option<i64>,
    deleted: bool,
}

impl<'a> StateWrites<'a> {
    /// Decide for each key; `deadlines` are the new deadlines. A key without a state keeps a row only if the function
    /// armed a deadline for it.
    pub(super) fn new(
        keys: &'a Keys,
        known: &'a KeyStates,
        returned: &'a Returned,
        deadlines: &[Option<i64>],
        now_ms: i64,
    ) -> Self {
        let mut rows = Vec::with_capacity(keys.len());
        let mut updates = 0;
        for ((key, &fate), &deadline) in (0u32..).zip(&returned.fates).zip(deadlines) {
            let place = key as usize;
            let (had, old_deadline) = (known.exists[place], known.deadline[place]);
            let row = Row { key, state: (OLD, place), updated_at: now_ms, deadline, deleted: false };
            match fate {
                Fate::Failed => {}
                Fate::Updated => {
                    rows.push(Row { state: (NEW, updates), ..row });
                    updates += 1;
                }
                Fate::Kept if had => {
                    if deadline != old_deadline {
                        rows.push(Row { updated_at: known.updated_at[place], ..row });
                    }
                }
                Fate::Kept | Fate::Removed if known.may_be_armed_alone() && deadline.is_some() => {
                    if had || deadline != old_deadline {
                        rows.push(Row { state: (NOTHING, 0), ..row });
                    }
                }
                Fate::Kept | Fate::Removed => {
                    if known.found[place] {
                        rows.push(Row { deadline: None, deleted: true, ..row });
                    }
                }
            }
        }
        Self { keys, known, new: &returned.states, rows }
    }

    /// How many rows are written that are not tombstones.
    pub(super) fn updated(&self) -> u64 {
        self.rows.len() as u64 - self.removed()
    }

    /// Whether every key has a new state and nothing else is written.
    pub(super) fn has_all_new(&self) -> bool {
        let is_new = |(key, row): (u32, &Row)| row.key == key && row.state == (NEW, key as usize);
        let are_all = self.rows.len() == self.keys.len() && !self.known.may_be_armed_alone();
        are_all && (0..).zip(&self.rows).all(is_new)
    }

    /// How many tombstones are written.
    pub(super) fn removed(&self) -> u64 {
        self.rows.iter().filter(|row| row.deleted).count() as u64
    }

    /// Return the rows as changes of the map.
    pub(super) fn changes(&self) -> Result<Changes> {
        let keys: Vec<u32> = self.rows.iter().map(|row| row.key).collect();
        let picks: Vec<(usize, usize)> = self.rows.iter().map(|row| row.state).collect();
        let values = self.known.states.iter().zip(self.new).map(|(old, new)| {
            let nothing = new_null_array(old.data_type(), 1);
            let sources: [&dyn Array; 3] = [old.as_ref(), new.as_ref(), nothing.as_ref()];
            Ok(interleave(&sources, &picks)?)
        });
        let mut values = values.collect::<Result<Vec<_>>>()?;
        if self.known.may_be_armed_alone() {
            let exists: BooleanArray = picks.iter().map(|pick| Some(pick.0 != NOTHING)).collect();
            values.push(Arc::new(exists));
        }
        Ok(Changes {
            keys: self.keys.take(&keys)?.columns().to_vec(),
            sub_keys: Vec::new(),
            values,
            updated_at: self.rows.iter().map(|row| row.updated_at).collect(),
            deadline: self.rows.iter().map(|row| row.deadline).collect(),
            deleted: self.rows.iter().map(|row| row.deleted).collect(),
        })
    }
}
