//! Changing a map: one call makes one run on top, and small runs on top are merged as they gather.

use arrow_schema::FieldRef;

use super::{Changes, StateMap, merge_count};
use crate::error::{Error, Result};
use crate::key::Keys;
use crate::run::{self, SortedRun, Tombstones, Unsorted};

impl StateMap {
    /// Puts and removes rows. Of equal keys the last one holds. A change that is refused changes nothing.
    pub fn change(&mut self, changes: &Changes) -> Result<()> {
        let rows = changes.updated_at.len();
        if rows == 0 {
            return Ok(());
        }
        self.check_changes(changes)?;
        let keys = Keys::with_sub_keys(&changes.keys, &changes.sub_keys, rows)?;
        self.check_keys(&keys)?;
        self.check_range(&keys)?;
        let unsorted = Unsorted {
            keys: &keys,
            values: &changes.values,
            updated_at: &changes.updated_at,
            deadline: &changes.deadline,
            deleted: &changes.deleted,
        };
        self.stack(SortedRun::from_unsorted(&self.schema, &unsorted)?)
    }

    /// Puts a run on top, merged with those of the newest changes that it has outgrown.
    fn stack(&mut self, newest: SortedRun) -> Result<()> {
        let mut changes: Vec<SortedRun> = self.runs[self.opened..].to_vec();
        changes.push(newest);
        let sizes: Vec<u64> = changes.iter().map(|run| run.len() as u64).collect();
        let merged = changes.split_off(changes.len() - merge_count(&sizes));
        changes.push(run::merge(&merged, self.range, Tombstones::Keep)?);
        self.runs.truncate(self.opened);
        self.runs.append(&mut changes);
        Ok(())
    }

    fn check_changes(&self, changes: &Changes) -> Result<()> {
        let rows = changes.updated_at.len();
        let lengths = [changes.deadline.len(), changes.deleted.len()];
        let columns = changes.keys.iter().chain(&changes.sub_keys).chain(&changes.values);
        if let Some(odd) = columns.map(|column| column.len()).chain(lengths).find(|&length| length != rows) {
            return Err(self.refused(&format!("has columns of {rows} and of {odd} rows")));
        }
        if changes.values.len() != self.schema.value.len() {
            let (found, expected) = (changes.values.len(), self.schema.value.len());
            return Err(self.refused(&format!("has {found} value columns, expected {expected}")));
        }
        let differs = |(column, field): &(&arrow_array::ArrayRef, &FieldRef)| column.data_type() != field.data_type();
        match changes.values.iter().zip(&self.schema.value).find(differs) {
            None => Ok(()),
            Some((column, field)) => Err(self.refused(&format!(
                "has {} in `{}`, expected {}",
                column.data_type(),
                field.name(),
                field.data_type()
            ))),
        }
    }

    fn check_range(&self, keys: &Keys) -> Result<()> {
        match keys.hashes().iter().find(|&&hash| !self.range.contains(hash)) {
            None => Ok(()),
            Some(hash) => Err(self.refused(&format!(
                "has a key with hash {hash:016x}, which is outside of the range {:016x}..{:016x}",
                self.range.lo, self.range.hi
            ))),
        }
    }

    fn refused(&self, why: &str) -> Error {
        Error::InvalidInput(format!("a change of state map `{}` {why}", self.schema.name))
    }
}
