//! The interface between the operator and its function. Keys go in with their rows; states and outputs come back.

use arrow_array::{ArrayRef, RecordBatch};

use crate::error::Result;
use crate::key::Keys;
use crate::operator::{Pass, RowAt};

/// The keys that a function is to be called for.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// The pass.
    pub pass: &'a Pass,
    /// The distinct keys, sorted.
    pub keys: &'a Keys,
    /// Prepared rows.
    pub chunks: &'a [RecordBatch],
    /// All rows of `chunks`, grouped by key.
    pub rows: &'a [RowAt],
    /// For each key, where its rows end in `rows`.
    pub ends: &'a [usize],
    /// State columns, one row for each key.
    pub states: &'a [ArrayRef],
    /// Whether the key has a state.
    pub exists: &'a [bool],
    /// The deadline of each key before the call.
    pub deadlines: &'a [Option<i64>],
    /// Whether the keys time out. Each is then called once, without rows.
    pub timing_out: bool,
}

/// What happened to a key's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is unchanged, or still missing.
    Kept,
    /// It is the next row of `Returned::states`.
    Updated,
    /// It is removed.
    Removed,
    /// State and deadline are unchanged, and the key's rows are quarantined. The next entry of `Returned::failed` says
    /// why.
    Failed,
}

/// The results of the calls for the keys of a `Visit`.
#[derive(Debug)]
pub struct Returned {
    /// One for each key.
    pub fates: Vec<Fate>,
    /// The new deadline of each key; used if the function arms deadlines (`Timeout::is_armed`).
    pub deadlines: Vec<Option<i64>>,
    /// State columns, one row for each `Fate::Updated`, in order.
    pub states: Vec<ArrayRef>,
    /// Emitted rows, grouped by key.
    pub outputs: RecordBatch,
    /// The key number of each emitted row.
    pub emitted_by: Vec<u32>,
    /// The place in `Visit::rows` of the row that each was emitted for. Empty if a call gets all rows of a key, or none.
    pub emitted_for: Vec<u32>,
    /// The reason for each `Fate::Failed`, in order.
    pub failed: Vec<String>,
}

/// A function that is called key by key.
pub trait KeyedFunction: Send {
    /// Call the function for every key of `visit`, in order.
    fn call(&mut self, visit: &Visit<'_>) -> Result<Returned>;

    /// Whether the first batch calls it for each key with an initial state, even if the key has no rows.
    fn is_called_for_initial_states(&self) -> bool {
        false
    }
}
