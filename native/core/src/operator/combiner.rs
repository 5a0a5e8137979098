//! Collects blocks of a split and groups their rows by key, so that one row for each key is exchanged, not one for each
//! key and block. If a hash table can number the keys, it does so as blocks arrive, and a block may be folded while the
//! next one is read. Otherwise all rows are sorted together, which costs no more for each row than sorting few rows.
//!
//! INVARIANT: the result depends on the rows, their order and their blocks, which the plan fixes, and not on their
//! memory layout. Changing the limits would add doubles in a different order.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::groups::{Grouping, Groups};
use crate::error::Result;
use crate::key::Keys;

/// The columns of a block that are folded; `None` for a count of rows.
pub(super) type Values = Vec<Option<ArrayRef>>;

/// When to fold the collected rows. The last block may exceed the limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) rows: usize,
    /// Bytes of the collected columns.
    pub(super) bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rows: 1 << 20, bytes: 1 << 26 }
    }
}

/// The blocks collected so far.
#[derive(Debug, Default)]
pub(super) struct Combiner {
    enough: Limits,
    keys: Vec<Keys>,
    /// The numbering of `keys`; `None` before the first block.
    grouping: Option<Grouping>,
    /// The values of each block.
    values: Vec<Values>,
    rows: usize,
    bytes: usize,
}

/// The keys and the values of the collected blocks.
#[derive(Debug)]
pub(super) struct Kept {
    keys: Vec<Keys>,
    grouping: Grouping,
    values: Vec<Values>,
}

impl Kept {
    /// Return the groups of all rows, and the values of each block.
    pub(super) fn grouped(self) -> Result<(Groups, Vec<Values>)> {
        Ok((self.grouping.groups(&self.keys)?, self.values))
    }

    /// Return the distinct keys, sorted, and the number that each had on arrival; `None` if rows must be sorted.
    pub(super) fn in_order(&self) -> Result<Option<(Keys, Vec<u32>)>> {
        self.grouping.in_order(&self.keys)
    }
}

/// A block whose keys are numbered.
pub(super) struct NumberedBlock<'a> {
    pub(super) values: &'a Values,
    /// How many distinct keys there are so far.
    pub(super) keys: usize,
    /// The number of each row's key, in the order of arrival.
    pub(super) numbers: &'a [u32],
}

impl Combiner {
    /// Start with other limits.
    #[cfg(test)]
    pub(super) fn new(enough: Limits) -> Self {
        Self { enough, ..Self::default() }
    }

    /// Add a block: the keys of its rows, and their values. Calls `come` with them, or with `None` if rows will be
    /// sorted. Does not call it for an empty block.
    pub(super) fn add(
        &mut self,
        keys: Keys,
        values: Values,
        come: impl FnOnce(Option<NumberedBlock<'_>>) -> Result<()>,
    ) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        self.rows += keys.len();
        self.bytes += keys.columns().iter().chain(values.iter().flatten()).map(content_bytes).sum::<usize>();
        let grouping = self.grouping.get_or_insert_with(|| Grouping::new(self.enough.rows));
        grouping.add(&keys);
        come(grouping.last().map(|(keys, numbers)| NumberedBlock { values: &values, keys, numbers }))?;
        self.keys.push(keys);
        self.values.push(values);
        Ok(())
    }

    /// Take everything if a limit is reached, and start over.
    pub(super) fn take_if_full(&mut self) -> Option<Kept> {
        let is_enough = self.rows >= self.enough.rows || self.bytes >= self.enough.bytes;
        if is_enough { self.take() } else { None }
    }

    /// Take everything, and start over; `None` if there is nothing.
    pub(super) fn take(&mut self) -> Option<Kept> {
        let enough = self.enough;
        let Self { keys, values, grouping, .. } = std::mem::replace(self, Self { enough, ..Self::default() });
        Some(Kept { keys, grouping: grouping?, values })
    }
}

/// Return the bytes of a column's cells by their content, not by their memory layout. Null bitmaps are not counted.
fn content_bytes(column: &ArrayRef) -> usize {
    let ends = |offsets: &[i32]| match offsets {
        [first, .., last] => (first.unsigned_abs() as usize, last.unsigned_abs() as usize),
        _ => (0, 0),
    };
    let items = |offsets: &[i32], items: &ArrayRef| {
        let (first, last) = ends(offsets);
        content_bytes(&items.slice(first, last - first))
    };
    let rows = column.len();
    let text = |offsets: &[i32]| ends(offsets).1 - ends(offsets).0;
    // The content of the cells, and the fixed bytes for each row.
    let (held, each) = match column.data_type() {
        DataType::Utf8 => (text(column.as_string::<i32>().offsets()), size_of::<i32>()),
        DataType::Binary => (text(column.as_binary::<i32>().offsets()), size_of::<i32>()),
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            (items(list.offsets(), list.values()), size_of::<i32>())
        }
        DataType::Map(_, _) => {
            let map = column.as_map();
            let entries: ArrayRef = std::sync::Arc::new(map.entries().clone());
            (items(map.offsets(), &entries), size_of::<i32>())
        }
        DataType::Struct(_) => (column.as_struct().columns().iter().map(content_bytes).sum(), 0),
        other => (0, other.primitive_width().unwrap_or(1)),
    };
    held + rows * each
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder};
    use arrow_array::{BooleanArray, Int32Array, StringArray, StructArray};
    use arrow_schema::Field;
    use arrow_select::concat::concat;

    use super::*;

    #[test]
    fn content_bytes_do_not_depend_on_the_memory_layout() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("ab"), None, Some("cde"), Some("")]));
        let mut lists = ListBuilder::new(StringBuilder::new());
        let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        for row in 0..4i64 {
            (0..row).for_each(|item| lists.values().append_value("x".repeat(item as usize)));
            lists.append(row != 2);
            maps.keys().append_value("key");
            maps.values().append_value(row);
            maps.append(true).unwrap();
        }
        let (lists, maps): (ArrayRef, ArrayRef) = (Arc::new(lists.finish()), Arc::new(maps.finish()));
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
        let field = |name: &str, column: &ArrayRef| Arc::new(Field::new(name, column.data_type().clone(), true));
        let structs: ArrayRef =
            Arc::new(StructArray::from(vec![(field("t", &texts), texts.clone()), (field("l", &lists), lists.clone())]));
        let bits: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true, true]));
        for (column, expected) in [(&texts, 5 + 16), (&numbers, 16), (&bits, 4), (&maps, 16 + 4 * (3 + 4 + 8))] {
            assert_eq!(content_bytes(column), expected, "{}", column.data_type());
        }
        for column in [&texts, &numbers, &bits, &maps, &lists, &structs] {
            let parts: Vec<ArrayRef> = (0..4).map(|row| column.slice(row, 1)).collect();
            let copied: Vec<ArrayRef> = parts.iter().map(|part| concat(&[part.as_ref()]).unwrap()).collect();
            let total = |columns: &[ArrayRef]| columns.iter().map(content_bytes).sum::<usize>();
            assert_eq!(total(&parts), content_bytes(column), "{}", column.data_type());
            assert_eq!(total(&copied), total(&parts), "{}", column.data_type());
        }
    }
}
