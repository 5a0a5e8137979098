//! The seam between the operator and the function it calls: keys with their rows go in, states and outputs come back.

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
    /// All rows of `chunks`, key by key.
    pub rows: &'a [RowAt],
    /// For each key, where its rows end in `rows`.
    pub ends: &'a [usize],
    /// State columns, one row a key.
    pub states: &'a [ArrayRef],
    /// Whether the key has a state.
    pub exists: &'a [bool],
    /// The deadline of each key, before.
    pub deadlines: &'a [Option<i64>],
    /// Whether the keys time out: each is called once, without a row.
    pub timing_out: bool,
}

/// What became of a key's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is as it was, or still is not there.
    Kept,
    /// It is the next row of `Returned::states`.
    Updated,
    /// It is gone.
    Removed,
    /// The next of `Returned::failed` tells why: state and deadline are as they were, the key's rows are put aside.
    Failed,
}

/// What the calls for the keys of a `Visit` came to.
#[derive(Debug)]
pub struct Returned {
    /// One for each key.
    pub fates: Vec<Fate>,
    /// The deadline of each key from now on; read where the function arms deadlines (`Timeout::is_armed`).
    pub deadlines: Vec<Option<i64>>,
    /// State columns, one row for each `Fate::Updated`, in order.
    pub states: Vec<ArrayRef>,
    /// Emitted rows, key by key.
    pub outputs: RecordBatch,
    /// The key number of each emitted row.
    pub emitted_by: Vec<u32>,
    /// Why, for each `Fate::Failed`, in order.
    pub failed: Vec<String>,
}

/// The function: something that is called key by key.
pub trait KeyedFunction: Send {
    /// Calls the function for every key of `visit`, in order.
    fn call(&mut self, visit: &Visit<'_>) -> Result<Returned>;

    /// Whether it is called in the first batch for each key that has an initial state, also where that has no rows.
    fn is_called_for_initial_states(&self) -> bool {
        false
    }
}
