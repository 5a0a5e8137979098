//! Look-up of many keys, from the newest run to the oldest. Each run is asked only for keys that newer ones lack.

use arrow_array::{Array, ArrayRef};

use super::{Found, ROW_BYTES, StateMap};
use crate::error::Result;
use crate::gather::{Gathering, Pick};
use crate::key::Keys;
use crate::memory;
use crate::run::SortedRun;

/// Keys that are looked up and collected before the next ones, so that their positions stay in cache.
const AT_ONCE: usize = 1 << 12;

impl StateMap {
    /// Look up `keys` (key columns, then sub-key columns); the answers are in their order.
    pub fn get(&self, keys: &Keys) -> Result<Found> {
        self.check_keys(keys)?;
        memory::check_available("look up keys", keys.len().saturating_mul(ROW_BYTES))?;
        let picks = self.locate(keys);
        let at = |pick: &Pick| self.runs.get(pick.source()).map(|run| (run, pick.row()));
        Ok(Found {
            values: self.values_at(&picks)?,
            updated_at: picks.iter().map(|pick| at(pick).map_or(0, |(run, row)| run.updated_at(row))).collect(),
            deadline: picks.iter().map(|pick| at(pick).and_then(|(run, row)| run.deadline(row))).collect(),
            found: picks.iter().map(|pick| !pick.is_nowhere()).collect(),
        })
    }

    /// Find the live row of the first of `keys`, which must have this map's types: value columns, and the row in them.
    #[must_use]
    pub fn find_one(&self, keys: &Keys) -> Option<(Vec<ArrayRef>, usize)> {
        let mut found = self.runs.iter().rev().filter_map(|run| Some((run, run.find(keys, 0)?)));
        let (run, row) = found.next().filter(|(run, row)| !run.is_tombstone(*row))?;
        Some((run.columns()[self.schema.key_width()..][..self.schema.value.len()].to_vec(), row))
    }

    /// Return the value columns of each of `keys`, null if nothing was found. Use [`StateMap::get`] if you also need
    /// times.
    pub fn values(&self, keys: &Keys) -> Result<Vec<ArrayRef>> {
        self.check_keys(keys)?;
        let sources = self.value_sources();
        let mut columns = self.value_gatherings(&sources, keys.len())?;
        let mut found = Located::default();
        for start in (0..keys.len()).step_by(AT_ONCE) {
            let picks = found.of(&self.runs, keys, start..keys.len().min(start + AT_ONCE));
            columns.iter_mut().try_for_each(|column| column.add(picks))?;
        }
        columns.into_iter().map(Gathering::finish).collect()
    }

    /// Return the position of the newest row of each key; nowhere if that row is missing or a tombstone.
    fn locate(&self, keys: &Keys) -> Vec<Pick> {
        let mut found = Located::default();
        found.of(&self.runs, keys, 0..keys.len());
        found.picks
    }

    fn values_at(&self, picks: &[Pick]) -> Result<Vec<ArrayRef>> {
        let sources = self.value_sources();
        let gathered = self.value_gatherings(&sources, picks.len())?.into_iter().map(|mut column| {
            column.add(picks)?;
            column.finish()
        });
        gathered.collect()
    }

    /// For each value column, the column of each run.
    fn value_sources(&self) -> Vec<Vec<&dyn Array>> {
        let columns = self.schema.key_width()..self.schema.key_width() + self.schema.value.len();
        columns.map(|column| self.runs.iter().map(|run| run.columns()[column].as_ref()).collect()).collect()
    }

    fn value_gatherings<'a>(&self, sources: &'a [Vec<&'a dyn Array>], rows: usize) -> Result<Vec<Gathering<'a>>> {
        let fields = self.schema.value.iter().zip(sources);
        fields.map(|(field, sources)| Gathering::new(field.data_type(), sources, rows)).collect()
    }
}

/// Positions of keys, in memory that is reused for the next keys.
#[derive(Default)]
struct Located {
    picks: Vec<Pick>,
    open: Vec<u32>,
}

impl Located {
    /// For each of the keys `range`, return the position of its newest row in `runs`; nowhere if that row is missing or
    /// a tombstone.
    #[expect(clippy::cast_possible_truncation, reason = "keys are numbered by u32")]
    fn of(&mut self, runs: &[SortedRun], keys: &Keys, range: std::ops::Range<usize>) -> &[Pick] {
        let Self { picks, open } = self;
        picks.clear();
        picks.resize(range.len(), Pick::NOWHERE);
        open.clear();
        open.extend(range.start as u32..range.end as u32);
        for (source, run) in runs.iter().enumerate().rev() {
            let found = |i, row| {
                if !run.is_tombstone(row) {
                    picks[i as usize - range.start] = Pick::new(source, row);
                }
            };
            match source {
                0 => run.take_held(keys, open, found),
                _ => run.take_few_held(keys, open, found),
            }
        }
        picks
    }
}
