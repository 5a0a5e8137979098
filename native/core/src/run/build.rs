//! Building a run from rows in any order, or from columns that are sorted already.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef, BooleanArray, TimestampMillisecondArray, new_null_array};
use arrow_buffer::BooleanBuffer;
use once_cell::race::OnceBox;

use super::due::{DueOrder, DuePlace};
use super::filter::Filter;
use super::prefix::PrefixTable;
use super::{Body, RunIndex, SortedRun};
use crate::error::{Error, Result};
use crate::gather::{Pick, gather};
use crate::key::Keys;
use crate::schema::{MapSchema, time_type};

/// Rows in any order. A key can occur several times.
pub(crate) struct Unsorted<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) values: &'a [ArrayRef],
    pub(crate) updated_at: &'a [i64],
    pub(crate) deadline: &'a [Option<i64>],
    pub(crate) deleted: &'a [bool],
}

impl SortedRun {
    /// Build a run from `rows`, which must match `schema`. Of equal keys the last row wins. The run shares no memory
    /// with `rows`.
    pub(crate) fn from_unsorted(schema: &Arc<MapSchema>, rows: &Unsorted<'_>) -> Result<Self> {
        let order = last_of_each(rows.keys);
        let keys = rows.keys.take(&order)?;
        let kept = |row: u32| (!rows.deleted[row as usize]).then_some(row);
        let pick = |&row: &u32| kept(row).map_or(Pick::NOWHERE, |row| Pick::new(0, row as usize));
        let picks: Vec<Pick> = order.iter().map(pick).collect();
        let mut columns = keys.columns().to_vec();
        for value in rows.values {
            columns.push(gather(value.data_type(), &[value.as_ref()], &picks)?);
        }
        columns.push(times(order.iter().map(|&row| rows.updated_at[row as usize]).collect::<Vec<_>>()));
        let deadline = order.iter().map(|&row| kept(row).and_then(|row| rows.deadline[row as usize]));
        columns.push(times(deadline.collect::<Vec<_>>()));
        let deleted = order.iter().map(|&row| rows.deleted[row as usize]);
        columns.push(Arc::new(BooleanArray::from(deleted.collect::<Vec<_>>())));
        Self::from_sorted(schema, keys, columns)
    }

    /// Build a run that takes `keys` and `values` as they are. All rows have one `updated_at`, and hashes must ascend
    /// strictly.
    pub(crate) fn from_ordered(
        schema: &Arc<MapSchema>,
        keys: Keys,
        values: Vec<ArrayRef>,
        updated_at: i64,
        deadline: Vec<Option<i64>>,
    ) -> Result<Self> {
        let rows = keys.len();
        let mut columns = keys.columns().to_vec();
        columns.extend(values);
        columns.push(times(vec![updated_at; rows]));
        let has_deadlines = deadline.iter().any(Option::is_some);
        columns.push(if has_deadlines { times(deadline) } else { new_null_array(&time_type(), rows) });
        columns.push(Arc::new(BooleanArray::new(BooleanBuffer::new_unset(rows), None)));
        Self::from_sorted(schema, keys, columns)
    }

    /// Build a run from `columns` ([`MapSchema::columns`]), whose keys are `keys` and ascend strictly.
    pub(crate) fn from_sorted(schema: &Arc<MapSchema>, keys: Keys, columns: Vec<ArrayRef>) -> Result<Self> {
        let index = RunIndex { prefixes: PrefixTable::new(keys.hashes()), due: DueOrder::default() };
        Self::from_indexed(schema, keys, columns, index)
    }

    /// Build the same run with an index that is known already.
    pub(crate) fn from_indexed(
        schema: &Arc<MapSchema>,
        keys: Keys,
        columns: Vec<ArrayRef>,
        index: RunIndex,
    ) -> Result<Self> {
        let [.., updated_at, deadline, deleted] = columns.as_slice() else {
            return Err(Error::InternalError("a run needs updated_at, deadline and deleted".into()));
        };
        let rows = keys.len();
        let updated_at = updated_at.as_primitive::<TimestampMillisecondType>().values().clone();
        let deadline = deadline.as_primitive::<TimestampMillisecondType>();
        let (deadline, deadline_nulls) = (deadline.values().clone(), deadline.nulls().cloned());
        let deleted = deleted.as_boolean().values().clone();
        let RunIndex { prefixes, due } = index;
        let tombstones = deleted.count_set_bits();
        let schema = Arc::clone(schema);
        let filter = Filter::default();
        let body = Body {
            schema,
            keys,
            columns,
            column_bytes: OnceBox::new(),
            updated_at,
            deadline,
            deadline_nulls,
            deleted,
            tombstones,
            prefixes,
            filter,
            due,
        };
        Ok(Self { body: Arc::new(body), start: 0, end: rows, due_from: DuePlace::FIRST })
    }
}

/// Return times of rows as a column.
fn times<T>(times: T) -> ArrayRef
where
    TimestampMillisecondArray: From<T>,
{
    Arc::new(TimestampMillisecondArray::from(times).with_timezone("UTC"))
}

/// Return the rows in key order, with only the last row of each key.
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
