//! Scans of single keys: all live rows of a key, by sub-key. The cost grows with the rows found, not with the map.

use std::ops::Range;

use super::{Rows, StateMap};
use crate::error::{Error, Result};
use crate::gather::Pick;
use crate::key::Keys;

impl StateMap {
    /// Return the live rows of each of `keys`, which have key columns only, and the end of each key's rows. Rows are in
    /// the order of `keys`, then of the sub-keys' canonical bytes. For numbers these are little-endian, so they do not
    /// sort by value.
    pub fn of_keys(&self, keys: &Keys) -> Result<(Rows, Vec<usize>)> {
        self.check_whole_keys(keys)?;
        let mut picks = Vec::new();
        let mut ends = Vec::with_capacity(keys.len());
        let mut parts: Vec<(usize, Range<usize>)> = Vec::new();
        for key in 0..keys.len() {
            parts.clear();
            let found = self.runs.iter().enumerate().map(|(source, run)| (source, run.rows_of(keys, key)));
            parts.extend(found.filter(|(_, rows)| !rows.is_empty()));
            self.pick_newest(&mut parts, &mut picks);
            ends.push(picks.len());
        }
        Ok((self.rows(&picks)?, ends))
    }

    /// Merge the rows of one key, one range for each run (oldest first), into `picks`: the newest row of each sub-key,
    /// if live.
    fn pick_newest(&self, parts: &mut [(usize, Range<usize>)], picks: &mut Vec<Pick>) {
        if let [(source, rows)] = parts {
            let live = rows.filter(|&row| !self.runs[*source].is_tombstone(row));
            return picks.extend(live.map(|row| Pick::new(*source, row)));
        }
        loop {
            let heads = parts.iter().filter(|(_, rows)| !rows.is_empty()).map(|(source, rows)| (*source, rows.start));
            // Of equal sub-keys `min_by` returns the first, so the newest run comes first.
            let least =
                heads.rev().min_by(|&(a, i), &(b, j)| self.runs[a].keys().cmp_sub_keys(i, self.runs[b].keys(), j));
            let Some((source, row)) = least else { return };
            if !self.runs[source].is_tombstone(row) {
                picks.push(Pick::new(source, row));
            }
            let keys = self.runs[source].keys();
            for (other, rows) in parts.iter_mut().filter(|(_, rows)| !rows.is_empty()) {
                if *other == source || self.runs[*other].keys().cmp_sub_keys(rows.start, keys, row).is_eq() {
                    rows.start += 1;
                }
            }
        }
    }

    /// Check that `keys` have the types of this map's key, without sub-keys; otherwise `InvalidInput`.
    fn check_whole_keys(&self, keys: &Keys) -> Result<()> {
        let types = keys.columns().iter().map(|column| column.data_type());
        if keys.hashed_columns() == keys.columns().len() && types.eq(self.schema.key.iter().map(|f| f.data_type())) {
            return Ok(());
        }
        let found: Vec<String> = keys.columns().iter().map(|column| column.data_type().to_string()).collect();
        Err(Error::InvalidInput(format!(
            "cannot scan keys of ({}) in state map `{}`, which has the columns {}",
            found.join(", "),
            self.schema.name,
            self.schema.describe()
        )))
    }
}
