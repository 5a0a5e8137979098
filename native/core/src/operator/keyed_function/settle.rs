//! What a pass writes to the map of a keyed function, given what became of each key's state.
//!
//! INVARIANT: a state that the function did not update keeps its `updated_at`; its row is written again only where its
//! deadline moved. A key that never had a state gets no tombstone.

use arrow_array::{Array, ArrayRef};
use arrow_select::interleave::interleave;

use super::visit::{Fate, Returned};
use crate::error::Result;
use crate::key::Keys;
use crate::map::{Changes, Found};

/// The rows to write, as picks from old and new states.
pub(super) struct Settled<'a> {
    keys: &'a Keys,
    old: &'a [ArrayRef],
    new: &'a [ArrayRef],
    rows: Vec<Row>,
}

struct Row {
    key: u32,
    /// (0, key) of the old states, or (1, row) of the new ones.
    state: (usize, usize),
    updated_at: i64,
    deadline: Option<i64>,
    deleted: bool,
}

impl<'a> Settled<'a> {
    /// Decides for every key; `deadlines` are those of states that live.
    pub(super) fn new(
        keys: &'a Keys,
        found: &'a Found,
        returned: &'a Returned,
        deadlines: &[Option<i64>],
        now_ms: i64,
    ) -> Self {
        let mut rows = Vec::with_capacity(keys.len());
        let mut updates = 0;
        for ((key, fate), &deadline) in (0u32..).zip(&returned.fates).zip(deadlines) {
            let place = key as usize;
            let exists = found.found[place];
            let kept = Row { key, state: (0, place), updated_at: found.updated_at[place], deadline, deleted: false };
            match fate {
                Fate::Updated => {
                    rows.push(Row { state: (1, updates), updated_at: now_ms, ..kept });
                    updates += 1;
                }
                Fate::Removed if exists => rows.push(Row { updated_at: now_ms, deadline: None, deleted: true, ..kept }),
                Fate::Kept if exists && deadline != found.deadline[place] => rows.push(kept),
                Fate::Removed | Fate::Kept => {}
            }
        }
        Self { keys, old: &found.values, new: &returned.states, rows }
    }

    /// Rows written that are no tombstones.
    pub(super) fn updated(&self) -> u64 {
        self.rows.len() as u64 - self.removed()
    }

    /// Tombstones.
    pub(super) fn removed(&self) -> u64 {
        self.rows.iter().filter(|row| row.deleted).count() as u64
    }

    /// The rows as changes of the map.
    pub(super) fn changes(&self) -> Result<Changes> {
        let keys: Vec<u32> = self.rows.iter().map(|row| row.key).collect();
        let picks: Vec<(usize, usize)> = self.rows.iter().map(|row| row.state).collect();
        let values = self.old.iter().zip(self.new).map(|(old, new)| {
            let sources: [&dyn Array; 2] = [old.as_ref(), new.as_ref()];
            Ok(interleave(&sources, &picks)?)
        });
        Ok(Changes {
            keys: self.keys.take(&keys)?.columns().to_vec(),
            sub_keys: Vec::new(),
            values: values.collect::<Result<_>>()?,
            updated_at: self.rows.iter().map(|row| row.updated_at).collect(),
            deadline: self.rows.iter().map(|row| row.deadline).collect(),
            deleted: self.rows.iter().map(|row| row.deleted).collect(),
        })
    }
}
