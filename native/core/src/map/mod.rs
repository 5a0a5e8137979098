//! The state map of one key range: runs, oldest first. Changes since the map was opened are runs, too.
//!
//! A copy shares all runs, so its cost does not depend on the number of rows.
//! INVARIANT: the newest run that holds a key decides; if its row there is a tombstone, the map does not hold the key.

mod change;
mod due;
#[cfg(test)]
mod due_counted;
mod get;
mod live;
mod of_keys;
mod parts;
mod rows;
#[cfg(test)]
mod tests;
mod tiers;
mod whole;

use std::sync::Arc;

use arrow_array::Array;

use crate::error::{Error, Result};
use crate::gather::{Pick, gather};
use crate::key::Keys;
use crate::memory;
use crate::range::KeyRange;
use crate::run::{self, SortedRun, Tombstones, newest};
use crate::schema::MapSchema;

pub(crate) use rows::take_rows;
pub use rows::{Changes, Found, Rows};
pub use tiers::merge_count;

/// Most bytes for each row besides its columns while many rows are handled: its position, hash and times.
const ROW_BYTES: usize = 64;

/// One key range of one version of a state map, and the changes made to it since it was opened.
#[derive(Clone, Debug)]
pub struct StateMap {
    schema: Arc<MapSchema>,
    range: KeyRange,
    /// Oldest first. The first `opened` runs are those it was opened with; the others are changes.
    runs: Vec<SortedRun>,
    opened: usize,
    /// How many runs the first `opened` would be if no versions had been merged.
    versions: usize,
    /// The changes since it was opened that `compact` merged into a base.
    compacted: Option<SortedRun>,
}

impl StateMap {
    /// Open the map of `runs`, oldest first. Rows with a hash outside `range` are ignored.
    pub fn open(schema: Arc<MapSchema>, runs: &[SortedRun], range: KeyRange) -> Result<Self> {
        if let Some(odd) = runs.iter().find(|run| !run.schema().has_columns_of(&schema)) {
            return Err(Error::InvalidInput(format!(
                "cannot open state map `{}`: a run has the columns {}, expected {}",
                schema.name,
                odd.schema().describe(),
                schema.describe()
            )));
        }
        Ok(Self::of_runs(schema, runs, range))
    }

    /// Open the map of runs that are known to have the columns of `schema`.
    fn of_runs(schema: Arc<MapSchema>, runs: &[SortedRun], range: KeyRange) -> Self {
        let runs: Vec<SortedRun> = runs.iter().map(|run| run.within(range)).filter(|run| !run.is_empty()).collect();
        Self { schema, range, opened: runs.len(), versions: runs.len(), runs, compacted: None }
    }

    /// Its columns.
    #[must_use]
    pub fn schema(&self) -> &Arc<MapSchema> {
        &self.schema
    }

    /// The range of hashes that it covers.
    #[must_use]
    pub fn range(&self) -> KeyRange {
        self.range
    }

    /// Return a fork. Changes to either map do not affect the other.
    #[must_use]
    pub fn copy(&self) -> Self {
        self.clone()
    }

    /// Return the changes since `open` as one run, including tombstones and changes that `compact` merged; `None` if
    /// nothing was changed.
    pub fn delta(&self) -> Result<Option<SortedRun>> {
        let changes: Vec<SortedRun> = self.compacted.iter().chain(&self.runs[self.opened..]).cloned().collect();
        match changes.as_slice() {
            [] => Ok(None),
            changes => run::merge(changes, self.range, Tombstones::Keep).map(Some),
        }
    }

    /// Return the live rows, sorted.
    pub fn scan(&self) -> Result<Rows> {
        let mut picks = Vec::new();
        newest(&self.runs, |source, row| {
            if !self.runs[source].is_tombstone(row) {
                picks.push(Pick::new(source, row));
            }
        });
        self.rows(&picks)
    }

    /// Return the rows at `picks`, none of which is `Pick::NOWHERE`.
    fn rows(&self, picks: &[Pick]) -> Result<Rows> {
        memory::check_available("collect rows", picks.len().saturating_mul(ROW_BYTES))?;
        let schema = &self.schema;
        let fields = schema.key.iter().chain(&schema.sub_key).chain(&schema.value);
        let mut keys = fields
            .enumerate()
            .map(|(column, field)| {
                let sources: Vec<&dyn Array> = self.runs.iter().map(|run| run.columns()[column].as_ref()).collect();
                gather(field.data_type(), &sources, picks)
            })
            .collect::<Result<Vec<_>>>()?;
        let values = keys.split_off(schema.key_width());
        let sub_keys = keys.split_off(schema.key.len());
        let updated_at = picks.iter().map(|pick| self.runs[pick.source()].updated_at(pick.row())).collect();
        let deadline = picks.iter().map(|pick| self.runs[pick.source()].deadline(pick.row())).collect();
        Ok(Rows { keys, sub_keys, values, updated_at, deadline })
    }

    /// Check that `keys` have the types of this map's key and sub-key; otherwise `InvalidInput`.
    fn check_keys(&self, keys: &Keys) -> Result<()> {
        let fields = self.schema.key.iter().chain(&self.schema.sub_key);
        let fit = keys.columns().len() == self.schema.key_width()
            && keys.hashed_columns() == self.schema.key.len()
            && keys.columns().iter().zip(fields).all(|(column, field)| column.data_type() == field.data_type());
        if fit {
            return Ok(());
        }
        let found: Vec<String> = keys.columns().iter().map(|column| column.data_type().to_string()).collect();
        Err(Error::InvalidInput(format!(
            "cannot look up keys of ({}), {} of them hashed, in state map `{}`, which has the columns {}",
            found.join(", "),
            keys.hashed_columns(),
            self.schema.name,
            self.schema.describe()
        )))
    }
}
