//! Look-up of many keys: run by run from the newest, each run asked only for what newer ones did not hold.

use arrow_array::{Array, ArrayRef};

use super::{Found, StateMap};
use crate::error::Result;
use crate::key::Keys;
use crate::run::{Pick, gather};

impl StateMap {
    /// What is known of each of `keys` (key columns, then sub-key columns), in their order.
    pub fn get(&self, keys: &Keys) -> Result<Found> {
        self.check_keys(keys)?;
        let picks = self.locate(keys);
        let at = |pick: &Pick| self.runs.get(pick.source()).map(|run| (run, pick.row()));
        Ok(Found {
            values: self.values_at(&picks)?,
            updated_at: picks.iter().map(|pick| at(pick).map_or(0, |(run, row)| run.updated_at(row))).collect(),
            deadline: picks.iter().map(|pick| at(pick).and_then(|(run, row)| run.deadline(row))).collect(),
            found: picks.iter().map(|pick| !pick.is_nowhere()).collect(),
        })
    }

    /// Where the first of `keys`, which are of this map's types, has its live row: value columns, and the row in them.
    #[must_use]
    pub fn find_one(&self, keys: &Keys) -> Option<(Vec<ArrayRef>, usize)> {
        let mut found = self.runs.iter().rev().filter_map(|run| Some((run, run.find(keys, 0)?)));
        let (run, row) = found.next().filter(|(run, row)| !run.is_tombstone(*row))?;
        Some((run.columns()[self.schema.key_width()..][..self.schema.value.len()].to_vec(), row))
    }

    /// The value columns of each of `keys`, null where nothing was found: [`StateMap::get`] for those who need no times.
    pub fn values(&self, keys: &Keys) -> Result<Vec<ArrayRef>> {
        self.check_keys(keys)?;
        self.values_at(&self.locate(keys))
    }

    /// Where the newest row of each key lies, if it is there and no tombstone.
    fn locate(&self, keys: &Keys) -> Vec<Pick> {
        let mut picks = vec![Pick::NOWHERE; keys.len()];
        let mut open: Vec<u32> = (0..keys.len() as u32).collect();
        for (source, run) in self.runs.iter().enumerate().rev() {
            let found = |i, row| {
                if !run.is_tombstone(row) {
                    picks[i as usize] = Pick::new(source, row);
                }
            };
            match source {
                0 => run.take_held(keys, &mut open, found),
                _ => run.take_few_held(keys, &mut open, found),
            }
        }
        picks
    }

    fn values_at(&self, picks: &[Pick]) -> Result<Vec<ArrayRef>> {
        let first = self.schema.key_width();
        let value_column = |(value, field): (usize, &arrow_schema::FieldRef)| {
            let sources: Vec<&dyn Array> = self.runs.iter().map(|run| run.columns()[first + value].as_ref()).collect();
            gather(field.data_type(), &sources, picks)
        };
        self.schema.value.iter().enumerate().map(value_column).collect()
    }
}
