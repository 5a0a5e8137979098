//! Look-up of many keys: run by run from the newest, each run asked only for what newer ones did not hold.

use arrow_array::{Array, ArrayRef, new_null_array};

use super::{Found, StateMap};
use crate::error::Result;
use crate::key::Keys;
use crate::run::gather;

/// Where the newest row of a key lies; the source behind the last run is the one null row.
type Pick = (usize, usize);

impl StateMap {
    /// What is known of each of `keys` (key columns, then sub-key columns), in their order.
    pub fn get(&self, keys: &Keys) -> Result<Found> {
        self.check_keys(keys)?;
        let nowhere = self.runs.len();
        let picks = self.locate(keys);
        let found: Vec<bool> = picks.iter().map(|pick| pick.0 != nowhere).collect();
        let at = |pick: &Pick| (pick.0 != nowhere).then(|| (&self.runs[pick.0], pick.1));
        Ok(Found {
            values: self.values_at(&picks)?,
            updated_at: picks.iter().map(|pick| at(pick).map_or(0, |(run, row)| run.updated_at(row))).collect(),
            deadline: picks.iter().map(|pick| at(pick).and_then(|(run, row)| run.deadline(row))).collect(),
            found,
        })
    }

    fn locate(&self, keys: &Keys) -> Vec<Pick> {
        let nowhere = (self.runs.len(), 0);
        let mut picks = vec![nowhere; keys.len()];
        let mut open: Vec<u32> = (0..keys.len() as u32).collect();
        for (source, run) in self.runs.iter().enumerate().rev() {
            open.retain(|&i| match run.find(keys, i as usize) {
                None => true,
                Some(row) => {
                    if !run.is_tombstone(row) {
                        picks[i as usize] = (source, row);
                    }
                    false
                }
            });
        }
        picks
    }

    fn values_at(&self, picks: &[Pick]) -> Result<Vec<ArrayRef>> {
        let first = self.schema.key_width();
        let value_column = |(value, field): (usize, &arrow_schema::FieldRef)| {
            if self.runs.is_empty() {
                return Ok(new_null_array(field.data_type(), picks.len()));
            }
            let nothing = new_null_array(field.data_type(), 1);
            let mut sources: Vec<&dyn Array> =
                self.runs.iter().map(|run| run.columns()[first + value].as_ref()).collect();
            sources.push(nothing.as_ref());
            gather(field.data_type(), &sources, picks)
        };
        self.schema.value.iter().enumerate().map(value_column).collect()
    }

    /// Whether a run newer than `source` holds the key of its row `row`.
    pub(super) fn is_hidden(&self, source: usize, row: usize) -> bool {
        let keys = self.runs[source].keys();
        self.runs[source + 1..].iter().any(|newer| newer.find(keys, row).is_some())
    }
}
