//! What goes into a state map and comes out of it, column by column.

use arrow_array::ArrayRef;

/// Rows to put (or, where `deleted`, to remove), in any order. Of equal keys the last one holds.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Key columns; none for the empty key.
    pub keys: Vec<ArrayRef>,
    /// Sub-key columns.
    pub sub_keys: Vec<ArrayRef>,
    /// Value columns, of the types of the map's schema; what a deleted row has here does not matter.
    pub values: Vec<ArrayRef>,
    /// ms since the epoch; its length is the number of rows.
    pub updated_at: Vec<i64>,
    /// The first ms at which the row is due.
    pub deadline: Vec<Option<i64>>,
    /// Whether the row is removed.
    pub deleted: Vec<bool>,
}

/// Live rows, sorted by (hash of the key, key bytes, sub-key bytes).
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Key columns.
    pub keys: Vec<ArrayRef>,
    /// Sub-key columns.
    pub sub_keys: Vec<ArrayRef>,
    /// Value columns.
    pub values: Vec<ArrayRef>,
    /// ms since the epoch; its length is the number of rows.
    pub updated_at: Vec<i64>,
    /// The first ms at which the row is due.
    pub deadline: Vec<Option<i64>>,
}

/// The answer to a look-up: one row for each key asked for, in that order.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Whether there is a live row.
    pub found: Vec<bool>,
    /// Value columns, null where nothing was found.
    pub values: Vec<ArrayRef>,
    /// ms since the epoch, 0 where nothing was found.
    pub updated_at: Vec<i64>,
    /// The first ms at which the row is due, if it has a deadline.
    pub deadline: Vec<Option<i64>>,
}
