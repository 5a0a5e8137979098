//! Making a run: from rows in any order, or from columns that are sorted already.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef, BooleanArray, TimestampMillisecondArray, UInt32Array};
use arrow_select::take::take;

use super::due::DueBlocks;
use super::prefix::PrefixTable;
use super::{Body, SortedRun};
use crate::error::{Error, Result};
use crate::key::Keys;
use crate::schema::MapSchema;

/// Rows in any order, a key maybe several times.
pub(crate) struct Unsorted<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) values: &'a [ArrayRef],
    pub(crate) updated_at: &'a [i64],
    pub(crate) deadline: &'a [Option<i64>],
    pub(crate) deleted: &'a [bool],
}

impl SortedRun {
    /// The run of `rows`, checked to be of `schema`; of equal keys the last one holds.
    pub(crate) fn from_unsorted(schema: &Arc<MapSchema>, rows: &Unsorted<'_>) -> Result<Self> {
        let order = last_of_each(rows.keys);
        let keys = rows.keys.take(&order)?;
        let deleted: Vec<bool> = order.iter().map(|&row| rows.deleted[row as usize]).collect();
        let kept = |row: u32| (!rows.deleted[row as usize]).then_some(row);
        let indices: UInt32Array = order.iter().map(|&row| kept(row)).collect();
        let mut columns = keys.columns().to_vec();
        for value in rows.values {
            columns.push(take(value, &indices, None)?);
        }
        let updated_at = order.iter().map(|&row| rows.updated_at[row as usize]);
        let deadline = order.iter().map(|&row| kept(row).and_then(|row| rows.deadline[row as usize]));
        columns.push(Arc::new(TimestampMillisecondArray::from_iter_values(updated_at).with_timezone("UTC")));
        columns.push(Arc::new(deadline.collect::<TimestampMillisecondArray>().with_timezone("UTC")));
        columns.push(Arc::new(BooleanArray::from(deleted)));
        Self::from_sorted(schema, keys, columns)
    }

    /// The run of `columns` ([`MapSchema::columns`]), whose keys are `keys` and ascend strictly.
    pub(crate) fn from_sorted(schema: &Arc<MapSchema>, keys: Keys, columns: Vec<ArrayRef>) -> Result<Self> {
        let [.., updated_at, deadline, deleted] = columns.as_slice() else {
            return Err(Error::InternalError("a run needs updated_at, deadline and deleted".into()));
        };
        let rows = keys.len();
        let updated_at = updated_at.as_primitive::<TimestampMillisecondType>().values().clone();
        let deadline = deadline.as_primitive::<TimestampMillisecondType>();
        let (deadline, deadline_nulls) = (deadline.values().clone(), deadline.nulls().cloned());
        let deleted = deleted.as_boolean().values().clone();
        let due = due_blocks(rows, &deadline, deadline_nulls.as_ref());
        let prefixes = PrefixTable::new(keys.hashes());
        let tombstones = deleted.count_set_bits();
        let schema = Arc::clone(schema);
        let body =
            Body { schema, keys, columns, updated_at, deadline, deadline_nulls, deleted, tombstones, prefixes, due };
        Ok(Self { body: Arc::new(body), start: 0, end: rows })
    }
}

fn due_blocks(rows: usize, deadline: &[i64], nulls: Option<&arrow_buffer::NullBuffer>) -> DueBlocks {
    match nulls {
        Some(nulls) if nulls.null_count() == rows => DueBlocks::default(),
        Some(nulls) => DueBlocks::new(rows, |row| nulls.is_valid(row).then(|| deadline[row])),
        None => DueBlocks::new(rows, |row| Some(deadline[row])),
    }
}

/// The rows in the order of their keys, only the last one of each key.
fn last_of_each(keys: &Keys) -> Vec<u32> {
    let order = keys.order();
    let mut kept: Vec<u32> = Vec::with_capacity(order.len());
    for row in order {
        match kept.last_mut() {
            Some(last) if keys.eq_at(*last as usize, keys, row as usize) => *last = row,
            _ => kept.push(row),
        }
    }
    kept
}
