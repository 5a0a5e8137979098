//! Operations on the whole map: one run of all rows, its size, and rows that were not updated for long.

use arrow_array::new_empty_array;

use super::change::merged_if_it_fits;
use super::{Rows, StateMap};
use crate::error::Result;
use crate::gather::Pick;
use crate::key::Keys;
use crate::range::KeyRange;
use crate::run::{self, SortedRun, Tombstones, Unsorted, newest};

impl StateMap {
    /// Return the live rows that were updated strictly before `threshold_ms`, sorted. Reads every row.
    pub fn updated_before(&self, threshold_ms: i64) -> Result<Rows> {
        let mut picks = Vec::new();
        newest(&self.runs, |source, row| {
            let run = &self.runs[source];
            if !run.is_tombstone(row) && run.updated_at(row) < threshold_ms {
                picks.push(Pick::new(source, row));
            }
        });
        self.rows(&picks)
    }

    /// Its runs, oldest first. A look-up may visit all of them.
    #[must_use]
    pub fn runs(&self) -> &[SortedRun] {
        &self.runs
    }

    /// Return how many layers are above the oldest: the runs that the map was opened with, those of earlier versions
    /// whether merged or not, and all changes since then as one.
    #[must_use]
    pub fn deltas(&self) -> usize {
        (self.versions + usize::from(self.runs.len() > self.opened)).saturating_sub(1)
    }

    /// Return all live rows in one run, without tombstones.
    pub fn base(&self) -> Result<SortedRun> {
        if !self.runs.is_empty() {
            return run::merge(&self.runs, self.range, Tombstones::Drop);
        }
        let column = |field: &arrow_schema::FieldRef| new_empty_array(field.data_type());
        let (key, sub_key): (Vec<_>, Vec<_>) =
            (self.schema.key.iter().map(column).collect(), self.schema.sub_key.iter().map(column).collect());
        let values: Vec<_> = self.schema.value.iter().map(column).collect();
        let keys = Keys::with_sub_keys(&key, &sub_key, 0)?;
        let none = Unsorted { keys: &keys, values: &values, updated_at: &[], deadline: &[], deleted: &[] };
        SortedRun::from_unsorted(&self.schema, &none)
    }

    /// Merge its runs into one base. The rows do not change, and `delta` still returns what was changed.
    pub fn compact(&mut self) -> Result<()> {
        let (base, compacted) = (self.base()?, self.delta()?);
        *self = Self { compacted, ..Self::open(self.schema.clone(), &[base], self.range)? };
        Ok(())
    }

    /// Return a new version on top of this one. This version stays as it is, and its changes are not changes of the new
    /// one.
    ///
    /// Runs are merged by the tier rule, so a look-up visits few runs after any number of versions.
    pub fn next_version(&self) -> Result<Self> {
        let (opened, changes) = self.runs.split_at(self.opened);
        let mut runs = opened.to_vec();
        for newest in joined(changes, self.range)? {
            runs = self.with_newest(runs, newest, Tombstones::Drop)?;
        }
        runs.retain(|run| !run.is_empty());
        Ok(Self {
            schema: self.schema.clone(),
            range: self.range,
            opened: runs.len(),
            versions: self.versions + usize::from(!changes.is_empty()),
            runs,
            compacted: None,
        })
    }
}

/// Return the changes of a version as one run, or as they are if one run cannot hold them.
fn joined(changes: &[SortedRun], range: KeyRange) -> Result<Vec<SortedRun>> {
    match changes {
        [] => Ok(Vec::new()),
        _ => Ok(merged_if_it_fits(changes, range, Tombstones::Keep)?.map_or_else(|| changes.to_vec(), |one| vec![one])),
    }
}
