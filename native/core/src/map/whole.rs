//! The map as one: all of it in a single run, its size, and what was not updated for long.

use arrow_array::new_empty_array;

use super::change::merged_if_it_fits;
use super::{Rows, StateMap};
use crate::error::Result;
use crate::gather::Pick;
use crate::key::Keys;
use crate::range::KeyRange;
use crate::run::{self, SortedRun, Tombstones, Unsorted, newest};

impl StateMap {
    /// The live rows that were updated strictly before `threshold_ms`, sorted. Looks at every row.
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

    /// Its runs, oldest first: a look-up may visit all of them.
    #[must_use]
    pub fn runs(&self) -> &[SortedRun] {
        &self.runs
    }

    /// How many layers lie over the oldest: those that it was opened with, those of the versions before it, merged since
    /// or not, and the changes since then as one.
    #[must_use]
    pub fn deltas(&self) -> usize {
        (self.versions + usize::from(self.runs.len() > self.opened)).saturating_sub(1)
    }

    /// All live rows in one run, without tombstones.
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

    /// Makes one base of its runs. What it holds does not change, and `delta` still tells what was changed.
    pub fn compact(&mut self) -> Result<()> {
        let (base, compacted) = (self.base()?, self.delta()?);
        *self = Self { compacted, ..Self::open(self.schema.clone(), &[base], self.range)? };
        Ok(())
    }

    /// A new version over this one, which stays as it is: what was changed so far is no change of it.
    ///
    /// Runs are merged by the tier rule, so that however many versions there were a look-up visits few of them.
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

/// The changes of a version as one run; as they are where no run holds them all.
fn joined(changes: &[SortedRun], range: KeyRange) -> Result<Vec<SortedRun>> {
    match changes {
        [] => Ok(Vec::new()),
        _ => Ok(merged_if_it_fits(changes, range, Tombstones::Keep)?.map_or_else(|| changes.to_vec(), |one| vec![one])),
    }
}
