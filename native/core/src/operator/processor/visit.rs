//! The seam between the operator and the processor it calls: keys with their rows or timers and all that is stored of
//! them go in, what is to be stored and emitted comes back.

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
    /// What is stored of these keys: one for each variable, then the timers.
    pub stored: &'a [Stored],
    /// Why they are visited.
    pub cause: Cause<'a>,
}

/// Why keys are visited.
#[derive(Clone, Copy, Debug)]
pub enum Cause<'a> {
    /// Each key has rows: one call a key.
    Rows {
        /// Prepared rows.
        chunks: &'a [RecordBatch],
        /// All rows of `chunks`, key by key.
        rows: &'a [RowAt],
        /// For each key, where its rows end in `rows`.
        ends: &'a [usize],
    },
    /// Each key has rows of the initial state.
    Initial {
        /// All of them, by the columns of `ProcessorSpec::initial`.
        rows: &'a RecordBatch,
        /// For each key, where its rows end.
        ends: &'a [usize],
    },
    /// Timers have expired: one call for each (key number, expiry in ms), in this order.
    Timers(&'a [(u32, i64)]),
}

/// The rows that one map has of the keys of a visit, key by key; expired ones are not among them.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// Nothing for a value, the position for a list, the user's key for a map, the expiry for timers.
    pub sub_keys: Vec<ArrayRef>,
    /// Value columns.
    pub values: Vec<ArrayRef>,
    /// For each key, where its rows end.
    pub ends: Vec<usize>,
}

impl Stored {
    /// The rows of key number `key`.
    #[must_use]
    pub fn rows_of(&self, key: usize) -> std::ops::Range<usize> {
        let start = key.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[key]
    }
}

/// What became of the rows of one map.
#[derive(Debug, Default)]
pub struct Written {
    /// Rows of `Stored` that go, ascending.
    pub removed: Vec<usize>,
    /// The key number of each row that is put.
    pub keys: Vec<u32>,
    /// Sub-key columns of the rows that are put.
    pub sub_keys: Vec<ArrayRef>,
    /// Value columns of the rows that are put.
    pub values: Vec<ArrayRef>,
}

/// What the calls of a visit came to.
#[derive(Debug)]
pub struct Answer {
    /// One for each map, as in `Visit::stored`.
    pub written: Vec<Written>,
    /// Emitted rows; those of a key in the order in which they were emitted.
    pub outputs: RecordBatch,
    /// The key number of each emitted row.
    pub emitted_by: Vec<u32>,
    /// The keys whose calls failed, ascending, and why: nothing of them is written or emitted.
    pub failed: Vec<(u32, String)>,
}

/// Something that is called key by key and keeps several variables of each.
pub trait Processor: Send {
    /// Makes the calls of `visit`, in order.
    fn call(&mut self, visit: &Visit<'_>) -> Result<Answer>;
}
