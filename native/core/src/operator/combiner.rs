//! Keeps the blocks of a split back until there are enough of them, and folds their rows by key all at once: what
//! travels is a row a key, not one a key and block, and to sort many rows costs no more a row than to sort few.
//!
//! INVARIANT: what comes out depends on the rows, their order and how they are cut into blocks, which a plan fixes.

use arrow_array::{ArrayRef, RecordBatch};

use super::aggregates::Aggregates;
use super::groups::Groups;
use crate::error::Result;
use crate::key::Keys;

/// Rows that are folded at once, or more by less than a block.
const ENOUGH_ROWS: usize = 1 << 20;
/// Bytes of their columns, likewise.
const ENOUGH_BYTES: usize = 1 << 26;

/// Blocks kept back.
#[derive(Debug, Default)]
pub(super) struct Combiner {
    keys: Vec<Keys>,
    /// For each block, for each aggregate, what it folds.
    values: Vec<Vec<Option<ArrayRef>>>,
    rows: usize,
    bytes: usize,
}

impl Combiner {
    /// Takes a block. Returns key and partial columns of all rows kept back, and begins anew, where they are enough.
    pub(super) fn add(
        &mut self,
        operator: &str,
        aggregates: &Aggregates,
        keys: Keys,
        rows: &RecordBatch,
    ) -> Result<Option<Vec<ArrayRef>>> {
        if keys.is_empty() {
            return Ok(None);
        }
        let values = aggregates.values(operator, rows)?;
        let size = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0);
        self.rows += keys.len();
        self.bytes += keys.columns().iter().chain(values.iter().flatten()).map(size).sum::<usize>();
        self.keys.push(keys);
        self.values.push(values);
        if self.rows >= ENOUGH_ROWS || self.bytes >= ENOUGH_BYTES { self.take(aggregates) } else { Ok(None) }
    }

    /// Key and partial columns of all rows kept back, in the order of the keys; `None` if there are none.
    pub(super) fn take(&mut self, aggregates: &Aggregates) -> Result<Option<Vec<ArrayRef>>> {
        let Self { keys, values, .. } = std::mem::take(self);
        if keys.is_empty() {
            return Ok(None);
        }
        let Groups { keys, of } = Groups::new(&keys)?;
        let partials = aggregates.partials_of(keys.len(), &values, &of)?;
        Ok(Some([keys.columns(), &partials].concat()))
    }
}
