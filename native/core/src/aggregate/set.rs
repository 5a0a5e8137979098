//! `collect_set`: the distinct values of a group in the order in which they arrived, up to a limit.
//!
//! Nulls are skipped. Values are compared like keys: −0.0 equals 0.0, and there is one NaN. INVARIANT: merging the
//! lists of first values of two consecutive parts gives the list of the whole, so each block may apply the limit.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, new_empty_array};
use arrow_schema::{DataType, Field};
use arrow_select::interleave::interleave;

use super::Accumulator;
use crate::error::Result;
use crate::key::Keys;
use crate::offsets;

/// Return the type of a set of values.
pub(super) fn set_of(value: &DataType) -> DataType {
    DataType::List(item(value))
}

fn item(value: &DataType) -> Arc<Field> {
    Arc::new(Field::new("item", value.clone(), true))
}

/// The position of a value: its source and row.
type At = (usize, usize);

pub(super) struct Set {
    value: DataType,
    limit: usize,
    sources: Vec<Keys>,
    columns: Vec<ArrayRef>,
    members: Vec<Vec<At>>,
    /// Members by group, hash, and how many other members with that hash came before.
    known: HashMap<(u32, u64, u32), At>,
}

impl Set {
    pub(super) fn new(value: &DataType, limit: usize, groups: usize) -> Self {
        let (sources, columns) = (Vec::new(), Vec::new());
        Self { value: value.clone(), limit, sources, columns, members: vec![Vec::new(); groups], known: HashMap::new() }
    }

    /// Add the values at `rows` of a column; each entry is (row, group).
    fn fold(&mut self, column: &ArrayRef, rows: impl Iterator<Item = (usize, u32)>) -> Result<()> {
        self.sources.push(Keys::new(std::slice::from_ref(column))?);
        self.columns.push(Arc::clone(column));
        for (row, group) in rows {
            if column.is_valid(row) && self.members[group as usize].len() < self.limit {
                self.add((self.sources.len() - 1, row), group);
            }
        }
        Ok(())
    }

    fn add(&mut self, at: At, group: u32) {
        let keys = &self.sources[at.0];
        for number in 0.. {
            match self.known.entry((group, keys.hash(at.1), number)) {
                std::collections::hash_map::Entry::Vacant(free) => {
                    free.insert(at);
                    self.members[group as usize].push(at);
                    return;
                }
                std::collections::hash_map::Entry::Occupied(other) => {
                    let (source, row) = *other.get();
                    if keys.eq_at(at.1, &self.sources[source], row) {
                        return;
                    }
                }
            }
        }
    }
}

impl Accumulator for Set {
    fn grow(&mut self, groups: usize) {
        self.members.resize(groups, Vec::new());
    }

    fn update(&mut self, values: Option<&ArrayRef>, groups: &[u32]) -> Result<()> {
        values.map_or(Ok(()), |values| self.fold(values, groups.iter().copied().enumerate()))
    }

    fn merge(&mut self, partials: &[ArrayRef], groups: &[u32]) -> Result<()> {
        let lists = partials[0].as_list::<i32>();
        let rows = lists.offsets().windows(2).zip(groups).enumerate().filter(|(row, _)| lists.is_valid(*row));
        let rows = rows.flat_map(|(_, (ends, &group))| {
            let (start, end) = (usize::try_from(ends[0]).unwrap_or(0), usize::try_from(ends[1]).unwrap_or(0));
            (start..end).map(move |row| (row, group))
        });
        self.fold(lists.values(), rows)
    }

    fn partials(&self) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.result()?])
    }

    fn result(&self) -> Result<ArrayRef> {
        let picks: Vec<At> = self.members.iter().flatten().copied().collect();
        let sources: Vec<&dyn Array> = self.columns.iter().map(AsRef::as_ref).collect();
        let values = if picks.is_empty() { new_empty_array(&self.value) } else { interleave(&sources, &picks)? };
        let offsets = offsets::of_lengths(self.members.iter().map(Vec::len))?;
        Ok(Arc::new(ListArray::try_new(item(&self.value), offsets, values, None)?))
    }
}
