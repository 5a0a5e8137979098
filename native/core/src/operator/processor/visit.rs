//! The interface between the operator and its processor. Keys go in with their rows or timers and everything stored for
//! them; changes to store and rows to emit come back.

use arrow_array::{ArrayRef, RecordBatch};

use crate::error::Result;
use crate::key::Keys;
use crate::operator::{Pass, RowAt};

/// The keys that a processor is to be called for.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// The pass.
    pub pass: &'a Pass,
    /// The distinct keys, sorted.
    pub keys: &'a Keys,
    /// The stored rows of these keys: one entry for each variable, then the timers.
    pub stored: &'a [Stored],
    /// Why they are visited.
    pub cause: Cause<'a>,
}

/// Why keys are visited.
#[derive(Clone, Copy, Debug)]
pub enum Cause<'a> {
    /// Each key has rows. There is one call for each key.
    Rows {
        /// Prepared rows.
        chunks: &'a [RecordBatch],
        /// All rows of `chunks`, grouped by key.
        rows: &'a [RowAt],
        /// For each key, where its rows end in `rows`.
        ends: &'a [usize],
    },
    /// Each key has rows of the initial state.
    Initial {
        /// All of them, with the columns of `ProcessorSpec::initial`.
        rows: &'a RecordBatch,
        /// For each key, where its rows end.
        ends: &'a [usize],
    },
    /// Timers have expired. There is one call for each (key number, expiry in ms), in this order.
    Timers(&'a [(u32, i64)]),
}

/// The rows that one map holds for the keys of a visit, grouped by key, without expired rows.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Empty for a value, the position for a list, the user's key for a map, the expiry for timers.
    pub sub_keys: Vec<ArrayRef>,
    /// Value columns.
    pub values: Vec<ArrayRef>,
    /// For each key, where its rows end.
    pub ends: Vec<usize>,
}

impl Stored {
    /// Return the rows of key number `key`.
    #[must_use]
    pub fn rows_of(&self, key: usize) -> std::ops::Range<usize> {
        let start = key.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[key]
    }
}

/// Changes to the rows of one map.
#[derive(Debug, Default)]
pub struct Written {
    /// Rows of `Stored` to remove, ascending.
    pub removed: Vec<usize>,
    /// The key number of each row to put.
    pub keys: Vec<u32>,
    /// Sub-key columns of the rows to put.
    pub sub_keys: Vec<ArrayRef>,
    /// Value columns of the rows to put.
    pub values: Vec<ArrayRef>,
}

/// The results of the calls of a visit.
#[derive(Debug)]
pub struct Answer {
    /// One entry for each map, as in `Visit::stored`.
    pub written: Vec<Written>,
    /// Emitted rows. Rows of one key are in the order of emission.
    pub outputs: RecordBatch,
    /// The key number of each emitted row.
    pub emitted_by: Vec<u32>,
    /// If timers have expired: the expiry of the timer that each emitted row is of. Otherwise empty.
    pub expiries_ms: Vec<i64>,
    /// The keys whose calls failed, ascending, and why. Nothing of them is written or emitted.
    pub failed: Vec<(u32, String)>,
}

/// A processor that is called key by key and keeps several variables for each key.
pub trait Processor: Send {
    /// Make the calls of `visit`, in order.
    fn call(&mut self, visit: &Visit<'_>) -> Result<Answer>;
}
