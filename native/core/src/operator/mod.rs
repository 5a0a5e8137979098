//! The seam of keyed operators: what one is given in a pass, what it sends through the exchange, what it emits.
//!
//! An operator that is new arrives as one file here. It sees rows, keys and state maps; versions, objects and Python
//! stand outside. INVARIANT: what it does depends on the rows and their order, never on how a batch was cut over tasks.

mod aggregate;
mod columns;
mod combiner;
mod deduplicate;
mod event_time;
mod exchange;
mod groups;
mod key_time;
mod keyed_function;
mod output;
mod partials;
mod processor;
mod session;
#[cfg(test)]
mod tests;
mod touching;
mod window;

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;

pub use aggregate::{AggregateOperator, AggregateSpec};
pub use deduplicate::{DeduplicateOperator, DeduplicateSpec, Forget};
pub use groups::{Groups, RowAt};
pub use key_time::KeyTimeSpec;
pub use keyed_function::{
    Fate, KeyedFunction, KeyedFunctionOperator, KeyedFunctionSpec, LateRows, Returned, Timeout, Visit,
};
pub use output::{Output, Quarantined};
pub use partials::Call;
pub use processor::{
    Answer, Cause, Processor, ProcessorOperator, ProcessorSpec, Stored, TimeMode, Variable, Visit as ProcessorVisit,
    Written,
};
pub use session::{SessionOperator, SessionSpec};
pub use window::{Cut, Ends, WindowSpec};

use crate::error::Result;
use crate::map::StateMap;
use crate::schema::MapSchema;

/// Which pass of a batch this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassKind {
    /// The batch's rows, then what is due by the watermark of the last commit. A sweep is one without rows.
    Data,
    /// What is due because the data moved the watermark.
    Due,
}

/// One pass of a batch, and the times it lives by.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Data or due.
    pub kind: PassKind,
    /// "Now" in this batch.
    pub batch_time_ms: i64,
    /// Rows at or before it are late; `None`: there is no watermark.
    pub late_ms: Option<i64>,
    /// What event-time deadlines are compared with; `None`: there is no watermark.
    pub watermark_ms: Option<i64>,
    /// Whether the maps hold an initial state, which no batch has handled: this is the operator's first one.
    pub begins: bool,
}

/// How `prepare` may shrink its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// The rows are the next block of a split: rows of one key may be folded into one, within the block, or, kept back
    /// until `rest`, within the split.
    Split,
    /// The rows are outputs of an operator before: each stays by itself, in the order it has.
    Nothing,
}

/// What an operator sends through the exchange.
#[derive(Debug)]
pub struct Prepared {
    /// Rows of `Operator::prepared_schema`, key columns first; none where they are kept back.
    pub rows: RecordBatch,
    /// Which of the rows given were late and are missing in `rows`; `None`: none.
    pub late: Option<BooleanBuffer>,
}

/// What an operator did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Rows it was given: those that `prepare` let pass, and those that `apply` folded.
    pub rows: u64,
    /// State rows written.
    pub rows_updated: u64,
    /// State rows removed, by the function or because they timed out.
    pub rows_removed: u64,
    /// Keys that timed out.
    pub timed_out: u64,
    /// Keys whose calls failed, with rows and timing out; their rows were put aside.
    pub failed: u64,
}

/// The name of an operator, what it keeps, and the columns of the rows that leave it.
#[derive(Clone, Debug)]
pub struct Signature {
    /// The operator's name, for messages.
    pub name: String,
    /// The state maps that it keeps, in the order in which `Operator::apply` gets them.
    pub maps: Vec<MapSchema>,
    /// The columns of `Prepared::rows`: key columns first.
    pub prepared: SchemaRef,
    /// The columns of the rows that it emits.
    pub output: SchemaRef,
}

/// A keyed operator: `prepare` before the exchange, `apply` after it.
pub trait Operator: Send {
    /// The operator's name, its state maps and the columns of its rows. They do not change.
    fn signature(&self) -> &Signature;

    /// Takes late rows out, and combines what can be combined, as `combine` says.
    fn prepare(&mut self, rows: &RecordBatch, pass: &Pass, combine: Combine) -> Result<Prepared>;

    /// What `prepare` has kept back of the rows of a split, where it keeps any; asked for at the end of the split.
    fn rest(&mut self) -> Result<Option<RecordBatch>> {
        Ok(None)
    }

    /// Folds the prepared rows (chunks in plan order) into the maps, then fires what is due.
    ///
    /// After an error the maps hold part of the pass: the caller drops them.
    fn apply(&mut self, chunks: &[RecordBatch], maps: &mut [StateMap], pass: &Pass, out: &mut Output) -> Result<()>;

    /// Counts since it was made.
    fn metrics(&self) -> Metrics;
}
