//! The state map of one key range: runs, oldest first, and the changes made since it was opened, which are runs too.
//!
//! A copy shares all runs, so it costs the same for any number of rows.
//! INVARIANT: of the rows of a key the newest run's is the one that counts, and a tombstone there means: no row.

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

/// What is taken for each row at most besides its columns while many are handled: where they lie, their hashes and times.
const ROW_BYTES: usize = 64;

/// One key range of one version of a state map, and the changes made to it since it was opened.
#[derive(Clone, Debug)]
pub struct StateMap {
    schema: Arc<MapSchema>,
    range: KeyRange,
    /// Oldest first; the first `opened` are what it was opened with, the others are changes.
    runs: Vec<SortedRun>,
    opened: usize,
    /// How many runs there would be of `opened` if none of versions had been merged.
    versions: usize,
    /// What was changed since it was opened and went into the base that `compact` made.
    compacted: Option<SortedRun>,
}

impl StateMap {
    /// The map that `runs`, oldest first, make; rows with a hash outside `range` are not seen.
    pub fn open(schema: Arc<MapSchema>, runs: &[SortedRun], range: KeyRange) -> Result<Self> {
        if let Some(odd) = runs.iter().find(|run| !run.schema().has_columns_of(&schema)) {
            return Err(Error::InvalidInput(format!(
                "cannot open state map `{}`: it has the columns {}, a run has {}",
                schema.name,
                schema.describe(),
                odd.schema().describe()
            )));
        }
        Ok(Self::of_runs(schema, runs, range))
    }

    /// The same of runs that have the columns of `schema`.
    fn of_runs(schema: Arc<MapSchema>, runs: &[SortedRun], range: KeyRange) -> Self {
        let runs: Vec<SortedRun> = runs.iter().map(|run| run.within(range)).filter(|run| !run.is_empty()).collect();
        Self { schema, range, opened: runs.len(), versions: runs.len(), runs, compacted: None }
    }

    /// Its columns.
    #[must_use]
    pub fn schema(&self) -> &Arc<MapSchema> {
        &self.schema
    }

    /// The hashes it holds.
    #[must_use]
    pub fn range(&self) -> KeyRange {
        self.range
    }

    /// A fork: neither sees what is done to the other.
    #[must_use]
    pub fn copy(&self) -> Self {
        self.clone()
    }

    /// What was changed since `open`, tombstones included, compacted since or not; `None` if nothing was.
    pub fn delta(&self) -> Result<Option<SortedRun>> {
        let changes: Vec<SortedRun> = self.compacted.iter().chain(&self.runs[self.opened..]).cloned().collect();
        match changes.as_slice() {
            [] => Ok(None),
            changes => run::merge(changes, self.range, Tombstones::Keep).map(Some),
        }
    }

    /// The live rows, sorted.
    pub fn scan(&self) -> Result<Rows> {
        let mut picks = Vec::new();
        newest(&self.runs, |source, row| {
            if !self.runs[source].is_tombstone(row) {
                picks.push(Pick::new(source, row));
            }
        });
        self.rows(&picks)
    }

    /// The rows at `picks`, of which none is nowhere.
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

    /// `InvalidInput` unless `keys` are of the types of this map's key and sub-key.
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
            "state map `{}` has the columns {}, asked for by keys of ({}), {} of them hashed",
            self.schema.name,
            self.schema.describe(),
            found.join(", "),
            keys.hashed_columns()
        )))
    }
}
