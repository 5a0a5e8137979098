//! Results that are one of the input rows: `first`, `last`, and the extremes of types that are not numbers.
//!
//! Groups store which row it is; values are copied once, at the end. For `first` and `last` a null is a value, so their
//! partial is the value and whether there was a row.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, new_null_array};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;

use super::Accumulator;
use crate::error::Result;

/// For each group, at most one row of the columns added so far.
pub(super) struct Picks {
    /// Source 0 is a single null, the value of groups without a row.
    sources: Vec<ArrayRef>,
    at: Vec<(u32, u32)>,
}

impl Picks {
    pub(super) fn new(data_type: &DataType, groups: usize) -> Self {
        Self { sources: vec![new_null_array(data_type, 1)], at: vec![(0, 0); groups] }
    }

    pub(super) fn grow(&mut self, groups: usize) {
        self.at.resize(groups, (0, 0));
    }

    /// Add a column to pick from; return its number.
    #[expect(clippy::cast_possible_truncation, reason = "a pass has fewer than 2**32 chunks")]
    pub(super) fn source(&mut self, column: &ArrayRef) -> u32 {
        self.sources.push(Arc::clone(column));
        (self.sources.len() - 1) as u32
    }

    #[expect(clippy::cast_possible_truncation, reason = "rows of a chunk are numbered by u32")]
    #[inline]
    pub(super) fn pick(&mut self, group: u32, source: u32, row: usize) {
        self.at[group as usize] = (source, row as u32);
    }

    /// Return the row picked for a group: its column and row number.
    pub(super) fn picked(&self, group: u32) -> Option<(&ArrayRef, usize)> {
        let (source, row) = self.at[group as usize];
        (source > 0).then(|| (&self.sources[source as usize], row as usize))
    }

    /// Return the picked values, null for a group without a row.
    pub(super) fn column(&self) -> Result<ArrayRef> {
        let sources: Vec<&dyn Array> = self.sources.iter().map(AsRef::as_ref).collect();
        let rows: Vec<(usize, usize)> = self.at.iter().map(|&(source, row)| (source as usize, row as usize)).collect();
        Ok(interleave(&sources, &rows)?)
    }

    fn is_set(&self, group: u32) -> bool {
        self.at[group as usize].0 > 0
    }
}

/// `first` or `last`.
pub(super) struct Edge {
    picks: Picks,
    keeps_first: bool,
}

impl Edge {
    pub(super) fn first(data_type: &DataType, groups: usize) -> Self {
        Self { picks: Picks::new(data_type, groups), keeps_first: true }
    }

    pub(super) fn last(data_type: &DataType, groups: usize) -> Self {
        Self { picks: Picks::new(data_type, groups), keeps_first: false }
    }

    fn fold(&mut self, column: &ArrayRef, groups: &[u32], is_row: impl Fn(usize) -> bool) {
        let source = self.picks.source(column);
        for (row, &group) in groups.iter().enumerate() {
            if is_row(row) && !(self.keeps_first && self.picks.is_set(group)) {
                self.picks.pick(group, source, row);
            }
        }
    }
}

impl Accumulator for Edge {
    fn grow(&mut self, groups: usize) {
        self.picks.grow(groups);
    }

    fn update(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        if let Some(values) = values {
            self.fold(values, groups, |_| true);
        }
        Ok(())
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<()> {
        let set = partials[1].as_boolean();
        self.fold(&partials[0], groups, |row| set.is_valid(row) && set.value(row));
        Ok(())
    }

    fn partials(&self) -> Result<Vec<ArrayRef>> {
        let set: BooleanArray = self.picks.at.iter().map(|&(source, _)| Some(source > 0)).collect();
        Ok(vec![self.result()?, Arc::new(set)])
    }

    fn result(&self) -> Result<ArrayRef> {
        self.picks.column()
    }
}
