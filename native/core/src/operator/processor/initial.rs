//! The initial state: rows that `init` wrote. The operator's first batch hands them over and removes them.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::Schema;

use super::by_key;
use crate::error::Result;
use crate::key::Keys;
use crate::map::{StateMap, take_rows};
use crate::operator::columns::keys_of;

/// The rows of the initial state, grouped by key, in their original order.
pub(super) struct InitialRows {
    pub(super) keys: Keys,
    /// Key columns, then the columns of the state.
    pub(super) rows: RecordBatch,
    pub(super) ends: Vec<usize>,
}

/// Take all rows out of the map; `None` if the map is empty.
pub(super) fn take(map: &mut StateMap, now_ms: i64) -> Result<Option<InitialRows>> {
    let stored = map.scan()?;
    let [number] = stored.sub_keys.as_slice() else { return Ok(None) };
    if stored.is_empty() {
        return Ok(None);
    }
    let numbers = number.as_primitive::<Int64Type>().values().clone();
    let (keys, of) = by_key(&keys_of(&stored.keys, stored.len())?, &numbers)?;
    #[expect(clippy::cast_possible_truncation, reason = "rows of a range are numbered by u32")]
    let mut order: Vec<u32> = (0..stored.len() as u32).collect();
    order.sort_unstable_by_key(|&row| of[row as usize]);
    let ends = (0u32..).take(keys.len()).map(|key| of.partition_point(|one| one.0 <= key)).collect();
    let columns = [take_rows(&stored.keys, &order)?, take_rows(&stored.values, &order)?].concat();
    let schema = map.schema();
    let fields: Vec<_> = schema.key.iter().chain(&schema.value).cloned().collect();
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
    map.change(&stored.removed(now_ms))?;
    Ok(Some(InitialRows { keys, rows, ends }))
}
