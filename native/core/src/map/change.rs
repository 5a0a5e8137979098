//! Changing a map: each call adds one run on top, and small runs on top are merged as they accumulate.

use arrow_array::ArrayRef;
use arrow_schema::FieldRef;

use super::{Changes, ROW_BYTES, StateMap, merge_count};
use crate::error::{Error, Result};
use crate::key::Keys;
use crate::memory;
use crate::offsets::most;
use crate::range::KeyRange;
use crate::run::{self, SortedRun, Tombstones, Unsorted};

impl StateMap {
    /// Put and remove rows. Of equal keys the last row wins. A change that returns an error changes nothing.
    pub fn change(&mut self, changes: &Changes) -> Result<()> {
        let rows = changes.updated_at.len();
        if rows == 0 {
            return Ok(());
        }
        self.check_changes(changes)?;
        memory::check_available("change a state map", bytes_for(&changes.keys, &changes.sub_keys, rows))?;
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

    /// Put one row for each of `keys`, all with one `updated_at`. `deadline` has one entry for each key, or is empty
    /// for none.
    ///
    /// This is like `change`. But if keys are sorted and distinct, as the keys of groups are, the map takes the columns
    /// as they are, so no other code may hold them.
    pub fn put(
        &mut self,
        keys: Keys,
        values: Vec<ArrayRef>,
        updated_at: i64,
        mut deadline: Vec<Option<i64>>,
    ) -> Result<()> {
        let rows = keys.len();
        if rows == 0 || !keys.are_ascending() {
            deadline.resize(rows, None);
            let (updated_at, deleted) = (vec![updated_at; rows], vec![false; rows]);
            let (hashed, sub_keys) = keys.columns().split_at(keys.hashed_columns());
            let (keys, sub_keys) = (hashed.to_vec(), sub_keys.to_vec());
            return self.change(&Changes { keys, sub_keys, values, updated_at, deadline, deleted });
        }
        let deadlines = if deadline.is_empty() { rows } else { deadline.len() };
        self.check_columns(rows, &[deadlines], &[], &values)?;
        self.check_keys(&keys)?;
        self.check_range(&keys)?;
        self.stack(SortedRun::from_ordered(&self.schema, keys, values, updated_at, deadline)?)
    }

    /// Put a run on top, and merge it with the newest changes as the tier rule says.
    fn stack(&mut self, newest: SortedRun) -> Result<()> {
        let changes = self.with_newest(self.runs[self.opened..].to_vec(), newest, Tombstones::Keep)?;
        self.runs.truncate(self.opened);
        self.runs.extend(changes);
        Ok(())
    }

    /// Return `runs` with `newest` on top, merged with as many of them as the tier rule says, or with fewer if one run
    /// cannot hold them. `of_all` says how to treat tombstones if all runs are merged.
    pub(super) fn with_newest(
        &self,
        mut runs: Vec<SortedRun>,
        newest: SortedRun,
        of_all: Tombstones,
    ) -> Result<Vec<SortedRun>> {
        runs.push(newest);
        let rows: Vec<u64> = runs.iter().map(|run| run.len() as u64).collect();
        for first in runs.len() - merge_count(&rows)..runs.len() {
            let tombstones = if first == 0 { of_all } else { Tombstones::Keep };
            if let Some(merged) = merged_if_it_fits(&runs[first..], self.range, tombstones)? {
                runs.truncate(first);
                runs.push(merged);
                break;
            }
        }
        Ok(runs)
    }

    fn check_changes(&self, changes: &Changes) -> Result<()> {
        let lengths = [changes.deadline.len(), changes.deleted.len()];
        let keys: Vec<ArrayRef> = changes.keys.iter().chain(&changes.sub_keys).cloned().collect();
        self.check_columns(changes.updated_at.len(), &lengths, &keys, &changes.values)
    }

    fn check_columns(&self, rows: usize, lengths: &[usize], keys: &[ArrayRef], values: &[ArrayRef]) -> Result<()> {
        let columns = keys.iter().chain(values).map(|column| column.len());
        if let Some(odd) = columns.chain(lengths.iter().copied()).find(|&length| length != rows) {
            return Err(self.refused(&format!("a column has {odd} rows, expected {rows}")));
        }
        if values.len() != self.schema.value.len() {
            let (found, expected) = (values.len(), self.schema.value.len());
            return Err(self.refused(&format!("found {found} value columns, expected {expected}")));
        }
        let differs = |(column, field): &(&ArrayRef, &FieldRef)| column.data_type() != field.data_type();
        match values.iter().zip(&self.schema.value).find(differs) {
            None => Ok(()),
            Some((column, field)) => Err(self.refused(&format!(
                "column `{}` has type {}, expected {}",
                field.name(),
                column.data_type(),
                field.data_type()
            ))),
        }
    }

    fn check_range(&self, keys: &Keys) -> Result<()> {
        match keys.hashes().iter().find(|&&hash| !self.range.contains(hash)) {
            None => Ok(()),
            Some(hash) => Err(self.refused(&format!(
                "a key has hash {hash:016x}, which is outside the key range {:016x}..{:016x}",
                self.range.lo, self.range.hi
            ))),
        }
    }

    fn refused(&self, why: &str) -> Error {
        Error::InvalidInput(format!("cannot change state map `{}`: {why}", self.schema.name))
    }
}

/// Return `runs` merged into one; `None` if several runs do not fit into one.
pub(super) fn merged_if_it_fits(
    runs: &[SortedRun],
    range: KeyRange,
    tombstones: Tombstones,
) -> Result<Option<SortedRun>> {
    // Rows that newer rows hide do not count, so only the merge shows whether the rest fits.
    match run::merge(runs, range, tombstones) {
        Err(_) if runs.len() > 1 && !run::fit(runs, most()) => Ok(None),
        merged => merged.map(Some),
    }
}

/// Estimate the memory for changes with these keys, not counting the columns that are collected.
fn bytes_for(keys: &[ArrayRef], sub_keys: &[ArrayRef], rows: usize) -> usize {
    let nested = keys.iter().chain(sub_keys).filter(|column| column.data_type().is_nested());
    // Three copies: the input, its canonical form, and the bytes that are hashed.
    let bytes = nested.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0).saturating_mul(3));
    bytes.fold(rows.saturating_mul(ROW_BYTES), usize::saturating_add)
}
