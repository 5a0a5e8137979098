//! The state map of one key range: runs, oldest first, and the changes made since it was opened, which are runs too.

mod rows;
mod tiers;

pub use rows::{Changes, Found, Rows};
pub use tiers::merge_count;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::key::Keys;
use crate::range::KeyRange;
use crate::run::SortedRun;
use crate::schema::MapSchema;

/// One key range of one version of a state map, and the changes made to it since it was opened.
#[derive(Clone, Debug)]
pub struct StateMap {
    schema: Arc<MapSchema>,
    range: KeyRange,
}

impl StateMap {
    /// The map that `runs`, oldest first, make; rows with a hash outside `range` are not seen.
    pub fn open(schema: Arc<MapSchema>, _runs: Vec<SortedRun>, range: KeyRange) -> Result<Self> {
        Ok(Self { schema, range })
    }

    /// Its columns.
    #[must_use]
    pub fn schema(&self) -> &MapSchema {
        &self.schema
    }

    /// The hashes it holds.
    #[must_use]
    pub fn range(&self) -> KeyRange {
        self.range
    }

    /// What is known of each of `keys` (key columns, then sub-key columns), in their order.
    pub fn get(&self, _keys: &Keys) -> Result<Found> {
        Err(Error::InternalError("not yet".into()))
    }

    /// The live rows with deadline <= `now_ms`, sorted.
    pub fn due(&self, _now_ms: i64) -> Result<Rows> {
        Err(Error::InternalError("not yet".into()))
    }

    /// Puts and removes rows. Of equal keys the last one holds.
    pub fn change(&mut self, _changes: Changes) -> Result<()> {
        Err(Error::InternalError("not yet".into()))
    }

    /// A fork: neither sees what is done to the other.
    #[must_use]
    pub fn copy(&self) -> Self {
        self.clone()
    }

    /// What was changed since `open`, tombstones included; `None` if nothing was.
    pub fn delta(&self) -> Result<Option<SortedRun>> {
        Err(Error::InternalError("not yet".into()))
    }

    /// The live rows, sorted.
    pub fn scan(&self) -> Result<Rows> {
        Err(Error::InternalError("not yet".into()))
    }

    /// Live rows.
    pub fn len(&self) -> Result<usize> {
        Err(Error::InternalError("not yet".into()))
    }

    /// The least deadline of a live row; `None` if no live row has one.
    #[must_use]
    pub fn next_deadline(&self) -> Option<i64> {
        None
    }
}
