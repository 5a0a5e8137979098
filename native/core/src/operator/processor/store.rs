//! What a visit reads from the maps, and what its answer writes to them, for all keys of a map at once.
//!
//! INVARIANT: a row whose deadline has passed is not visible, and the same pass removes it.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};

use super::visit::{Stored, Written};
use crate::error::Result;
use crate::gather::{Pick, gather};
use crate::key::Keys;
use crate::map::{Changes, Rows, StateMap, take_rows};

/// The deadlines of the rows to put.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deadlines {
    /// No deadlines.
    Never,
    /// The same deadline for all rows.
    At(i64),
    /// The deadline in the sub-key.
    SubKey,
}

/// Return the live rows of `keys`, without those due at `expired_ms`.
pub(super) fn fetch(map: &StateMap, keys: &Keys, expired_ms: Option<i64>) -> Result<Stored> {
    let (rows, ends) = map.of_keys(keys)?;
    match expired_ms {
        Some(now_ms) if rows.deadline.iter().flatten().any(|&deadline| deadline <= now_ms) => {
            without_expired(&rows, &ends, now_ms)
        }
        _ => Ok(Stored { sub_keys: rows.sub_keys, values: rows.values, ends }),
    }
}

fn without_expired(rows: &Rows, ends: &[usize], now_ms: i64) -> Result<Stored> {
    let lives = |row: &u32| rows.deadline[*row as usize].is_none_or(|deadline| deadline > now_ms);
    #[expect(clippy::cast_possible_truncation, reason = "rows of a range are numbered by u32")]
    let left: Vec<u32> = (0..rows.len() as u32).filter(lives).collect();
    let ends = ends.iter().map(|&end| left.partition_point(|&row| (row as usize) < end)).collect();
    Ok(Stored { sub_keys: take_rows(&rows.sub_keys, &left)?, values: take_rows(&rows.values, &left)?, ends })
}

/// Write the changes of one map; return how many rows were put and removed.
pub(super) fn write(
    map: &mut StateMap,
    keys: &Keys,
    stored: &Stored,
    written: Written,
    deadlines: Deadlines,
    now_ms: i64,
) -> Result<(u64, u64)> {
    let (removed, put) = (written.removed.len(), written.keys.len());
    if removed + put == 0 {
        return Ok((0, 0));
    }
    #[expect(clippy::cast_possible_truncation, reason = "rows of a range are numbered by u32")]
    let key_of = |row: &usize| stored.ends.partition_point(|end| end <= row) as u32;
    let numbers: Vec<u32> = written.removed.iter().map(key_of).chain(written.keys).collect();
    let deadline = deadlines_of(&written.sub_keys, deadlines, put);
    let gone: Vec<Pick> = written.removed.iter().map(|&row| Pick::new(1, row)).collect();
    let changes = Changes {
        keys: keys.take(&numbers)?.columns().to_vec(),
        sub_keys: joined(&stored.sub_keys, &gone, written.sub_keys)?,
        values: joined(&[], &vec![Pick::NOWHERE; removed], written.values)?,
        updated_at: vec![now_ms; removed + put],
        deadline: std::iter::repeat_n(None, removed).chain(deadline).collect(),
        deleted: (0..removed + put).map(|row| row < removed).collect(),
    };
    map.change(&changes)?;
    Ok((put as u64, removed as u64))
}

fn deadlines_of(sub_keys: &[ArrayRef], deadlines: Deadlines, rows: usize) -> Vec<Option<i64>> {
    match (deadlines, sub_keys) {
        (Deadlines::SubKey, [expiry]) => expiry.as_primitive::<Int64Type>().iter().collect(),
        (Deadlines::At(at_ms), _) => vec![Some(at_ms); rows],
        _ => vec![None; rows],
    }
}

/// Join columns of the removed rows, which `gone` picks from `stored`, with those of the rows to put.
fn joined(stored: &[ArrayRef], gone: &[Pick], put: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
    if gone.is_empty() {
        return Ok(put);
    }
    let join = |(column, put): (usize, ArrayRef)| {
        let picks: Vec<Pick> = gone.iter().copied().chain((0..put.len()).map(|row| Pick::new(0, row))).collect();
        let sources: Vec<&dyn Array> = std::iter::once(&put).chain(stored.get(column)).map(AsRef::as_ref).collect();
        gather(put.data_type(), &sources, &picks)
    };
    put.into_iter().enumerate().map(join).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Array, Int64Array, ListArray, NullArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn removed_rows_come_before_rows_that_are_put_and_have_null_values() {
        let numbers = |numbers: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(numbers)) };
        let gone = [Pick::new(1, 2), Pick::new(1, 0)];
        let all = joined(&[numbers(vec![1, 2, 3])], &gone, vec![numbers(vec![9])]).unwrap();
        assert_eq!(all[0].as_primitive::<Int64Type>().values(), &[3, 1, 9]);
        let all = joined(&[], &[Pick::NOWHERE; 2], vec![numbers(vec![9])]).unwrap();
        assert_eq!(all[0].as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [None, None, Some(9)]);
        let all = joined(&[], &[Pick::NOWHERE; 2], vec![numbers(vec![])]).unwrap();
        assert_eq!((all[0].len(), all[0].null_count()), (2, 2));
    }

    #[test]
    fn rows_that_exceed_one_column_are_refused() {
        let items: ArrayRef = Arc::new(NullArray::new(1 << 30)); // a null array takes no memory
        let item = Arc::new(Field::new("item", items.data_type().clone(), true));
        let list: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::new(vec![0, 1 << 30].into()), items, None));
        let said = joined(&[Arc::clone(&list)], &[Pick::new(1, 0)], vec![list]).unwrap_err().to_string();
        assert!(
            said.starts_with("a column would hold more than 2147483647 bytes of text or binary, or list items\n"),
            "{said}"
        );
    }
}
